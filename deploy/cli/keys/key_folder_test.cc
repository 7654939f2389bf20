#include "deploy/cli/keys/key_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A path where there is nothing yet.
std::string NewPath() {
  std::string folder = testing::TempDir() + "/folder-XXXXXX";
  return absl::StrCat(mkdtemp(folder.data()), "/parent/keys");
}

mode_t ModeOf(const std::string& path) {
  struct stat about = {};
  EXPECT_EQ(stat(path.c_str(), &about), 0) << path;
  return about.st_mode & 07777;
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(KeyFolderTest, ModesDoNotDependOnTheUmask) {
  for (const mode_t mask : {0u, 022u, 0277u}) {
    const std::string path = NewPath();
    fs::create_directories(fs::path(path).parent_path());
    const mode_t earlier = umask(mask);
    const absl::StatusOr<KeyFolder> folder = KeyFolder::Open(path);
    const absl::Status written =
        folder.ok() ? folder->Write({{"secret", "s", true}, {"public", "p", false}})
                    : folder.status();
    umask(earlier);
    ASSERT_TRUE(written.ok()) << written;
    EXPECT_EQ(ModeOf(path), 0700u);
    EXPECT_EQ(ModeOf(path + "/secret"), 0600u);
    EXPECT_EQ(ModeOf(path + "/public"), 0644u);
  }
}

TEST(KeyFolderTest, FilesAreReplacedAndNothingElseIsLeft) {
  const std::string path = NewPath();
  const KeyFolder folder = KeyFolder::Open(path).value();
  EXPECT_FALSE(folder.Has("a"));
  ASSERT_TRUE(folder.Write({{"a", "1", true}, {"b", "2", true}}).ok());
  EXPECT_TRUE(folder.Has("a"));
  // What a crash has left, here with rights for all.
  std::ofstream(path + "/a.unfinished") << "half";
  fs::permissions(path + "/a.unfinished", fs::perms::all);
  ASSERT_TRUE(folder.Write({{"a", std::string(1 << 20, '3'), true}}).ok());
  EXPECT_THAT(NamesIn(path), ElementsAre("a", "b"));
  EXPECT_EQ(TextOf(path + "/a"), std::string(1 << 20, '3'));
  EXPECT_EQ(ModeOf(path + "/a"), 0600u);
  EXPECT_EQ(TextOf(path + "/b"), "2");
}

TEST(KeyFolderTest, AFileThatCannotBeWrittenLeavesAllEarlierOnes) {
  const std::string path = NewPath();
  const KeyFolder folder = KeyFolder::Open(path).value();
  ASSERT_TRUE(folder.Write({{"a", "1", true}, {"b", "2", true}}).ok());
  fs::create_directory(path + "/b.unfinished");
  const absl::Status status = folder.Write({{"a", "3", true}, {"b", "4", true}});
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cannot make " + path + "/b.unfinished: File exists"),
                    HasSubstr("choose another folder")));
  EXPECT_EQ(TextOf(path + "/a"), "1");
  EXPECT_EQ(TextOf(path + "/b"), "2");
}

TEST(KeyFolderTest, FilesGetTheirNamesInTheOrderOfTheList) {
  const std::string path = NewPath();
  const KeyFolder folder = KeyFolder::Open(path).value();
  fs::create_directory(path + "/b");
  const absl::Status status = folder.Write({{"a", "1", true}, {"b", "2", true}, {"c", "3", true}});
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot replace " + path + "/b"));
  EXPECT_TRUE(folder.Has("a"));
  EXPECT_FALSE(folder.Has("c"));
}

TEST(KeyFolderTest, OneProcessAtATimeHasTheFolder) {
  const std::string path = NewPath();
  {
    const KeyFolder folder = KeyFolder::Open(path).value();
    const absl::Status second = KeyFolder::Open(path).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
    EXPECT_THAT(std::string(second.message()),
                HasSubstr(path + ": another process makes keys there; wait"));
  }
  EXPECT_TRUE(KeyFolder::Open(path).ok());
}

TEST(KeyFolderTest, AFolderThatOthersMayWriteToIsRefusedAndItsModeStays) {
  const std::string path = NewPath();
  fs::create_directories(path);
  for (const mode_t mode : {0720u, 0702u, 01777u}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const absl::Status status = KeyFolder::Open(path).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("chmod go-w"));
    EXPECT_EQ(ModeOf(path), mode);
  }
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  EXPECT_TRUE(KeyFolder::Open(path).ok());
  EXPECT_EQ(ModeOf(path), 0755u);
}

TEST(KeyFolderTest, AFileInPlaceOfTheFolderOrItsParentIsNamed) {
  const std::string path = NewPath();
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path).put('x');
  const absl::Status status = KeyFolder::Open(path).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("expected a folder " + path + ", got \"Not a directory\""));
  const absl::Status below = KeyFolder::Open(path + "/keys").status();
  EXPECT_TRUE(absl::IsUnavailable(below)) << below;
  EXPECT_THAT(std::string(below.message()),
              HasSubstr("expected to make the folder " + path + "/keys, got"));
}

}  // namespace
}  // namespace capstan
