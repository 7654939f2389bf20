#include "common/model_file/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace capstan {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

class DurableFileTest : public testing::Test {
 protected:
  DurableFileTest() {
    std::string folder = testing::TempDir() + "/durable-XXXXXX";
    dir_ = mkdtemp(folder.data());
  }
  static std::string Text(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string dir_;
};

TEST_F(DurableFileTest, AFileIsReplacedAsAWhole) {
  const std::string path = dir_ + "/file";
  ASSERT_TRUE(WriteFileDurably(path, "a longer text").ok());
  ASSERT_TRUE(WriteFileDurably(path, "text").ok());
  EXPECT_EQ(Text(path), "text");
  EXPECT_FALSE(fs::exists(path + kUnfinishedSuffix));
}

TEST_F(DurableFileTest, WhatAnEarlierTryHasLeftIsNotWrittenInto) {
  std::ofstream(dir_ + "/precious") << "precious";
  fs::create_hard_link(dir_ + "/precious", dir_ + "/file.unfinished");
  ASSERT_TRUE(WriteFileDurably(dir_ + "/file", "text").ok());
  EXPECT_EQ(Text(dir_ + "/precious"), "precious");
  EXPECT_EQ(Text(dir_ + "/file"), "text");
}

TEST_F(DurableFileTest, NothingIsLeftOfAFileThatCannotHaveItsName) {
  fs::create_directories(dir_ + "/file/in_the_way");
  const absl::Status status = WriteFileDurably(dir_ + "/file", "text");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(dir_ + "/file: expected"));
  EXPECT_FALSE(fs::exists(dir_ + "/file.unfinished"));
}

TEST_F(DurableFileTest, FoldersAreMadeWithThoseAroundThem) {
  EXPECT_TRUE(MakeFolders(dir_ + "/a/b/", "a folder").ok());
  EXPECT_TRUE(fs::is_directory(dir_ + "/a/b"));
  EXPECT_TRUE(MakeFolders(dir_ + "/a/b", "a folder").ok());
}

TEST_F(DurableFileTest, AFileInPlaceOfAFolderIsNamed) {
  std::ofstream(dir_ + "/a") << "a";
  const absl::Status status = MakeFolders(dir_ + "/a/b", "a folder for models");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), dir_ + "/a: expected a folder for models, got \"Not a directory\"");
}

TEST_F(DurableFileTest, TheFolderOfAPathIsBeforeItsLastSlash) {
  EXPECT_EQ(FolderOf("a/b/c"), "a/b");
  EXPECT_EQ(FolderOf("/a"), "/");
  EXPECT_EQ(FolderOf("a"), ".");
}

}  // namespace
}  // namespace capstan
