// Coordinators of one job that work on the same folder at the same time, in many orders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/state/file_state_store.h"
#include "server/coordinator/state/memory_state_folder.h"
#include "server/coordinator/state/scheduled_threads.h"

namespace capstan {
namespace {

using Effect = MemoryStateFolder::Effect;

// A state: its term, and which one it is within the term.
using StateId = std::pair<uint64_t, int64_t>;

StateId IdOf(const SavedJob& job) { return {job.state.term(), job.state.latest_first_step()}; }

// A coordinator, which changes its constants with each second save.
class Coordinator {
 public:
  explicit Coordinator(const std::shared_ptr<MemoryStateFolder::Content>& content)
      : folder_(std::make_unique<MemoryStateFolder>(content)) {}

  // Called before each operation on the folder.
  void set_before(std::function<void(MemoryStateFolder&)> before) {
    folder_->before = [before, folder = folder_.get()](absl::string_view, const std::string&) {
      before(*folder);
    };
  }
  void Start() {
    opened_ = FileStateStore::Open({std::move(folder_), "/state", /*check=*/nullptr});
  }
  void Save() {
    if (!opened_.ok() || is_over_) return;
    SavedJob job;
    job.state.set_term(opened_->store->term());
    job.state.set_latest_first_step(++saves_);
    v1::JobConstants constants;
    constants.mutable_job()->set_name(absl::StrCat("after ", saves_ / 2));
    job.constants = std::make_shared<const v1::JobConstants>(constants);
    const absl::Status status = opened_->store->Save(job);
    if (status.ok()) saved_ = IdOf(job);
    is_over_ = absl::IsAborted(status);
    EXPECT_TRUE(status.ok() || is_over_ || absl::IsUnavailable(status)) << status;
  }

  const absl::StatusOr<FileStateStore::Opened>& opened() const { return opened_; }
  // The last state whose Save has returned OK.
  StateId saved() const { return saved_; }
  StateId before() const {
    return opened_->before.has_value() ? IdOf(*opened_->before) : StateId();
  }

 private:
  std::unique_ptr<MemoryStateFolder> folder_;  // until Start
  absl::StatusOr<FileStateStore::Opened> opened_ = absl::UnknownError("not started");
  int64_t saves_ = 0;
  StateId saved_;
  bool is_over_ = false;
};

class TermRacesTest : public testing::Test {
 protected:
  // A coordinator that pauses before each operation once `threads_` run.
  Coordinator& Add() {
    const size_t thread = coordinators_.size();
    Coordinator& added = coordinators_.emplace_back(content_);
    added.set_before([this, thread](MemoryStateFolder& folder) {
      if (!is_running_) return;
      threads_.Pause(thread);
      if (fail_ != nullptr) fail_(folder);
    });
    return added;
  }
  void Run(const std::vector<std::function<void()>>& bodies,
           const ScheduledThreads::Choose& choose) {
    is_running_ = true;
    threads_.Run(bodies, choose);
    is_running_ = false;
  }
  // Whatever the order was: a term begins with what an earlier one has saved, or with something
  // later, and one after a loss of power does, too.
  void CheckAll() {
    content_->LosePower();
    Coordinator& last = Add();
    last.Start();
    ASSERT_TRUE(last.opened().ok()) << last.opened().status();
    for (const Coordinator& later : coordinators_) {
      if (!later.opened().ok()) continue;
      for (const Coordinator& earlier : coordinators_) {
        if (earlier.saved().first >= later.opened()->store->term()) continue;
        EXPECT_GE(later.before(), earlier.saved());
      }
    }
  }
  // Forgets everything.
  void Reset() {
    coordinators_.clear();
    *content_ = {};
  }

  const std::shared_ptr<MemoryStateFolder::Content> content_ =
      std::make_shared<MemoryStateFolder::Content>();
  ScheduledThreads threads_;
  std::deque<Coordinator> coordinators_;
  std::function<void(MemoryStateFolder&)> fail_;
  bool is_running_ = false;
};

TEST_F(TermRacesTest, EveryOrderOfASaveAndANewTermKeepsWhatWasSaved) {
  size_t aborted = 0;
  size_t saved = 0;
  const size_t orders = ForEachOrder([&](const ScheduledThreads::Choose& choose) {
    Reset();
    Coordinator& earlier = Add();
    Coordinator& later = Add();
    earlier.Start();
    for (int i = 0; i < 3; ++i) earlier.Save();
    const StateId before = earlier.saved();
    Run({[&] { earlier.Save(); }, [&] { later.Start(); }}, choose);
    ++(earlier.saved() > before ? saved : aborted);
    ASSERT_TRUE(later.opened().ok()) << later.opened().status();
    CheckAll();
  });
  EXPECT_GT(orders, 1000u);
  EXPECT_GT(saved, 0u);
  EXPECT_GT(aborted, 0u);
}

TEST_F(TermRacesTest, InEveryOrderOfTwoStartsOneGoesOn) {
  ForEachOrder([&](const ScheduledThreads::Choose& choose) {
    Reset();
    Coordinator& a = Add();
    Coordinator& b = Add();
    Run({[&] { a.Start(); }, [&] { b.Start(); }}, choose);
    a.Save();
    b.Save();
    EXPECT_NE(a.saved() == StateId(), b.saved() == StateId());
    CheckAll();
  });
}

TEST_F(TermRacesTest, RandomOrdersOfThreeCoordinatorsWithFailuresKeepWhatWasSaved) {
  size_t saved = 0;
  for (uint32_t seed = 0; seed < 3000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    Reset();
    fail_ = [&](MemoryStateFolder& folder) {
      if (random() % 16 != 0) return;
      folder.FailNow(absl::UnavailableError("no disk"), static_cast<Effect>(random() % 3));
    };
    std::vector<std::function<void()>> bodies;
    for (int i = 0; i < 3; ++i) {
      Coordinator& added = Add();
      bodies.push_back([&added] {
        added.Start();
        for (int j = 0; j < 6; ++j) added.Save();
      });
    }
    // One of them may be slow.
    const uint32_t slow = random() % 4;
    Run(bodies, [&](const std::vector<size_t>& waiting) {
      const size_t chosen = waiting[random() % waiting.size()];
      return chosen == slow ? waiting[random() % waiting.size()] : chosen;
    });
    for (const Coordinator& coordinator : coordinators_) saved += coordinator.saved() != StateId();
    CheckAll();
  }
  EXPECT_GT(saved, 3000u);
}

}  // namespace
}  // namespace capstan
