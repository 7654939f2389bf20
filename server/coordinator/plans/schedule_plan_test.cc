#include "server/coordinator/plans/schedule_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/coordinator/members/example_facts.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

v1::JobSpec TunedJob() {
  v1::JobSpec job;
  job.mutable_scheduler()->set_tune(true);
  return job;
}

// 20 steps of `seconds` each in the period from `first_step` on.
v1::Progress Measured(int64_t first_step, int64_t steps_done, double seconds) {
  v1::Progress progress;
  progress.set_steps_done(steps_done);
  progress.mutable_period()->set_first_step(first_step);
  progress.mutable_period()->set_steps(20);
  progress.mutable_period()->set_median_step_seconds(seconds);
  return progress;
}

// The values of tables of these sizes are placed, and sent as TunedJob says.
void Place(SchedulePlan& plan, const std::vector<uint64_t>& table_elements) {
  ExampleFacts example;
  example.TakeTables(table_elements);
  *example.facts.view.mutable_scheduler() = TunedJob().scheduler();
  plan.OnPlacement(example.facts);
}

bool Settle(SchedulePlan& plan, const std::vector<v1::Progress>& computing) {
  ExampleFacts example(/*num_servers=*/1, static_cast<uint32_t>(computing.size()));
  for (uint32_t id = 0; id < computing.size(); ++id) example.Worker(id).progress = computing[id];
  return plan.Settle(example.facts, example.events);
}

TEST(SchedulePlanTest, AJobThatIsNotTunedHasNoPeriods) {
  SchedulePlan plan{v1::JobSpec()};
  Place(plan, {1 << 20});
  const v1::Progress progress = Measured(0, 20, 0.1);
  EXPECT_FALSE(Settle(plan, {progress}));
  v1::JobView view;
  plan.WriteToView(view);
  EXPECT_FALSE(view.has_schedule());
  EXPECT_FALSE(plan.Tuning().has_chosen());
}

TEST(SchedulePlanTest, TheFirstPeriodIsTheJobsOwn) {
  SchedulePlan plan(TunedJob());
  Place(plan, {1 << 20});
  v1::JobView view;
  plan.WriteToView(view);
  EXPECT_EQ(view.schedule().first_step(), 0);
  EXPECT_EQ(view.schedule().partition_bytes(), 256u << 10) << "one slice of a tuned job";
  EXPECT_EQ(view.schedule().credit_bytes(), 4u << 20);
}

TEST(SchedulePlanTest, APeriodEndsWhenEveryWorkerHasMeasuredIt) {
  SchedulePlan plan(TunedJob());
  Place(plan, {1 << 20});
  const v1::Progress first = Measured(0, 20, 0.1);
  v1::Progress second = Measured(0, 21, 0.2);
  second.mutable_period()->set_steps(11);
  EXPECT_FALSE(Settle(plan, {first, second}));
  EXPECT_FALSE(Settle(plan, {})) << "nobody computes";
  second.mutable_period()->set_steps(12);
  ASSERT_TRUE(Settle(plan, {first, second}));
  EXPECT_EQ(plan.latest().first_step(), 22) << "beyond both, and a step for the news";
  EXPECT_FALSE(Settle(plan, {first, second})) << "that is of the period before";
}

TEST(SchedulePlanTest, StepsThatAreQuickAreMoreUntilTheNewsIsThere) {
  SchedulePlan plan(TunedJob());
  Place(plan, {1 << 20});
  const v1::Progress worker = Measured(0, 100, 0.0075);
  v1::Progress enough = worker;
  enough.mutable_period()->set_steps(100);
  EXPECT_FALSE(Settle(plan, {worker}));
  ASSERT_TRUE(Settle(plan, {enough}));
  EXPECT_EQ(plan.latest().first_step(), 108);
}

TEST(SchedulePlanTest, EndsInABoundedNumberOfPeriodsAndSaysWhatItChose) {
  SchedulePlan plan(TunedJob());
  Place(plan, {1 << 20, 1 << 20});
  int periods = 0;
  int64_t steps = 0;
  while (!plan.has_ended() && periods <= Tuner::kMostMeasurements) {
    // A credit of 1 MiB takes least; the second worker is slower.
    const double seconds = plan.latest().credit_bytes() == 1 << 20 ? 0.1 : 0.15;
    steps = plan.latest().first_step() + 22;
    const v1::Progress fast = Measured(plan.latest().first_step(), steps, seconds);
    const v1::Progress slow = Measured(plan.latest().first_step(), steps, 2 * seconds);
    ASSERT_TRUE(Settle(plan, {fast, slow}));
    ++periods;
  }
  ASSERT_TRUE(plan.has_ended());
  EXPECT_LE(periods, Tuner::kMostMeasurements);
  const v1::TuningReport report = plan.Tuning();
  EXPECT_EQ(report.tried_size(), periods - 1) << "the first one warms up";
  EXPECT_EQ(report.chosen().credit_bytes(), 1u << 20);
  EXPECT_EQ(report.chosen().credit_bytes(), plan.latest().credit_bytes());
  EXPECT_NEAR(report.chosen().step_seconds(), 0.2, 1e-9) << "of the slowest worker";
  EXPECT_THAT(report.reason(), HasSubstr("33.3 % faster than the job's own"));
  EXPECT_THAT(report.reason(), HasSubstr("credit 4MiB, 300.0 ms; 11 points in "));
  EXPECT_GT(plan.latest().first_step(), steps);
}

TEST(SchedulePlanTest, TriesCreditsUpToTheSizeOfAllTables) {
  SchedulePlan plan(TunedJob());
  Place(plan, std::vector<uint64_t>(64, (256 << 10) / sizeof(float)));
  uint64_t largest_credit = 0;
  while (!plan.has_ended()) {
    largest_credit = std::max<uint64_t>(largest_credit, plan.latest().credit_bytes());
    const int64_t first_step = plan.latest().first_step();
    const v1::Progress progress = Measured(first_step, first_step + 22, 0.1);
    ASSERT_TRUE(Settle(plan, {progress}));
  }
  EXPECT_EQ(largest_credit, 16u << 20);
}

v1::CheckpointManifest RestoredAtStep(int64_t step) {
  v1::CheckpointManifest manifest;
  manifest.set_step(step);
  return manifest;
}

TEST(SchedulePlanTest, AfterACheckpointTheChoiceOfTuningStays) {
  v1::CheckpointManifest restored = RestoredAtStep(500);
  restored.mutable_tuning()->mutable_chosen()->set_partition_bytes(1 << 20);
  restored.mutable_tuning()->mutable_chosen()->set_credit_bytes(8 << 20);
  restored.mutable_tuning()->set_reason("it was the fastest");
  SchedulePlan plan(TunedJob(), restored);
  Place(plan, {1 << 20});
  v1::JobView view;
  plan.WriteToView(view);
  EXPECT_EQ(view.schedule().first_step(), 500);
  EXPECT_EQ(view.schedule().partition_bytes(), 1u << 20);
  EXPECT_EQ(view.schedule().credit_bytes(), 8u << 20);
  EXPECT_TRUE(plan.has_ended());
  EXPECT_EQ(plan.Tuning().reason(), "it was the fastest");
  const v1::Progress progress = Measured(500, 560, 0.1);
  EXPECT_FALSE(Settle(plan, {progress})) << "nothing more is measured";
}

TEST(SchedulePlanTest, WithoutAChoiceTuningBeginsAgainAfterACheckpoint) {
  SchedulePlan plan(TunedJob(), RestoredAtStep(500));
  Place(plan, {1 << 20});
  EXPECT_FALSE(plan.has_ended());
  EXPECT_EQ(plan.latest().first_step(), 500);
  const v1::Progress progress = Measured(500, 520, 0.1);
  EXPECT_TRUE(Settle(plan, {progress}));
}

TEST(SchedulePlanTest, ARestoredJobThatIsNotTunedAnyMoreHasItsOwnSchedule) {
  v1::CheckpointManifest restored = RestoredAtStep(500);
  restored.mutable_tuning()->mutable_chosen()->set_partition_bytes(1 << 20);
  SchedulePlan plan(v1::JobSpec(), restored);
  Place(plan, {1 << 20});
  v1::JobView view;
  plan.WriteToView(view);
  EXPECT_FALSE(view.has_schedule());
  EXPECT_FALSE(plan.has_ended());
}

TEST(SchedulePlanTest, NoPeriodBeginsOnceTheTrainingHasEnded) {
  SchedulePlan plan(TunedJob());
  Place(plan, {1 << 20});
  ExampleFacts example;
  example.Worker(0).progress = Measured(0, 20, 0.1);
  example.facts.view.set_phase(v1::EVALUATING);
  EXPECT_FALSE(plan.Settle(example.facts, example.events));
  example.facts.view.set_phase(v1::TRAINING);
  EXPECT_TRUE(plan.Settle(example.facts, example.events));
  EXPECT_EQ(example.events.size(), 1u);
}

TEST(SchedulePlanTest, APeriodInWhichAServerWasLostIsMeasuredAgain) {
  SchedulePlan plan(TunedJob());
  Place(plan, {1 << 20});
  for (const double seconds : {0.1, 0.1}) {  // the first one warms up
    const int64_t first = plan.latest().first_step();
    ASSERT_TRUE(Settle(plan, {Measured(first, first + 20, seconds)}));
  }
  const v1::SchedulePeriod before = plan.latest();
  plan.OnServerLost({0, /*moves_shards=*/true}, ExampleFacts().facts);
  ASSERT_TRUE(Settle(plan, {Measured(before.first_step(), before.first_step() + 20, 9)}));
  EXPECT_GT(plan.latest().first_step(), before.first_step() + 20);
  EXPECT_EQ(plan.latest().credit_bytes(), before.credit_bytes());
  EXPECT_EQ(plan.latest().partition_bytes(), before.partition_bytes());
  EXPECT_EQ(plan.Tuning().tried_size(), 1);
  const int64_t first = plan.latest().first_step();
  ASSERT_TRUE(Settle(plan, {Measured(first, first + 20, 0.2)}));
  ASSERT_EQ(plan.Tuning().tried_size(), 2);
  EXPECT_EQ(plan.Tuning().tried(1).step_seconds(), 0.2);
}

}  // namespace
}  // namespace capstan
