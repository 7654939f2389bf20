#include "server/coordinator/state/state_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fake_clock.h"

namespace capstan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A store that answers as a test says, and knows what was saved.
struct ScriptedStore : public StateStore {
  uint64_t term() const override { return 3; }
  absl::Status Save(const SavedJob& job) override {
    if (answer.ok()) saved.push_back(job.state.checkpoint_number());
    is_over = job.state.is_over();
    return answer;
  }
  absl::Status Confirm() override {
    ++confirmed;
    return answer;
  }

  absl::Status answer;
  std::vector<uint64_t> saved;
  int confirmed = 0;
  bool is_over = false;
};

class StateKeeperTest : public testing::Test {
 protected:
  StateKeeperTest() : keeper_(OptionsOf(), clock_) {}

  StateKeeper::Options OptionsOf() {
    StateKeeper::Options options;
    auto store = std::make_unique<ScriptedStore>();
    store_ = store.get();
    options.store = std::move(store);
    options.snapshot = [this] {
      StateKeeper::Snapshot snapshot;
      snapshot.change = change_;
      snapshot.job.state.set_checkpoint_number(change_);
      return snapshot;
    };
    options.run_in_background = [this](absl::AnyInvocable<void()> work) {
      work_.push_back(std::move(work));
    };
    options.on_lost = [this](const absl::Status& status) { lost_ = status; };
    options.patience = absl::Seconds(60);
    return options;
  }

  StateKeeper::Say Note(const std::string& what) {
    return [this, what](const absl::Status& kept) {
      said_.push_back(kept.ok() ? what : absl::StrCat(what, ": ", kept.message()));
    };
  }

  void RunWork() {
    for (auto& work : std::exchange(work_, {})) work();
  }

  FakeClock clock_;
  ScriptedStore* store_ = nullptr;
  uint64_t change_ = 1;
  std::vector<absl::AnyInvocable<void()>> work_;
  std::vector<std::string> said_;
  absl::Status lost_;
  StateKeeper keeper_;
};

TEST_F(StateKeeperTest, NothingIsSaidBeforeItsChangeIsKept) {
  keeper_.WhenKept(1, Note("first"));
  EXPECT_THAT(said_, IsEmpty());
  RunWork();
  EXPECT_THAT(said_, ElementsAre("first"));
  EXPECT_THAT(store_->saved, ElementsAre(1u));

  keeper_.WhenKept(1, Note("again"));
  EXPECT_THAT(said_, ElementsAre("first", "again"));
  EXPECT_EQ(store_->saved.size(), 1u);
}

TEST_F(StateKeeperTest, ChangesThatComeTogetherAreSavedOnceAndSaidInOrder) {
  keeper_.WhenKept(1, Note("first"));
  change_ = 5;
  keeper_.WhenKept(4, Note("second"));
  keeper_.WhenKept(5, Note("third"));
  RunWork();
  EXPECT_THAT(store_->saved, ElementsAre(5u));
  EXPECT_THAT(said_, ElementsAre("first", "second", "third"));
}

TEST_F(StateKeeperTest, AnErrorIsConfirmedAlthoughNothingHasChanged) {
  keeper_.WhenKept(1, Note("first"));
  RunWork();
  keeper_.WhenConfirmed(1, Note("error"));
  EXPECT_THAT(said_, ElementsAre("first"));
  RunWork();
  EXPECT_THAT(said_, ElementsAre("first", "error"));
  EXPECT_EQ(store_->confirmed, 1);
}

TEST_F(StateKeeperTest, ALaterTermEndsThisCoordinatorAndItSaysNothingMore) {
  keeper_.WhenKept(1, Note("first"));
  store_->answer = absl::AbortedError("another coordinator has taken over");
  RunWork();
  EXPECT_TRUE(absl::IsAborted(lost_)) << lost_;
  keeper_.WhenKept(0, Note("kept before"));
  keeper_.WhenConfirmed(1, Note("error"));
  EXPECT_THAT(said_, ElementsAre("first: another coordinator has taken over",
                                 "kept before: another coordinator has taken over",
                                 "error: another coordinator has taken over"));
}

TEST_F(StateKeeperTest, AfterAnErrorOfTheDiskItTriesAgainAndKeepsTheOrder) {
  store_->answer = absl::UnavailableError("the disk is full");
  keeper_.WhenKept(1, Note("first"));
  RunWork();
  keeper_.WhenKept(1, Note("second"));
  EXPECT_THAT(said_, IsEmpty());
  store_->answer = absl::OkStatus();
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(keeper_.WaitingTime(), absl::Seconds(1));
  RunWork();
  EXPECT_THAT(said_, ElementsAre("first", "second"));
  EXPECT_EQ(keeper_.WaitingTime(), absl::ZeroDuration());
}

TEST_F(StateKeeperTest, ADiskThatFailsForTooLongEndsTheCoordinator) {
  store_->answer = absl::UnavailableError("the disk is full");
  keeper_.WhenKept(1, Note("first"));
  for (int i = 0; i < 100 && lost_.ok(); ++i) {
    RunWork();
    clock_.Advance(absl::Seconds(2));
  }
  EXPECT_TRUE(absl::IsUnavailable(lost_)) << lost_;
  EXPECT_THAT(std::string(lost_.message()), HasSubstr("the disk is full"));
  EXPECT_EQ(said_.size(), 1u);
}

TEST_F(StateKeeperTest, TheLastStateSaysThatTheJobIsOver) {
  EXPECT_EQ(keeper_.Finish(), absl::OkStatus());
  EXPECT_TRUE(store_->is_over);
}

TEST(StateKeeperWithoutStoreTest, NothingIsHeldBack) {
  FakeClock clock;
  StateKeeper keeper(StateKeeper::Options(), clock);
  std::vector<absl::Status> said;
  keeper.WhenKept(7, [&said](absl::Status kept) { said.push_back(std::move(kept)); });
  keeper.WhenConfirmed(8, [&said](absl::Status kept) { said.push_back(std::move(kept)); });
  EXPECT_THAT(said, ElementsAre(absl::OkStatus(), absl::OkStatus()));
  EXPECT_EQ(keeper.term(), 0u);
}

class LookingStateKeeperTest : public StateKeeperTest {
 protected:
  LookingStateKeeperTest() {
    StateKeeper::Options options = OptionsOf();
    options.look_interval = absl::Seconds(2);
    keeper_ = std::make_unique<StateKeeper>(std::move(options), clock_);
  }

  std::unique_ptr<StateKeeper> keeper_;
};

TEST_F(LookingStateKeeperTest, WithNothingToSayItHearsThatAnotherCoordinatorHasTakenOver) {
  for (int i = 1; i <= 3; ++i) {
    clock_.Advance(absl::Seconds(2));
    RunWork();
    EXPECT_EQ(store_->confirmed, i);
  }
  store_->answer = absl::UnavailableError("the disk is away");
  clock_.Advance(absl::Seconds(2));
  RunWork();
  EXPECT_EQ(lost_, absl::OkStatus()) << "nothing is held back";
  store_->answer = absl::AbortedError("term 4 has begun");
  clock_.Advance(absl::Seconds(2));
  RunWork();
  EXPECT_TRUE(absl::IsAborted(lost_)) << lost_;
  clock_.Advance(absl::Seconds(2));
  EXPECT_THAT(work_, IsEmpty());
  keeper_->WhenKept(0, Note("late"));
  EXPECT_THAT(said_, ElementsAre(HasSubstr("late: ")));
}

TEST_F(LookingStateKeeperTest, WorkOnTheDiskIsNotLookedAtAsWell) {
  keeper_->WhenKept(1, Note("one"));
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(work_.size(), 1u);
  RunWork();
  EXPECT_EQ(store_->confirmed, 0);
  clock_.Advance(absl::Seconds(2));
  RunWork();
  EXPECT_EQ(store_->confirmed, 1);
}

}  // namespace
}  // namespace capstan
