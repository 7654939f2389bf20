#include "worker/dataset/sparse/line_stream.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/dataset/temp_file.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<std::vector<std::string>> ReadLines(const std::string& path, size_t max_line_bytes) {
  const absl::StatusOr<std::unique_ptr<CancelSignal>> signal = CancelSignal::Create();
  CHECK(signal.ok()) << signal.status();
  absl::StatusOr<std::unique_ptr<ByteStream>> bytes = ByteStream::Open(path, signal->get());
  CHECK(bytes.ok()) << bytes.status();
  LineStream lines(*std::move(bytes), max_line_bytes);
  std::vector<std::string> result;
  while (true) {
    absl::string_view line;
    const absl::StatusOr<bool> has_line = lines.Next(&line);
    if (!has_line.ok()) return has_line.status();
    if (!*has_line) return result;
    result.emplace_back(line);
    EXPECT_EQ(lines.line_number(), static_cast<int64_t>(result.size()));
  }
}

std::vector<std::string> Lines(absl::string_view text) {
  absl::StatusOr<std::vector<std::string>> lines =
      ReadLines(WriteTempFile("text", text), /*max_line_bytes=*/1 << 20);
  CHECK(lines.ok()) << lines.status();
  return *std::move(lines);
}

TEST(LineStreamTest, BothEndsOfLinesAreRemoved) {
  EXPECT_THAT(Lines("a\nb\r\n\nlast"), ElementsAre("a", "b", "", "last"));
  EXPECT_THAT(Lines("a\n"), ElementsAre("a"));
  EXPECT_THAT(Lines(""), IsEmpty());
}

TEST(LineStreamTest, ByteOrderMarkIsLeftOut) {
  EXPECT_THAT(Lines("\xEF\xBB\xBF"
                    "1 2:3\n"),
              ElementsAre("1 2:3"));
}

TEST(LineStreamTest, LinesAcrossBuffersStayWhole) {
  std::string text;
  std::vector<std::string> expected;
  for (size_t i = 0; i < 40; ++i) {
    expected.push_back(std::string(1000 * i * i % 700001, static_cast<char>('a' + i % 26)));
    absl::StrAppend(&text, expected.back(), "\n");
  }
  EXPECT_EQ(Lines(text), expected);
}

TEST(LineStreamTest, LongerLineThanAllowedIsRefused) {
  const std::string path = WriteTempFile("text", "12345\n123456\n");
  const absl::Status status = ReadLines(path, /*max_line_bytes=*/5).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            absl::StrCat("data file ", path,
                         ", line 2: expected at most 5 bytes in a line, got more: give a file of "
                         "text with one sample a line"));
}

TEST(LineStreamTest, AnotherKindOfFileIsNamed) {
  const std::string texts[] = {"version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
                               "<!DOCTYPE html><p>Sign in",
                               std::string("\xFF\xFE"
                                           "1\0\n\0",
                                           6)};
  for (const std::string& text : texts) {
    EXPECT_THAT(ReadLines(WriteTempFile("text", text), /*max_line_bytes=*/1000).status().message(),
                HasSubstr(": expected samples, got "))
        << text;
  }
}

// A file of 8 GiB zeros, without blocks on the disk.
TEST(LineStreamTest, EndlessLineIsRefusedEarly) {
  const std::string path = WriteTempFile("zeros", "");
  std::filesystem::resize_file(path, uint64_t{8} << 30);
  EXPECT_THAT(ReadLines(path, /*max_line_bytes=*/1 << 20).status().message(),
              HasSubstr("line 1: expected at most 1048576 bytes in a line"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace capstan
