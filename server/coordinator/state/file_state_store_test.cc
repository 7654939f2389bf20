#include "server/coordinator/state/file_state_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "server/coordinator/state/memory_state_folder.h"
#include "server/coordinator/state/state_file.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

using Effect = MemoryStateFolder::Effect;

std::shared_ptr<const v1::JobConstants> Constants(const std::string& name) {
  v1::JobConstants constants;
  constants.mutable_job()->set_name(name);
  return std::make_shared<const v1::JobConstants>(constants);
}

class FileStateStoreTest : public testing::Test {
 protected:
  absl::StatusOr<FileStateStore::Opened> TryOpen(
      std::function<absl::Status(const SavedJob&)> check = nullptr) {
    auto folder = std::make_unique<MemoryStateFolder>(content_);
    folder_ = folder.get();
    folder->before = [this](absl::string_view operation, const std::string& path) {
      const auto before = before_;  // It may replace itself.
      if (before != nullptr) before(operation, path);
    };
    return FileStateStore::Open({std::move(folder), "/state", std::move(check)});
  }
  FileStateStore::Opened Open() { return TryOpen().value(); }
  // The step of the state that a new coordinator begins with; -1: none.
  int64_t StepAfterRestart() {
    const std::optional<SavedJob> before = Open().before;
    return before.has_value() ? before->state.latest_first_step() : -1;
  }
  SavedJob Job(const StateStore& store, int64_t step) {
    SavedJob job;
    job.state.set_term(store.term());
    job.state.set_latest_first_step(step);
    job.constants = constants_;
    return job;
  }
  absl::Status Save(StateStore& store, int64_t step) { return store.Save(Job(store, step)); }
  // The next time that a newly opened store calls this, it fails.
  void FailOnce(absl::string_view operation, Effect effect) {
    before_ = [this, operation, effect](absl::string_view called, const std::string& path) {
      if (called != operation) return;
      folder_->FailNow(absl::ResourceExhaustedError(path + ": no room"), effect);
      before_ = nullptr;
    };
  }
  std::vector<std::string> Files() {
    std::vector<std::string> files;
    for (const auto& [path, bytes] : content_->visible.files) files.push_back(path);
    return files;
  }
  std::string& FileOf(const std::string& path) { return content_->visible.files.at(path); }
  // The path of the only constants of a term.
  std::string ConstantsOf(const std::string& term) {
    for (const std::string& path : Files()) {
      if (absl::StartsWith(path, term + "/constants-")) return path;
    }
    return "";
  }
  std::string RefusalCode(absl::StatusCode code) {
    const absl::Status status = TryOpen().status();
    EXPECT_EQ(status.code(), code);
    return std::string(status.message());
  }

  const std::shared_ptr<MemoryStateFolder::Content> content_ =
      std::make_shared<MemoryStateFolder::Content>();
  std::shared_ptr<const v1::JobConstants> constants_ = Constants("a");
  MemoryStateFolder* folder_ = nullptr;  // of the store that was opened last
  std::function<void(absl::string_view operation, const std::string& path)> before_;
};

TEST_F(FileStateStoreTest, TheFirstCoordinatorBeginsWithNothing) {
  const FileStateStore::Opened first = Open();
  EXPECT_EQ(first.store->term(), 1u);
  EXPECT_FALSE(first.before.has_value());
}

TEST_F(FileStateStoreTest, ACoordinatorBeginsWithWhatWasSavedLast) {
  const FileStateStore::Opened first = Open();
  for (const int64_t step : {10, 20, 30}) ASSERT_TRUE(Save(*first.store, step).ok());
  const FileStateStore::Opened second = Open();
  EXPECT_EQ(second.store->term(), 2u);
  EXPECT_EQ(second.before->state.latest_first_step(), 30);
  EXPECT_EQ(second.before->state.term(), 1u);
  EXPECT_EQ(second.before->constants->job().name(), "a");
}

TEST_F(FileStateStoreTest, FilesOfATermAreInItsFolder) {
  const FileStateStore::Opened first = Open();
  ASSERT_TRUE(Save(*first.store, 10).ok());
  EXPECT_THAT(Files(),
              ElementsAre(StartsWith("term-000001/constants-"), "term-000001/state-0000000001"));
}

TEST_F(FileStateStoreTest, ANewCoordinatorThatSavesNothingLosesNothing) {
  ASSERT_TRUE(Save(*Open().store, 10).ok());
  EXPECT_EQ(Open().store->term(), 2u);
  const FileStateStore::Opened third = Open();
  EXPECT_EQ(third.store->term(), 3u);
  EXPECT_EQ(third.before->state.latest_first_step(), 10);
}

TEST_F(FileStateStoreTest, ConstantsAreWrittenOnce) {
  const FileStateStore::Opened first = Open();
  std::vector<std::string> written;
  before_ = [&](absl::string_view operation, const std::string& path) {
    if (operation == "Write") written.push_back(path);
  };
  ASSERT_TRUE(Save(*first.store, 10).ok());
  EXPECT_EQ(written.size(), 2u);
  ASSERT_TRUE(Save(*first.store, 20).ok());
  constants_ = Constants("a");
  ASSERT_TRUE(Save(*first.store, 30).ok());
  EXPECT_EQ(written.size(), 4u);
  EXPECT_EQ(Open().before->constants->job().name(), "a");
}

TEST_F(FileStateStoreTest, ChangedConstantsBelongToTheNextState) {
  const FileStateStore::Opened first = Open();
  ASSERT_TRUE(Save(*first.store, 10).ok());
  constants_ = Constants("b");
  ASSERT_TRUE(Save(*first.store, 20).ok());
  EXPECT_EQ(Open().before->constants->job().name(), "b");
}

TEST_F(FileStateStoreTest, TwoStatesAndTheirConstantsAreKept) {
  const FileStateStore::Opened first = Open();
  for (const char* const name : {"a", "b", "c"}) {
    constants_ = Constants(name);
    ASSERT_TRUE(Save(*first.store, 10).ok());
  }
  EXPECT_THAT(Files(), ElementsAre(StartsWith("term-000001/constants-"),
                                   StartsWith("term-000001/constants-"),
                                   "term-000001/state-0000000002", "term-000001/state-0000000003"));
  content_->visible.files.erase("term-000001/state-0000000003");
  EXPECT_EQ(Open().before->constants->job().name(), "b");
}

TEST_F(FileStateStoreTest, RemovedConstantsAreWrittenAgain) {
  const FileStateStore::Opened first = Open();
  before_ = [this](absl::string_view operation, const std::string& path) {
    if (operation != "Remove" || !absl::StrContains(path, "constants")) return;
    folder_->FailNow(absl::UnknownError("is it done?"), Effect::kDone);
  };
  for (const char* const name : {"a", "b", "b", "a"}) {
    constants_ = Constants(name);
    ASSERT_TRUE(Save(*first.store, 10).ok());
  }
  EXPECT_EQ(Open().before->constants->job().name(), "a");
}

TEST_F(FileStateStoreTest, TheTwoLatestTermsWithAStateAreKept) {
  ASSERT_TRUE(Save(*Open().store, 10).ok());
  ASSERT_TRUE(Save(*Open().store, 20).ok());
  Open();
  const FileStateStore::Opened last = Open();
  EXPECT_THAT(content_->visible.folders,
              UnorderedElementsAre("term-000001", "term-000002", "term-000003", "term-000004"));
  ASSERT_TRUE(Save(*last.store, 30).ok());
  EXPECT_THAT(content_->visible.folders, UnorderedElementsAre("term-000002", "term-000004"));
}

TEST_F(FileStateStoreTest, WhatCannotBeRemovedStopsNothingAndIsTriedAgain) {
  const FileStateStore::Opened first = Open();
  for (const int64_t step : {10, 20}) ASSERT_TRUE(Save(*first.store, step).ok());
  FailOnce("Remove", Effect::kNothing);
  ASSERT_TRUE(Save(*first.store, 30).ok());
  EXPECT_EQ(content_->visible.files.count("term-000001/state-0000000001"), 1u);
  ASSERT_TRUE(Save(*first.store, 40).ok());
  EXPECT_EQ(content_->visible.files.count("term-000001/state-0000000001"), 0u);
  EXPECT_EQ(StepAfterRestart(), 40);
}

TEST_F(FileStateStoreTest, ACoordinatorOfAnotherJobChangesNothing) {
  ASSERT_TRUE(Save(*Open().store, 10).ok());
  const auto check = [](const SavedJob& job) {
    return absl::FailedPreconditionError("it is of job " + job.constants->job().name());
  };
  const auto folders = content_->visible.folders;
  EXPECT_EQ(TryOpen(check).status(), absl::FailedPreconditionError("it is of job a"));
  EXPECT_EQ(content_->visible.folders, folders);
}

TEST_F(FileStateStoreTest, WhatATermBeginsWithIsCheckedToo) {
  // Another coordinator saves a job of its own between the check and the new folder.
  before_ = [this](absl::string_view operation, const std::string&) {
    if (operation != "MakeFolder") return;
    before_ = nullptr;
    ASSERT_TRUE(Save(*Open().store, 10).ok());
  };
  const auto check = [](const SavedJob&) { return absl::FailedPreconditionError("another job"); };
  EXPECT_EQ(TryOpen(check).status(), absl::FailedPreconditionError("another job"));
}

TEST_F(FileStateStoreTest, AnotherJobMayFollowOneThatIsOver) {
  const FileStateStore::Opened first = Open();
  SavedJob job = Job(*first.store, 10);
  job.state.set_is_over(true);
  ASSERT_TRUE(first.store->Save(job).ok());
  const auto second =
      TryOpen([](const SavedJob&) { return absl::FailedPreconditionError("another job"); });
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->before.has_value());
  EXPECT_EQ(second->store->term(), 2u);
}

TEST_F(FileStateStoreTest, NothingOfAnEarlierTermIsKeptOnceALaterOneHasBegun) {
  const FileStateStore::Opened first = Open();
  ASSERT_TRUE(Save(*first.store, 10).ok());
  EXPECT_TRUE(first.store->Confirm().ok());
  const FileStateStore::Opened second = Open();
  const absl::Status taken_over =
      absl::AbortedError("another coordinator has taken over (term 2 in /state); this one ends");
  EXPECT_EQ(Save(*first.store, 20), taken_over);
  EXPECT_EQ(first.store->Confirm(), taken_over);
  EXPECT_EQ(second.before->state.latest_first_step(), 10);
  ASSERT_TRUE(Save(*second.store, 11).ok());
  EXPECT_EQ(Save(*first.store, 30), taken_over);
  EXPECT_EQ(StepAfterRestart(), 11);
}

TEST_F(FileStateStoreTest, ACoordinatorWhoseFolderWasRemovedHearsOfTheLaterTerm) {
  const FileStateStore::Opened first = Open();
  ASSERT_TRUE(Save(*Open().store, 10).ok());
  EXPECT_EQ(content_->visible.folders.count("term-000001"), 0u);
  EXPECT_TRUE(absl::IsAborted(Save(*first.store, 20)));
}

TEST_F(FileStateStoreTest, OfTwoThatStartAtOnceOneEnds) {
  FileStateStore::Opened faster;
  before_ = [&](absl::string_view operation, const std::string&) {
    if (operation != "MakeFolder") return;
    before_ = nullptr;
    faster = Open();
  };
  const FileStateStore::Opened slower = Open();
  EXPECT_EQ(slower.store->term(), 2u);
  EXPECT_TRUE(absl::IsAborted(faster.store->Confirm()));
}

TEST_F(FileStateStoreTest, AnEarlierTermEndsBeforeItsFirstSave) {
  before_ = [&](absl::string_view operation, const std::string&) {
    if (operation != "MakeFolder") return;
    before_ = [&](absl::string_view, const std::string&) {
      before_ = nullptr;
      ASSERT_TRUE(Save(*Open().store, 10).ok());
    };
  };
  EXPECT_EQ(RefusalCode(absl::StatusCode::kAborted),
            "another coordinator has taken over (term 2 in /state); this one ends");
}

TEST_F(FileStateStoreTest, ASaveThatFailedMayBeRepeated) {
  for (const Effect effect : {Effect::kNothing, Effect::kDone, Effect::kNotDurable}) {
    for (const absl::string_view operation : {"Write", "List"}) {
      const FileStateStore::Opened opened = Open();
      constants_ = Constants("a");
      ASSERT_TRUE(Save(*opened.store, 10).ok());
      constants_ = Constants("b");
      FailOnce(operation, effect);
      const absl::Status status = Save(*opened.store, 20);
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(status.message()), HasSubstr(": no room"));
      ASSERT_TRUE(Save(*opened.store, 30).ok());
      content_->LosePower();
      const FileStateStore::Opened next = Open();
      EXPECT_EQ(next.before->state.latest_first_step(), 30);
      EXPECT_EQ(next.before->constants->job().name(), "b");
    }
  }
}

TEST_F(FileStateStoreTest, AConfirmThatFailedMayBeRepeated) {
  const FileStateStore::Opened opened = Open();
  FailOnce("List", Effect::kNothing);
  EXPECT_TRUE(absl::IsUnavailable(opened.store->Confirm()));
  EXPECT_TRUE(opened.store->Confirm().ok());
}

TEST_F(FileStateStoreTest, WhatIsRemovedWhileItIsReadIsNotMissed) {
  const FileStateStore::Opened first = Open();
  ASSERT_TRUE(Save(*first.store, 10).ok());
  MemoryStateFolder* const folder = folder_;
  before_ = [&](absl::string_view operation, const std::string&) {
    if (operation != "Read" || folder_ == folder) return;
    before_ = nullptr;
    for (const int64_t step : {20, 30, 40}) ASSERT_TRUE(Save(*first.store, step).ok());
  };
  EXPECT_EQ(StepAfterRestart(), 40);
}

TEST_F(FileStateStoreTest, AnErrorOfTheDiskIsNoMissingState) {
  const FileStateStore::Opened first = Open();
  ASSERT_TRUE(Save(*first.store, 10).ok());
  FailOnce("Read", Effect::kNothing);
  EXPECT_THAT(RefusalCode(absl::StatusCode::kResourceExhausted), HasSubstr(": no room"));
  int reads = 0;  // the state, and its constants
  before_ = [&](absl::string_view operation, const std::string&) {
    if (operation != "Read" || ++reads != 2) return;
    before_ = nullptr;
    constants_ = Constants("b");
    for (const int64_t step : {20, 30, 40}) ASSERT_TRUE(Save(*first.store, step).ok());
  };
  EXPECT_EQ(StepAfterRestart(), 40) << "its constants were removed meanwhile";
}

TEST_F(FileStateStoreTest, OtherNamesAreLeftAlone) {
  ASSERT_TRUE(Save(*Open().store, 10).ok());
  const std::vector<std::string> others = {"lock", "notes.txt", "term-7", "term-000001/state-2",
                                           "term-000001/state-0000000009.unfinished"};
  for (const std::string& path : others) content_->visible.files[path] = "x";
  content_->visible.folders.insert("term-000009.old");
  const FileStateStore::Opened second = Open();
  EXPECT_EQ(second.store->term(), 2u);
  EXPECT_EQ(second.before->state.latest_first_step(), 10);
  ASSERT_TRUE(Save(*second.store, 20).ok());
  for (const std::string& path : others) EXPECT_EQ(FileOf(path), "x");
}

TEST_F(FileStateStoreTest, AFolderWithOtherThingsIsTaken) {
  content_->visible.files["notes.txt"] = "x";
  EXPECT_EQ(Open().store->term(), 1u);
}

// States at steps 10 and 20 of term 1.
class DamagedStateTest : public FileStateStoreTest {
 protected:
  DamagedStateTest() {
    const FileStateStore::Opened first = Open();
    for (const int64_t step : {10, 20}) EXPECT_TRUE(Save(*first.store, step).ok());
  }

  const std::string older_ = "term-000001/state-0000000001";
  const std::string newest_ = "term-000001/state-0000000002";
};

TEST_F(DamagedStateTest, AnOlderStateDoesNotReplaceADamagedOneByItself) {
  FileOf(newest_).pop_back();
  EXPECT_THAT(RefusalCode(absl::StatusCode::kDataLoss),
              AllOf(StartsWith("/state/" + newest_ + ": expected"), HasSubstr("it is damaged"),
                    HasSubstr("The older state /state/" + older_ +
                              " is intact: to go on from it, at the risk of deciding twice what "
                              "was decided since, remove /state/" +
                              newest_)));
  EXPECT_THAT(content_->visible.folders, ElementsAre("term-000001"));
}

TEST_F(DamagedStateTest, OnceItIsRemovedTheOlderOneIsTaken) {
  FileOf(newest_).pop_back();
  content_->visible.files.erase(newest_);
  EXPECT_EQ(StepAfterRestart(), 10);
}

TEST_F(DamagedStateTest, ADamagedOlderStateIsOfNoInterest) {
  FileOf(older_).clear();
  EXPECT_EQ(StepAfterRestart(), 20);
}

TEST_F(DamagedStateTest, TheOlderStateMayBeOfAnEarlierTerm) {
  ASSERT_TRUE(Save(*Open().store, 30).ok());
  FileOf("term-000002/state-0000000001").clear();
  FileOf(newest_).clear();
  EXPECT_THAT(RefusalCode(absl::StatusCode::kDataLoss),
              AllOf(StartsWith("/state/term-000002/state-0000000001: expected"),
                    HasSubstr("The older state /state/" + older_),
                    HasSubstr("remove /state/term-000002/state-0000000001 and /state/" + newest_)));
}

TEST_F(DamagedStateTest, WithoutAnyIntactStateACopyIsNeeded) {
  FileOf(newest_).clear();
  FileOf(older_).clear();
  EXPECT_THAT(RefusalCode(absl::StatusCode::kDataLoss),
              HasSubstr("No older state is intact: put back a copy"));
}

TEST_F(DamagedStateTest, TheStateOfANewerVersionIsRefusedWithoutAdviceToRemoveIt) {
  FileOf(newest_)[14] = 2;
  EXPECT_EQ(RefusalCode(absl::StatusCode::kFailedPrecondition),
            "/state/" + newest_ +
                ": expected format 1, got 2, written by a newer version of Capstan; use that "
                "version");
}

TEST_F(DamagedStateTest, AnotherFileIsNoState) {
  FileOf(newest_) = "hello";
  EXPECT_THAT(RefusalCode(absl::StatusCode::kDataLoss),
              StartsWith("/state/" + newest_ + ": expected a state of a Capstan coordinator"));
}

TEST_F(DamagedStateTest, AnotherMessageIsNoState) {
  FileOf(newest_) = EncodeStateFile("\xff\xff");
  EXPECT_THAT(RefusalCode(absl::StatusCode::kDataLoss),
              StartsWith("/state/" + newest_ + ": expected a capstan.v1.CoordinatorState"));
}

TEST_F(DamagedStateTest, AStateOfAnotherTermIsRefused) {
  Open();
  content_->visible.files["term-000002/state-0000000001"] = FileOf(newest_);
  EXPECT_THAT(RefusalCode(absl::StatusCode::kDataLoss),
              HasSubstr("term-000002/state-0000000001: expected a state of term 2, as its folder, "
                        "got one of 1"));
}

TEST_F(DamagedStateTest, MissingConstantsAreNamed) {
  const std::string constants = ConstantsOf("term-000001");
  content_->visible.files.erase(constants);
  EXPECT_THAT(RefusalCode(absl::StatusCode::kDataLoss),
              StartsWith("/state/" + constants + ": expected the constants that " + newest_ +
                         " names, got no such file"));
}

TEST_F(DamagedStateTest, OtherConstantsAreRefused) {
  const std::string constants = ConstantsOf("term-000001");
  FileOf(constants) = EncodeStateFile(Constants("b")->SerializeAsString());
  EXPECT_THAT(RefusalCode(absl::StatusCode::kDataLoss),
              StartsWith("/state/" + constants + ": expected the XXH3-64 of its name, got "));
}

TEST_F(DamagedStateTest, DamagedConstantsAreRefused) {
  const std::string constants = ConstantsOf("term-000001");
  FileOf(constants).pop_back();
  EXPECT_THAT(RefusalCode(absl::StatusCode::kDataLoss),
              AllOf(StartsWith("/state/" + constants + ": expected"), HasSubstr("it is damaged")));
}

}  // namespace
}  // namespace capstan
