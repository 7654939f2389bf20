#include "server/checkpoint/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/checkpoint/example_checkpoint.h"
#include "server/checkpoint/manifest.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr uint64_t kToken = 7;

class CheckpointFolderTest : public testing::Test {
 protected:
  CheckpointFolderTest() : dir_(NewFolder() + "/a/b") {}

  std::unique_ptr<CheckpointStorage> Open() { return OpenCheckpointFolder(dir_, kToken).value(); }
  // A manifest with the files that it needs.
  static v1::CheckpointManifest Manifest() {
    v1::CheckpointManifest manifest = ExampleManifest(150);
    for (uint32_t i = 0; i < kExampleShards; ++i) manifest.add_files()->set_shard(i);
    return manifest;
  }
  // A new checkpoint with a shard, which is complete unless `is_complete` is false.
  void Add(CheckpointStorage& storage, bool is_complete = true) {
    const std::string name = storage.Create().value();
    Touch(absl::StrCat(name, "/shard-00000.safetensors"));
    if (!is_complete) return;
    ASSERT_TRUE(storage.Publish(name, Manifest()).ok());
  }
  void Touch(const std::string& name) {
    fs::create_directories(fs::path(dir_ + "/" + name).parent_path());
    std::ofstream(dir_ + "/" + name) << "x";
  }
  bool Has(const std::string& name) { return fs::exists(dir_ + "/" + name); }
  // Names of all checkpoints; the incomplete ones in brackets.
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const std::vector<CheckpointName> all = ListCheckpoints(dir_).value();
    for (const CheckpointName& found : all) {
      names.push_back(found.is_complete ? found.name : absl::StrCat("[", found.name, "]"));
    }
    return names;
  }

  const std::string dir_;
};

TEST_F(CheckpointFolderTest, ACheckpointIsCompleteOnceItsManifestIsThere) {
  const auto storage = Open();
  EXPECT_THAT(Names(), IsEmpty());
  const std::string name = storage->Create().value();
  EXPECT_EQ(name, "checkpoint-000001");
  EXPECT_EQ(storage->PathOf(name), dir_ + "/checkpoint-000001");
  EXPECT_THAT(Names(), ElementsAre("[checkpoint-000001]"));
  EXPECT_EQ(NewestCheckpoint(dir_).value(), "");
  ASSERT_TRUE(storage->Publish(name, Manifest()).ok());
  EXPECT_THAT(Names(), ElementsAre("checkpoint-000001"));
  EXPECT_EQ(NewestCheckpoint(dir_).value(), dir_ + "/checkpoint-000001");
  EXPECT_EQ(ReadManifest(dir_ + "/checkpoint-000001")->step(), 150);
  EXPECT_FALSE(Has("checkpoint-000001/manifest.unfinished"));
}

TEST_F(CheckpointFolderTest, AManifestThatContradictsItselfIsNotPublished) {
  const auto storage = Open();
  const std::string name = storage->Create().value();
  EXPECT_TRUE(absl::IsInvalidArgument(storage->Publish(name, ExampleManifest(150))));
  EXPECT_THAT(Names(), ElementsAre("[checkpoint-000001]"));
}

TEST_F(CheckpointFolderTest, TheNewestIsTheOneWithTheLargestNumber) {
  for (const char* name : {"000009", "1000000", "000010"}) {
    Touch(absl::StrCat("checkpoint-", name, "/manifest"));
  }
  Touch("checkpoint-1000001/shard-00000.safetensors.unfinished");
  EXPECT_THAT(Names(), ElementsAre("[checkpoint-1000001]", "checkpoint-1000000",
                                   "checkpoint-000010", "checkpoint-000009"));
  EXPECT_EQ(NewestCheckpoint(dir_).value(), dir_ + "/checkpoint-1000000");
}

TEST_F(CheckpointFolderTest, OtherNamesAreNoCheckpoints) {
  for (const char* name : {"checkpoint-1", "checkpoint-0000001", "checkpoint-+00001", "checkpoint-",
                           "checkpoint- 00001", "checkpoint-00001x", "Checkpoint-000001",
                           "checkpoint-18446744073709551615", "checkpoint-18446744073709551616",
                           "checkpoint-1000000000000", "runs"}) {
    Touch(absl::StrCat(name, "/manifest"));
  }
  Touch("checkpoint-000001");  // a file
  fs::create_directory_symlink("runs", dir_ + "/checkpoint-000002");
  EXPECT_THAT(Names(), IsEmpty());
  const auto storage = Open();
  EXPECT_EQ(storage->Create().value(), "checkpoint-000003") << "the smaller ones are taken";
}

TEST_F(CheckpointFolderTest, NumbersEnd) {
  Touch("checkpoint-999999999998/manifest");
  const auto storage = Open();
  EXPECT_EQ(storage->Create().value(), "checkpoint-999999999999");
  EXPECT_TRUE(absl::IsResourceExhausted(storage->Create().status()));
}

TEST_F(CheckpointFolderTest, OnlyTheNewestAreKept) {
  const auto storage = Open();
  for (int i = 0; i < 4; ++i) Add(*storage);
  ASSERT_TRUE(storage->RemoveOld(2).ok());
  EXPECT_THAT(Names(), ElementsAre("checkpoint-000004", "checkpoint-000003"));
  ASSERT_TRUE(storage->RemoveOld(2).ok());
  EXPECT_THAT(Names(), ElementsAre("checkpoint-000004", "checkpoint-000003"));
  ASSERT_TRUE(storage->RemoveOld(1).ok());
  EXPECT_FALSE(Has("checkpoint-000003"));
}

TEST_F(CheckpointFolderTest, AnIncompleteOneIsRemovedOnceANewerOneIsComplete) {
  Touch("checkpoint-000001/shard-00000.safetensors.unfinished");
  Touch("checkpoint-000002/manifest");
  Touch("checkpoint-000003/shard-00000.safetensors");
  Touch("checkpoint-000003/manifest.unfinished");
  const auto storage = Open();
  ASSERT_TRUE(storage->RemoveOld(5).ok());
  EXPECT_THAT(Names(), ElementsAre("[checkpoint-000003]", "checkpoint-000002"));
  Touch("checkpoint-000004/manifest");
  ASSERT_TRUE(storage->RemoveOld(5).ok());
  EXPECT_THAT(Names(), ElementsAre("checkpoint-000004", "checkpoint-000002"));
  EXPECT_FALSE(Has("checkpoint-000003"));
}

TEST_F(CheckpointFolderTest, ADiscardedOneLeavesNothing) {
  const auto storage = Open();
  Add(*storage);
  Add(*storage, /*is_complete=*/false);
  storage->Discard("checkpoint-000002");
  EXPECT_FALSE(Has("checkpoint-000002"));
  EXPECT_THAT(Names(), ElementsAre("checkpoint-000001"));
}

// What failed for want of room must not keep the next one from its room.
TEST_F(CheckpointFolderTest, ANewOneRemovesTheIncompleteOnesButNotTheirNumbers) {
  {
    const auto storage = Open();
    Add(*storage);
    Add(*storage, /*is_complete=*/false);
    EXPECT_EQ(storage->Create().value(), "checkpoint-000003");
    EXPECT_THAT(Names(), ElementsAre("[checkpoint-000003]", "checkpoint-000001"));
  }
  EXPECT_EQ(Open()->Create().value(), "checkpoint-000004") << "a server may still write into 3";
  EXPECT_THAT(Names(), ElementsAre("[checkpoint-000004]", "checkpoint-000001"));
}

TEST_F(CheckpointFolderTest, OtherFilesAndWhatLinksPointToAreLeftAlone) {
  const auto storage = Open();
  for (int i = 0; i < 2; ++i) Add(*storage);
  for (const char* name : {"notes", "shard-notes", "manifest.old", "shard-0.safetensors",
                           "shard-00000.safetensors.bak", "shard-99999999999.safetensors"}) {
    Touch(absl::StrCat("checkpoint-000001/", name));
  }
  Touch("archive/manifest");
  fs::create_directory_symlink("archive", dir_ + "/checkpoint-000000");
  fs::create_symlink("../archive/manifest", dir_ + "/checkpoint-000001/shard-00001.safetensors");
  ASSERT_TRUE(storage->RemoveOld(1).ok());
  EXPECT_TRUE(Has("archive/manifest"));
  EXPECT_TRUE(fs::is_symlink(dir_ + "/checkpoint-000000"));
  EXPECT_THAT(Names(), ElementsAre("checkpoint-000002", "[checkpoint-000001]"));
  const fs::directory_iterator left(dir_ + "/checkpoint-000001");
  EXPECT_EQ(std::distance(begin(left), end(left)), 6);
}

TEST_F(CheckpointFolderTest, WhatCannotBeRemovedIsNamedAndTheOthersGo) {
  const auto storage = Open();
  for (int i = 0; i < 3; ++i) Add(*storage);
  // A folder in place of the manifest cannot be removed as a file.
  fs::remove(dir_ + "/checkpoint-000002/manifest");
  Touch("checkpoint-000002/manifest/x");
  const absl::Status status = storage->RemoveOld(1);
  EXPECT_THAT(std::string(status.message()),
              StartsWith(dir_ + "/checkpoint-000002: expected to remove this old checkpoint, got"));
  EXPECT_TRUE(Has("checkpoint-000002/shard-00000.safetensors")) << "it is not half removed";
  EXPECT_FALSE(Has("checkpoint-000001"));
}

TEST_F(CheckpointFolderTest, AFolderHasOneCoordinator) {
  auto first = Open();
  const auto open = [&](absl::Duration patience) {
    return OpenCheckpointFolder(dir_, 8, /*takes_over=*/false, patience);
  };
  const absl::Status second = open(absl::ZeroDuration()).status();
  EXPECT_TRUE(absl::IsAborted(second)) << second;
  EXPECT_THAT(std::string(second.message()),
              AllOf(StartsWith(dir_ + ": expected a folder that no other job uses"),
                    HasSubstr("choose another folder")));
  EXPECT_TRUE(CheckCheckpointFolder(dir_, kToken).ok()) << "the first one's token has stayed";
  std::thread ends([&first] {
    absl::SleepFor(absl::Milliseconds(50));
    first.reset();
  });
  EXPECT_TRUE(open(absl::InfiniteDuration()).ok()) << "the first one has ended meanwhile";
  ends.join();
}

TEST_F(CheckpointFolderTest, ServersSeeWhetherTheyShareTheFolder) {
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckCheckpointFolder(dir_, kToken)));
  const auto storage = Open();
  EXPECT_EQ(storage->token(), kToken);
  EXPECT_TRUE(CheckCheckpointFolder(dir_, kToken).ok());
  const absl::Status other = CheckCheckpointFolder(dir_, 8);
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_THAT(std::string(other.message()),
              AllOf(StartsWith(dir_ + "/lock: expected what the coordinator has written"),
                    HasSubstr("choose a folder that the coordinator and all servers share")));
}

TEST_F(CheckpointFolderTest, AFileOrALinkInTheWayIsNamed) {
  Touch("file");
  EXPECT_THAT(std::string(OpenCheckpointFolder(dir_ + "/file/c", kToken).status().message()),
              HasSubstr(dir_ + "/file"));
  // Through a link, the token would overwrite somebody's file.
  fs::create_symlink("file", dir_ + "/lock");
  EXPECT_FALSE(OpenCheckpointFolder(dir_, kToken).ok());
  EXPECT_EQ(fs::file_size(dir_ + "/file"), 1u);
}

TEST_F(CheckpointFolderTest, ALostFolderIsNoEmptyOne) {
  EXPECT_TRUE(absl::IsNotFound(ListCheckpoints(dir_).status()));
  EXPECT_EQ(NewestCheckpoint(dir_).value(), "") << "the job begins anew";
  Touch("file");
  EXPECT_FALSE(NewestCheckpoint(dir_ + "/file").ok());
  // Nobody can tell whether it is complete: it must not be passed over, nor removed.
  fs::create_directory(dir_ + "/checkpoint-000010");
  fs::create_symlink("manifest", dir_ + "/checkpoint-000010/manifest");
  for (int i = 11; i < 40; ++i) Touch(absl::StrCat("checkpoint-0000", i, "/manifest"));
  EXPECT_THAT(std::string(NewestCheckpoint(dir_).status().message()), HasSubstr(dir_));
  EXPECT_FALSE(Open()->RemoveOld(1).ok());
}

TEST_F(CheckpointFolderTest, CompleteCheckpointsAreTheFolderItselfOrThoseInIt) {
  const auto storage = Open();
  Add(*storage);
  EXPECT_THAT(CompleteCheckpoints(dir_ + "/checkpoint-000001").value(),
              ElementsAre(dir_ + "/checkpoint-000001"));
  Add(*storage);
  Add(*storage, /*is_complete=*/false);
  EXPECT_THAT(CompleteCheckpoints(dir_).value(),
              ElementsAre(dir_ + "/checkpoint-000002", dir_ + "/checkpoint-000001"));
  const absl::Status none = CompleteCheckpoints(dir_ + "/checkpoint-000003").status();
  EXPECT_TRUE(absl::IsNotFound(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("a complete one has the file manifest"));
}

}  // namespace
}  // namespace capstan
