#include "worker/dataset/sparse/byte_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "worker/dataset/sparse/standard_input.h"
#include "worker/dataset/temp_file.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<CancelSignal> MakeSignal() {
  absl::StatusOr<std::unique_ptr<CancelSignal>> signal = CancelSignal::Create();
  CHECK(signal.ok()) << signal.status();
  return *std::move(signal);
}

// All bytes of a file, read in pieces of `piece` bytes.
absl::StatusOr<std::string> ReadAll(const std::string& path, size_t piece = 1000) {
  const std::unique_ptr<CancelSignal> signal = MakeSignal();
  absl::StatusOr<std::unique_ptr<ByteStream>> stream = ByteStream::Open(path, signal.get());
  if (!stream.ok()) return stream.status();
  std::string bytes;
  std::string buffer(piece, '\0');
  while (true) {
    const absl::StatusOr<size_t> count = (*stream)->Read(absl::MakeSpan(buffer));
    if (!count.ok()) return count.status();
    if (*count == 0) return bytes;
    bytes.append(buffer, 0, *count);
  }
}

// Text of several buffers' length.
std::string LongText() {
  Random random(/*seed=*/1);
  std::string text(size_t{1} << 20, ' ');
  for (char& c : text) c = static_cast<char>('0' + random.UniformInt(10));
  return text;
}

TEST(ByteStreamTest, PlainAndCompressedFilesReadTheSame) {
  for (const std::string& text : {std::string(), std::string("x"), LongText()}) {
    for (const std::string& bytes : {text, GzipBytes(text)}) {
      const absl::StatusOr<std::string> result = ReadAll(WriteTempFile("data", bytes));
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(*result, text);
    }
  }
}

TEST(ByteStreamTest, EverySizeOfTheReadsGivesTheSameBytes) {
  const std::string text(10000, 'x');  // packs to a few bytes, which give many reads
  const std::string path = WriteTempFile("data.gz", GzipBytes(text));
  for (const size_t piece : {1, 7, 9999, 10000, 10001}) {
    const absl::StatusOr<std::string> result = ReadAll(path, piece);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result, text) << piece;
  }
}

TEST(ByteStreamTest, MembersOfAGzipFileAreJoined) {
  const std::string bytes = GzipBytes("one,") + GzipBytes("") + GzipBytes("two");
  const absl::StatusOr<std::string> result = ReadAll(WriteTempFile("data.gz", bytes));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, "one,two");
}

// As on tapes, and as gzip does. They fill several buffers.
TEST(ByteStreamTest, ZerosBehindGzipAreLeftOut) {
  const std::string zeros(300'000, '\0');
  EXPECT_EQ(*ReadAll(WriteTempFile("data.gz", GzipBytes("hello") + zeros)), "hello");
  EXPECT_EQ(ReadAll(WriteTempFile("data.gz", GzipBytes("hello") + zeros + "x")).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(ByteStreamTest, EveryTruncationOfGzipIsDataLoss) {
  const std::string bytes = GzipBytes("0 1:1 2:2\n1 3:1\n");
  for (size_t length = 2; length < bytes.size(); ++length) {
    const std::string path = WriteTempFile("data.gz", bytes.substr(0, length));
    const absl::Status status = ReadAll(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << length;
    EXPECT_EQ(status.message(), absl::StrCat("data file ", path,
                                             ": corrupt gzip data (the end is missing): copy the "
                                             "file again"));
  }
}

TEST(ByteStreamTest, CorruptGzipIsDataLoss) {
  std::string bytes = GzipBytes("0 1:1 2:2\n1 3:1\n");
  EXPECT_EQ(ReadAll(WriteTempFile("garbage.gz", bytes + "garbage")).status().code(),
            absl::StatusCode::kDataLoss);
  bytes[bytes.size() - 6] ^= 1;  // in the checksum
  EXPECT_THAT(ReadAll(WriteTempFile("checksum.gz", bytes)).status().message(),
              HasSubstr("corrupt gzip data (incorrect data check)"));
}

TEST(ByteStreamTest, MissingFileAndDirectoryAreNamed) {
  const absl::Status missing = ReadAll("/nowhere/x").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("data file /nowhere/x does not exist: check the path"));
  const absl::Status directory = ReadAll(testing::TempDir()).status();
  EXPECT_EQ(directory.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(directory.message(), HasSubstr("expected a file, but it is a folder"));
}

TEST(ByteStreamTest, StandardInputBringsGzipByteByByte) {
  StandardInput input;
  std::thread writer([&input] {
    for (const char byte : GzipBytes("hello")) input.Write(std::string(1, byte));
    input.End();
  });
  const absl::StatusOr<std::string> result = ReadAll(kStandardInput);
  writer.join();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, "hello");
}

TEST(ByteStreamTest, NamedPipesAndDevicesAreRefusedAtOnce) {
  const std::string path = absl::StrCat(testing::TempDir(), "/byte_stream_test_pipe");
  unlink(path.c_str());  // of an earlier run
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  for (const std::string& source : {path, std::string("/dev/zero")}) {
    const absl::Status status = ReadAll(source).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--data_path=-"));
  }
  unlink(path.c_str());
}

TEST(ByteStreamTest, CancelEndsAWaitForASilentInput) {
  StandardInput input;
  const std::unique_ptr<CancelSignal> signal = MakeSignal();
  absl::StatusOr<std::unique_ptr<ByteStream>> stream =
      ByteStream::Open(kStandardInput, signal.get());
  ASSERT_TRUE(stream.ok()) << stream.status();
  std::thread canceller([&signal] { signal->Cancel(); });
  std::string buffer(10, '\0');
  const absl::Status status = (*stream)->Read(absl::MakeSpan(buffer)).status();
  canceller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(status.message(), "standard input: reading was cancelled");
}

}  // namespace
}  // namespace capstan
