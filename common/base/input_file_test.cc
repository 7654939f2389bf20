#include "common/base/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr uint64_t kMostBytes = 1000;

std::string PathOf(const std::string& name) {
  return absl::StrCat(testing::TempDir(), "/input_file_test.", name);
}

std::string Write(const std::string& name, const std::string& bytes) {
  std::ofstream(PathOf(name), std::ios::binary | std::ios::trunc) << bytes;
  return PathOf(name);
}

std::string ErrorOf(const std::string& path) {
  return std::string(ReadInputText(path, kMostBytes).status().message());
}

TEST(InputFileTest, BytesAreReadAsTheyAre) {
  const std::string bytes("\xEF\xBB\xBF\0\r\n", 6);
  EXPECT_EQ(*ReadInputFile(Write("bytes", bytes), kMostBytes), bytes);
  EXPECT_EQ(*ReadInputFile(Write("empty", ""), kMostBytes), "");
}

TEST(InputFileTest, AByteOrderMarkIsNoPartOfAText) {
  EXPECT_EQ(*ReadInputText(Write("text", "\xEF\xBB\xBFname: 'x'\n"), kMostBytes), "name: 'x'\n");
}

TEST(InputFileTest, AFileOfTheSystemWithoutALengthIsRead) {
  EXPECT_THAT(*ReadInputText("/proc/self/status", 1 << 20), HasSubstr("VmRSS"));
}

TEST(InputFileTest, MoreThanTheBoundIsRefused) {
  EXPECT_TRUE(ReadInputFile(Write("most", std::string(kMostBytes, 'x')), kMostBytes).ok());
  EXPECT_THAT(ErrorOf(Write("more", std::string(kMostBytes + 1, 'x'))),
              StartsWith("it has more than 1000 bytes"));
}

TEST(InputFileTest, WhatIsNoFileIsRefusedAtOnce) {
  const std::string pipe = PathOf("pipe");
  unlink(pipe.c_str());  // of an earlier run
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf(pipe), StartsWith("it is a pipe"));
  EXPECT_THAT(ErrorOf("/dev/zero"), StartsWith("it is a device"));
  EXPECT_THAT(ErrorOf(testing::TempDir()), StartsWith("it is a folder"));
  for (const std::string& path : {pipe, std::string("/dev/zero"), testing::TempDir()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckIsFile(path))) << path;
  }
  unlink(pipe.c_str());
}

TEST(InputFileTest, AMissingFileIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(ReadInputFile("/nowhere/x", kMostBytes).status()));
  EXPECT_TRUE(absl::IsNotFound(CheckIsFile("/nowhere/x")));
  EXPECT_EQ(ErrorOf("/nowhere/x"), "No such file or directory");
}

TEST(InputFileTest, AnotherKindOfFileIsNamedWithTheRemedy) {
  EXPECT_THAT(ErrorOf(Write("lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n")),
              HasSubstr("a git-lfs pointer, which stands for the file: run git lfs pull"));
  EXPECT_THAT(ErrorOf(Write("html", "\xEF\xBB\xBF\n<!DOCTYPE html><p>Sign in")),
              HasSubstr("a page in HTML"));
  EXPECT_THAT(ErrorOf(Write("wide", std::string("\xFF\xFEn\0a\0", 6))),
              HasSubstr("save it as UTF-8"));
  EXPECT_THAT(ErrorOf(Write("gzip", "\x1f\x8b\x08")), HasSubstr("a gzip file"));
  EXPECT_THAT(ErrorOf(Write("zip", "PK\x03\x04")), HasSubstr("a ZIP archive"));
  EXPECT_THAT(ErrorOf(Write("xml", "<?xml version='1.0'?><Error>")),
              HasSubstr("web server's error"));
  EXPECT_THAT(OtherKind("1,2,3\n"), IsEmpty());
  EXPECT_THAT(OtherKind(""), IsEmpty());
}

}  // namespace
}  // namespace capstan
