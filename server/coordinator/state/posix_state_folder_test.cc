#include "server/coordinator/state/posix_state_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace capstan {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class PosixStateFolderTest : public testing::Test {
 protected:
  PosixStateFolderTest() {
    std::string folder = testing::TempDir() + "/state-XXXXXX";
    root_ = mkdtemp(folder.data());
    dir_ = root_ + "/a/b";
  }
  std::unique_ptr<PosixStateFolder> Open() {
    return PosixStateFolder::Open(dir_, /*take_over=*/false).value();
  }

  std::string root_;
  std::string dir_;
};

TEST_F(PosixStateFolderTest, WhatIsWrittenIsListedAndRead) {
  const auto folder = Open();
  ASSERT_TRUE(folder->MakeFolder("term").ok());
  ASSERT_TRUE(folder->Write("term/a", "first").ok());
  ASSERT_TRUE(folder->Write("term/a", "other").ok());
  ASSERT_TRUE(folder->Write("term/b", "").ok());
  EXPECT_THAT(folder->List("").value(), UnorderedElementsAre("lock", "term"));
  EXPECT_THAT(folder->List("term").value(), UnorderedElementsAre("a", "b"));
  EXPECT_EQ(folder->Read("term/a").value(), "other");
  EXPECT_EQ(folder->Read("term/b").value(), "");
}

TEST_F(PosixStateFolderTest, FilesAndFoldersAreRemoved) {
  const auto folder = Open();
  ASSERT_TRUE(folder->MakeFolder("term").ok());
  ASSERT_TRUE(folder->Write("term/a", "a").ok());
  ASSERT_TRUE(folder->Write("term/b", "b").ok());
  ASSERT_TRUE(folder->Remove("term/a").ok());
  EXPECT_THAT(folder->List("term").value(), UnorderedElementsAre("b"));
  ASSERT_TRUE(folder->Remove("term").ok());
  EXPECT_THAT(folder->List("").value(), UnorderedElementsAre("lock"));
}

TEST_F(PosixStateFolderTest, ALinkIsRemovedWithoutWhatItNames) {
  const auto folder = Open();
  fs::create_directories(root_ + "/precious/folder");
  fs::create_symlink(root_ + "/precious", dir_ + "/term");
  ASSERT_TRUE(folder->Remove("term").ok());
  EXPECT_TRUE(fs::exists(root_ + "/precious/folder"));
}

TEST_F(PosixStateFolderTest, AFolderIsMadeOnce) {
  const auto folder = Open();
  ASSERT_TRUE(folder->MakeFolder("term").ok());
  EXPECT_EQ(folder->MakeFolder("term").code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(PosixStateFolderTest, WhatIsMissingIsNotFoundByName) {
  const auto folder = Open();
  for (const absl::Status& status :
       {folder->Read("term/a").status(), folder->List("term/a").status(), folder->Remove("term/a"),
        folder->Write("term/a", "a")}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), StartsWith(dir_ + "/term/a"));
  }
}

TEST_F(PosixStateFolderTest, APipeInPlaceOfAFileIsNotWaitedFor) {
  const auto folder = Open();
  ASSERT_EQ(mkfifo((dir_ + "/pipe").c_str(), 0666), 0);
  EXPECT_THAT(std::string(folder->Read("pipe").status().message()),
              StartsWith(dir_ + "/pipe: it is a pipe"));
}

TEST_F(PosixStateFolderTest, ASecondProcessIsRefused) {
  const auto folder = Open();
  const absl::Status status = PosixStateFolder::Open(dir_, /*take_over=*/false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(), "another coordinator uses " + dir_ +
                                  ": end it first; if it hangs or its machine is gone, start with "
                                  "--take_over");
}

TEST_F(PosixStateFolderTest, ASecondProcessTakesOverIfItIsToldTo) {
  const auto folder = Open();
  testing::internal::CaptureStderr();
  const auto second = PosixStateFolder::Open(dir_, /*take_over=*/true).value();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("takes over from another one that still uses " + dir_));
  EXPECT_TRUE(second->Write("a", "a").ok());
}

TEST_F(PosixStateFolderTest, TheLockEndsWithItsHolder) {
  Open();
  EXPECT_TRUE(PosixStateFolder::Open(dir_, /*take_over=*/false).ok());
}

TEST_F(PosixStateFolderTest, AFileInPlaceOfTheFolderIsNamed) {
  std::ofstream(root_ + "/a") << "a";
  for (const std::string& dir : {root_ + "/a", root_ + "/a/b"}) {
    const absl::Status status = PosixStateFolder::Open(dir, /*take_over=*/false).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), root_ +
                                    "/a: expected a folder for the coordinator's state, got \"Not "
                                    "a directory\"");
  }
}

TEST_F(PosixStateFolderTest, AFolderThatCannotBeWrittenIsNamed) {
  const absl::Status status = PosixStateFolder::Open("/proc/self/fdinfo", false).status();
  EXPECT_THAT(std::string(status.message()), StartsWith("/proc/self/fdinfo/lock: expected"));
}

}  // namespace
}  // namespace capstan
