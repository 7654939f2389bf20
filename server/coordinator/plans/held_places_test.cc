#include "server/coordinator/plans/held_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/members/example_facts.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobSpec Job() {
  v1::JobSpec job;
  job.mutable_membership()->set_replace_seconds(10);
  return job;
}

v1::TableSpec Table() {
  v1::TableSpec table;
  table.set_name("w");
  table.add_shape(4);
  return table;
}

// What the workers of a job say of themselves.
struct Workers {
  std::vector<v1::TableSpec> tables = {Table()};
  uint32_t own_arrays = 0;
  std::vector<bool> are_replaceable = {true, true, true};
};

// A job with three workers, in training under BSP.
struct Rig {
  explicit Rig(const v1::JobSpec& job = Job(), const Workers& workers = {})
      : example(/*num_servers=*/1, /*num_workers=*/3, job) {
    v1::RegisterWorkerRequest worker;
    worker.mutable_tables()->Assign(workers.tables.begin(), workers.tables.end());
    worker.set_own_arrays(workers.own_arrays);
    const absl::Status taken =
        example.facts.tables.Take(worker, /*is_first=*/true, /*slice_bytes=*/1 << 20);
    EXPECT_TRUE(taken.ok()) << taken;
    for (const bool is_replaceable : workers.are_replaceable) {
      worker.set_is_replaceable(is_replaceable);
      places.NoteWorker(worker);
    }
    AddPeriod(job.consistency().mode());
    places.OnPlacement(example.facts);
    places.WriteToView(example.facts.view);
  }

  void AddPeriod(v1::ConsistencySpec::Mode mode) {
    example.facts.view.add_consistency()->mutable_consistency()->set_mode(mode);
  }
  bool Lose(uint32_t worker) {
    example.Worker(worker).end = "it is gone";
    return places.Hold({worker, "it has ended", "ended"}, example.facts);
  }
  absl::Time In(double seconds) { return example.clock.Now() + absl::Seconds(seconds); }

  ExampleFacts example;
  HeldPlaces places{example.facts.job, example.facts.members};
};

TEST(HeldPlacesTest, NoPlaceIsHeldAcrossAChangeOfTheConsistency) {
  Rig rig;
  EXPECT_TRUE(rig.places.CheckNoneIsHeld().ok());
  EXPECT_TRUE(rig.Lose(1));
  EXPECT_EQ(rig.places.CheckNoneIsHeld().message(),
            "worker 1 was lost, and its place is held for another process (--replace_seconds); "
            "change the consistency once it has been taken");
  rig.places.Release(1);
  EXPECT_TRUE(rig.places.CheckNoneIsHeld().ok());
  rig.example.facts.view.set_consistency_change(1);
  EXPECT_FALSE(rig.Lose(2)) << "the change is pending";
}

TEST(HeldPlacesTest, APlaceIsHeldUntilAnotherProcessTakesIt) {
  Rig rig;
  EXPECT_TRUE(rig.example.facts.view.holds_places());
  EXPECT_THAT(rig.places.refusal(), IsEmpty());
  EXPECT_EQ(rig.places.deadline(), absl::InfiniteFuture());
  rig.example.clock.Advance(absl::Seconds(3));
  EXPECT_TRUE(rig.Lose(1));
  EXPECT_TRUE(rig.example.Worker(1).holds_place);
  EXPECT_EQ(rig.example.Worker(1).lost_at, rig.example.clock.Now());
  EXPECT_FALSE(rig.example.Worker(0).holds_place);
  EXPECT_EQ(rig.places.deadline(), rig.In(10));
  rig.places.Release(1);
  EXPECT_EQ(rig.places.deadline(), absl::InfiniteFuture());
  EXPECT_THAT(rig.places.TakeExpired(rig.In(60)), IsEmpty());
  EXPECT_TRUE(rig.example.Worker(1).holds_place) << "the other process has no first step so far";
}

TEST(HeldPlacesTest, EachPlaceIsGivenUpWhenItsOwnTimeIsOver) {
  Rig rig;
  rig.Lose(2);
  rig.example.clock.Advance(absl::Seconds(4));
  rig.Lose(0);
  EXPECT_EQ(rig.places.deadline(), rig.In(6));
  EXPECT_THAT(rig.places.TakeExpired(rig.In(5.9)), IsEmpty());
  const std::vector<HeldPlaces::Loss> first = rig.places.TakeExpired(rig.In(6));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].worker, 2u);
  EXPECT_EQ(first[0].what, "it has ended");
  EXPECT_EQ(first[0].reason, "ended");
  EXPECT_FALSE(rig.example.Worker(2).holds_place);
  EXPECT_TRUE(rig.example.Worker(0).holds_place);
  EXPECT_EQ(rig.places.deadline(), rig.In(10));
  EXPECT_EQ(rig.places.TakeExpired(rig.In(10)).size(), 1u);
  EXPECT_EQ(rig.places.deadline(), absl::InfiniteFuture());
}

TEST(HeldPlacesTest, APlaceIsHeldAgainIfTheOtherProcessIsLost) {
  Rig rig;
  rig.Lose(1);
  rig.places.Release(1);
  rig.example.clock.Advance(absl::Seconds(30));
  EXPECT_TRUE(rig.Lose(1));
  EXPECT_EQ(rig.places.deadline(), rig.In(10));
  EXPECT_EQ(rig.example.Worker(1).lost_at, rig.example.clock.Now());
}

// Otherwise everybody would wait for it, without an end.
TEST(HeldPlacesTest, APlaceThatMayNotBeHeldAgainIsNoHeldOne) {
  Rig rig;
  rig.Lose(1);
  rig.places.Release(1);
  rig.AddPeriod(v1::ConsistencySpec::SSP);
  EXPECT_FALSE(rig.Lose(1));
  EXPECT_FALSE(rig.example.Worker(1).holds_place);
  EXPECT_EQ(rig.places.deadline(), absl::InfiniteFuture());
}

TEST(HeldPlacesTest, AWorkerThatHasDoneItsStepsLeavesNoOpenStep) {
  Rig rig;
  rig.example.Worker(1).progress.set_steps_total(9);
  rig.example.Worker(1).progress.set_steps_done(9);
  EXPECT_FALSE(rig.places.WouldHold(1, rig.example.facts));
  EXPECT_FALSE(rig.Lose(1));
  EXPECT_TRUE(rig.places.WouldHold(2, rig.example.facts));
}

TEST(HeldPlacesTest, NoPlaceIsHeldOutsideOfTheTrainingOrOnceAStepIsNotUnderBsp) {
  for (const v1::Phase phase : {v1::PLACING, v1::EVALUATING, v1::SAVING}) {
    Rig rig;
    rig.example.facts.view.set_phase(phase);
    EXPECT_FALSE(rig.Lose(1)) << v1::Phase_Name(phase);
    EXPECT_FALSE(rig.example.Worker(1).holds_place);
  }
  Rig changed;
  changed.AddPeriod(v1::ConsistencySpec::ASYNC);
  EXPECT_FALSE(changed.Lose(1));
  EXPECT_THAT(changed.places.refusal(), IsEmpty());
}

TEST(HeldPlacesTest, AJobThatNeedsNoPlacesHeldGivesNoReason) {
  const std::pair<const char*, std::function<void(v1::JobSpec&)>> cases[] = {
      {"ssp", [](auto& job) { job.mutable_consistency()->set_mode(v1::ConsistencySpec::SSP); }},
      {"stay", [](auto& job) { job.set_stay(true); }},
      {"no time", [](auto& job) { job.mutable_membership()->set_replace_seconds(0); }},
  };
  for (const auto& [name, change] : cases) {
    v1::JobSpec job = Job();
    change(job);
    Workers workers;
    workers.are_replaceable[1] = false;
    Rig rig(job, workers);
    EXPECT_FALSE(rig.example.facts.view.holds_places()) << name;
    EXPECT_THAT(rig.places.refusal(), IsEmpty()) << name;
    EXPECT_FALSE(rig.Lose(1)) << name;
  }
}

TEST(HeldPlacesTest, AJobWhoseStepsCannotBeDoneAgainSaysWhy) {
  const struct {
    std::function<void(v1::JobSpec&, Workers&)> change;
    const char* refusal;
  } cases[] = {
      {[](auto& job, auto&) { job.mutable_codec()->set_push("int8"); }, "residuals"},
      {[](auto& job, auto&) { job.mutable_codec()->set_pull("topk:0.1"); }, "a topk of pulls"},
      {[](auto& job, auto&) { job.mutable_data()->set_path("-"); }, "from standard input"},
      {[](auto&, auto& workers) { workers.tables[0].set_replies_mean(true); },
       "the programs run the optimizer"},
      {[](auto&, auto& workers) { workers.own_arrays = 1; }, "the state that its engine keeps"},
      {[](auto&, auto& workers) { workers.are_replaceable[1] = false; }, "a program did not say"},
  };
  for (const auto& one : cases) {
    v1::JobSpec job = Job();
    Workers workers;
    one.change(job, workers);
    Rig rig(job, workers);
    EXPECT_THAT(rig.places.refusal(), HasSubstr(one.refusal));
    EXPECT_FALSE(rig.example.facts.view.holds_places()) << one.refusal;
    EXPECT_FALSE(rig.Lose(1)) << one.refusal;
  }
}

TEST(HeldPlacesTest, ASparseTableIsNoHindrance) {
  Workers workers;
  workers.tables[0].clear_shape();
  workers.tables[0].mutable_sparse()->set_dim(2);
  workers.tables[0].mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  Rig rig(Job(), workers);
  EXPECT_THAT(rig.places.refusal(), IsEmpty());
  EXPECT_TRUE(rig.Lose(1));
}

TEST(HeldPlacesTest, ACodecOfPullsAloneIsNoHindrance) {
  v1::JobSpec job = Job();
  job.mutable_codec()->set_pull("int8");
  Rig rig(job);
  EXPECT_THAT(rig.places.refusal(), IsEmpty());
  EXPECT_TRUE(rig.Lose(0));
}

}  // namespace
}  // namespace capstan
