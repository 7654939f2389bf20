#include "worker/dataset/gzip_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "worker/dataset/temp_file.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr FileLimits kNoLimit = {UINT64_MAX};

// Text whose length is a multiple of any output buffer, so that its end and a buffer's coincide.
std::string LongText() {
  Random random(/*seed=*/1);
  std::string text(size_t{1} << 20, ' ');
  for (char& c : text) c = static_cast<char>('0' + random.UniformInt(10));
  return text;
}

TEST(GunzipTest, ReturnsWhatWasCompressed) {
  for (const std::string& text : {std::string(), std::string("hello"), LongText()}) {
    const absl::StatusOr<std::string> result = Gunzip(GzipBytes(text), kNoLimit);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result, text);
  }
}

TEST(GunzipTest, ConcatenatedMembersAreJoined) {
  const absl::StatusOr<std::string> result = Gunzip(GzipBytes("one,") + GzipBytes("two"), kNoLimit);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, "one,two");
}

TEST(GunzipTest, EveryTruncationIsDataLoss) {
  const std::string bytes = GzipBytes("0,1,2,3,4,5,6,7,8,9\n10,11,12\n");
  for (size_t length = 2; length < bytes.size(); ++length) {
    const absl::Status status = Gunzip(bytes.substr(0, length), kNoLimit).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << length;
    EXPECT_EQ(status.message(), "truncated gzip data") << length;
  }
}

TEST(GunzipTest, MissingTrailerOfALongFileIsDataLoss) {
  const std::string bytes = GzipBytes(LongText());
  for (size_t missing = 1; missing <= 8; ++missing) {
    const absl::Status status = Gunzip(bytes.substr(0, bytes.size() - missing), kNoLimit).status();
    EXPECT_EQ(status.message(), "truncated gzip data") << missing;
  }
}

TEST(GunzipTest, EveryFlippedByteOfTheDataIsDataLoss) {
  constexpr size_t kHeaderBytes = 10;
  const std::string bytes = GzipBytes("0,1,2,3,4,5,6,7,8,9\n10,11,12\n");
  for (size_t i = kHeaderBytes; i < bytes.size(); ++i) {
    std::string corrupt = bytes;
    corrupt[i] = static_cast<char>(~corrupt[i]);
    EXPECT_EQ(Gunzip(corrupt, kNoLimit).status().code(), absl::StatusCode::kDataLoss) << i;
  }
}

TEST(GunzipTest, BytesAfterTheEndAreDataLoss) {
  const absl::Status status = Gunzip(GzipBytes("hello") + "garbage", kNoLimit).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("corrupt gzip data"));
}

// As on tapes, and as gzip does.
TEST(GunzipTest, ZerosAfterTheEndAreLeftOut) {
  const std::string zeros(5000, '\0');
  EXPECT_EQ(*Gunzip(GzipBytes("hello") + zeros, kNoLimit), "hello");
  EXPECT_EQ(Gunzip(GzipBytes("hello") + zeros + "x", kNoLimit).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(GunzipTest, ResultBeyondTheLimitIsRefused) {
  EXPECT_TRUE(Gunzip(GzipBytes("hello"), {/*bytes=*/5}).ok());
  const absl::Status status = Gunzip(GzipBytes("hello"), {/*bytes=*/4}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("larger than 4 bytes"));
}

TEST(GunzipTest, OnlyTheMagicNumberMakesAGzip) {
  EXPECT_TRUE(IsGzip(GzipBytes("")));
  EXPECT_FALSE(IsGzip(""));
  EXPECT_FALSE(IsGzip("\x1f"));
  EXPECT_FALSE(IsGzip("1,2"));
}

TEST(GzipFileTest, PlainAndCompressedFilesReadTheSame) {
  const std::string text = "1,2\n3,4\n";
  for (const std::string& bytes : {text, GzipBytes(text)}) {
    const absl::StatusOr<std::string> result = ReadGzipFile(WriteTempFile("data", bytes));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result, text);
  }
}

TEST(GzipFileTest, MissingFileIsNamed) {
  const absl::Status status = ReadGzipFile("/nowhere/y.csv").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("data file /nowhere/y.csv does not exist: "));
}

TEST(GzipFileTest, DirectoryIsRefused) {
  const absl::Status status = ReadGzipFile(testing::TempDir()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(testing::TempDir()));
  EXPECT_THAT(status.message(), HasSubstr("expected a file: it is a folder"));
}

TEST(GzipFileTest, PathThroughAFileIsRefused) {
  const std::string file = WriteTempFile("data", "1,2\n");
  EXPECT_THAT(ReadGzipFile(file + "/y.csv").status().message(),
              HasSubstr(absl::StrCat("data file ", file, "/y.csv cannot be opened")));
}

TEST(GzipFileTest, TruncatedGzipIsDataLossThatNamesTheFile) {
  const std::string bytes = GzipBytes("1,2\n3,4\n");
  const std::string path = WriteTempFile("data.gz", bytes.substr(0, bytes.size() - 9));
  const absl::Status status = ReadGzipFile(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(),
            absl::StrCat("data file ", path, ": truncated gzip data: copy the file again"));
}

TEST(GzipFileTest, CorruptGzipIsDataLoss) {
  std::string bytes = GzipBytes("1,2\n3,4\n");
  bytes[bytes.size() - 6] ^= 1;  // in the checksum
  const absl::Status status = ReadGzipFile(WriteTempFile("data.gz", bytes)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("corrupt gzip data (incorrect data check)"));
}

TEST(GzipFileTest, FilesBeyondTheLimitAreRefusedPlainAndCompressed) {
  const std::string text(1000, '1');
  for (const std::string& bytes : {text, GzipBytes(text)}) {
    const std::string path = WriteTempFile("data", bytes);
    EXPECT_TRUE(ReadGzipFile(path, {/*bytes=*/1000}).ok());
    const absl::Status status = ReadGzipFile(path, {/*bytes=*/999}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(), HasSubstr(path));
  }
}

TEST(GzipFileTest, AFileOfMoreThanEightGibibytesIsNotEvenRead) {
  const std::string path = WriteTempFile("holes", "");
  std::filesystem::resize_file(path, (uint64_t{8} << 30) + 1);
  const absl::Status status = ReadGzipFile(path).status();
  std::filesystem::remove(path);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("larger than 8589934592 bytes"));
}

TEST(GzipFileTest, WhatIsNoFileIsRefusedAtOnce) {
  const std::string pipe = absl::StrCat(testing::TempDir(), "/gzip_file_test_pipe");
  unlink(pipe.c_str());  // of an earlier run
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(ReadGzipFile(pipe).status().message(), HasSubstr("expected a file: it is a pipe"));
  EXPECT_THAT(ReadGzipFile("/dev/zero").status().message(), HasSubstr("it is a device"));
  unlink(pipe.c_str());
}

TEST(GzipFileTest, ALineWithoutAnEndIsNotHeld) {
  const std::string text = "1,2\n" + std::string(1000, '1');
  for (const std::string& bytes : {text, GzipBytes(text)}) {
    const std::string path = WriteTempFile("data", bytes);
    EXPECT_TRUE(ReadGzipFile(path, {/*bytes=*/5000, /*line_bytes=*/1000}).ok());
    const absl::Status status = ReadGzipFile(path, {/*bytes=*/5000, /*line_bytes=*/999}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(), HasSubstr("expected at most 999 bytes in a line, got more"));
  }
}

TEST(GzipFileTest, AnotherKindOfFileIsNamed) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:1\n";
  for (const std::string& bytes : {pointer, GzipBytes(pointer)}) {
    EXPECT_THAT(ReadGzipFile(WriteTempFile("data", bytes)).status().message(),
                HasSubstr("expected samples, got a git-lfs pointer"));
  }
  EXPECT_THAT(ReadGzipFile(WriteTempFile("data", GzipBytes(GzipBytes("1,2\n")))).status().message(),
              HasSubstr("got a gzip file"));
}

}  // namespace
}  // namespace capstan
