#include "server/coordinator/members/job_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/coordinator/members/training_status.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

v1::Progress Report() {
  v1::Progress report;
  report.set_steps_done(200);
  report.set_steps_total(400);
  report.set_samples(6400);
  report.set_local_steps(10000);
  report.set_drift(0.25);
  report.set_loss(0.5);
  report.set_bytes_pushed(1000);
  report.set_bytes_pulled(3000);
  report.set_float_bytes_pushed(4000);
  report.set_float_bytes_pulled(6000);
  report.set_gradient_squares(64);
  report.set_residual_squares(4);
  report.set_seconds_coding(1);
  report.set_seconds(20);
  report.set_seconds_waiting(4);
  report.set_seconds_sending(2);
  report.set_median_step_seconds(0.1);
  report.set_max_staleness_seen(3);
  report.set_mean_staleness_seen(1.5);
  for (const uint64_t replies : {10, 20, 10}) report.add_replies_of_staleness(replies);
  report.set_first_loss(2.5);
  report.set_largest_loss(3);
  report.mutable_period()->set_steps(7);
  return report;
}

TEST(JobProgressTest, AnEarlierStepHasItsShareOfCountsAndTimes) {
  const v1::Progress progress = ProgressAt(Report(), /*step=*/150);
  EXPECT_EQ(progress.steps_done(), 150);
  EXPECT_EQ(progress.steps_total(), 400);
  EXPECT_EQ(progress.samples(), 4800u);
  EXPECT_EQ(progress.local_steps(), 7500u);
  EXPECT_EQ(progress.drift(), 0.25);
  EXPECT_EQ(progress.bytes_pushed(), 750u);
  EXPECT_EQ(progress.bytes_pulled(), 2250u);
  EXPECT_EQ(progress.float_bytes_pushed(), 3000u);
  EXPECT_EQ(progress.float_bytes_pulled(), 4500u);
  EXPECT_DOUBLE_EQ(progress.gradient_squares(), 48);
  EXPECT_DOUBLE_EQ(progress.residual_squares(), 3);
  EXPECT_DOUBLE_EQ(progress.seconds_coding(), 0.75);
  EXPECT_DOUBLE_EQ(progress.seconds(), 15);
  EXPECT_DOUBLE_EQ(progress.seconds_waiting(), 3);
  EXPECT_DOUBLE_EQ(progress.seconds_sending(), 1.5);
  EXPECT_THAT(progress.replies_of_staleness(), ElementsAre(8, 15, 8)) << "7.5 is rounded";
  EXPECT_EQ(progress.loss(), 0.5);
  EXPECT_EQ(progress.median_step_seconds(), 0.1);
  EXPECT_EQ(progress.max_staleness_seen(), 3);
  EXPECT_EQ(progress.mean_staleness_seen(), 1.5);
  EXPECT_FALSE(progress.has_period()) << "its measurements do not go on";
}

TEST(JobProgressTest, AStepAfterTheReportHasMore) {
  const v1::Progress progress = ProgressAt(Report(), /*step=*/220);
  EXPECT_EQ(progress.steps_done(), 220);
  EXPECT_EQ(progress.samples(), 7040u);
}

TEST(JobProgressTest, AWorkerThatHasReportedNoStepHasNoCounts) {
  const v1::Progress progress = ProgressAt(v1::Progress(), /*step=*/5);
  EXPECT_EQ(progress.steps_done(), 5);
  EXPECT_EQ(progress.samples(), 0u);
  EXPECT_EQ(progress.seconds(), 0);
}

TEST(JobProgressTest, TheWholeJobsProgressIsThatOfBothParts) {
  v1::Progress since;
  since.set_steps_done(260);
  since.set_steps_total(300);
  since.set_samples(1920);
  since.set_local_steps(3000);
  since.set_drift(0.125);
  since.set_loss(0.25);
  since.set_bytes_pushed(300);
  since.set_bytes_pulled(900);
  since.set_float_bytes_pushed(1200);
  since.set_float_bytes_pulled(1800);
  since.set_gradient_squares(16);
  since.set_residual_squares(8);
  since.set_seconds_coding(0.5);
  since.set_seconds(5);
  since.set_seconds_waiting(1);
  since.set_seconds_sending(0.5);
  since.set_median_step_seconds(0.08);
  since.set_max_staleness_seen(2);
  since.set_mean_staleness_seen(0.5);
  for (const uint64_t replies : {5, 5, 0, 30}) since.add_replies_of_staleness(replies);
  since.set_largest_loss(1);
  const v1::Progress joined = JoinedProgress(Report(), since);
  EXPECT_EQ(joined.steps_done(), 260);
  EXPECT_EQ(joined.steps_total(), 300) << "a restored job may have fewer steps";
  EXPECT_EQ(joined.samples(), 8320u);
  EXPECT_EQ(joined.local_steps(), 13000u);
  EXPECT_EQ(joined.drift(), 0.125);
  EXPECT_EQ(joined.loss(), 0.25);
  EXPECT_EQ(joined.bytes_pushed(), 1300u);
  EXPECT_EQ(joined.bytes_pulled(), 3900u);
  EXPECT_EQ(joined.float_bytes_pushed(), 5200u);
  EXPECT_EQ(joined.float_bytes_pulled(), 7800u);
  EXPECT_EQ(joined.gradient_squares(), 80);
  EXPECT_EQ(joined.residual_squares(), 12);
  EXPECT_EQ(joined.seconds_coding(), 1.5);
  EXPECT_EQ(joined.seconds(), 25);
  EXPECT_EQ(joined.seconds_waiting(), 5);
  EXPECT_EQ(joined.seconds_sending(), 2.5);
  EXPECT_EQ(joined.median_step_seconds(), 0.08);
  EXPECT_EQ(joined.max_staleness_seen(), 3);
  EXPECT_EQ(joined.mean_staleness_seen(), 1.0) << "40 replies with 1.5, and 40 with 0.5";
  EXPECT_THAT(joined.replies_of_staleness(), ElementsAre(15, 25, 10, 30));
  EXPECT_EQ(joined.first_loss(), 2.5);
  EXPECT_EQ(joined.largest_loss(), 3);
}

TEST(JobProgressTest, BeforeItsFirstStepARestoredWorkerHasWhatItHadBefore) {
  v1::Progress since;
  since.set_steps_total(400);
  const v1::Progress joined = JoinedProgress(Report(), since);
  EXPECT_EQ(joined.steps_done(), 200);
  EXPECT_EQ(joined.loss(), 0.5);
  EXPECT_EQ(joined.drift(), 0.25);
  EXPECT_EQ(joined.median_step_seconds(), 0.1);
  EXPECT_EQ(JoinedProgress(Report(), v1::Progress()).steps_total(), 400);
  EXPECT_EQ(JoinedProgress(v1::Progress(), v1::Progress()).mean_staleness_seen(), 0);
}

TEST(HasBspStepsLeftTest, OnlyPeriodsThatSomeWorkerHasNotLeftCount) {
  v1::GetStatusReply status = TrainingStatus({99, 120});
  EXPECT_TRUE(HasBspStepsLeft(status)) << "bsp is the default";
  AddPeriod(0, v1::ConsistencySpec::BSP, &status);
  AddPeriod(100, v1::ConsistencySpec::SSP, &status);
  EXPECT_TRUE(HasBspStepsLeft(status)) << "worker 0 still has a step to do";
  status.mutable_progress(0)->set_steps_done(100);
  EXPECT_FALSE(HasBspStepsLeft(status));
  AddPeriod(500, v1::ConsistencySpec::BSP, &status);
  EXPECT_TRUE(HasBspStepsLeft(status)) << "of the steps to come";
  for (v1::Progress& progress : *status.mutable_progress()) progress.set_steps_total(500);
  EXPECT_FALSE(HasBspStepsLeft(status)) << "the job ends before";
  for (v1::Progress& progress : *status.mutable_progress()) progress.set_steps_total(600);
  EXPECT_TRUE(HasBspStepsLeft(status));
  for (v1::Progress& progress : *status.mutable_progress()) progress.set_steps_done(600);
  EXPECT_FALSE(HasBspStepsLeft(status)) << "all steps are done";
}

TEST(HasBspStepsLeftTest, AWorkerThatEntersLateHasNothingBeforeToDo) {
  v1::GetStatusReply status = TrainingStatus({200, 0});
  AddPeriod(0, v1::ConsistencySpec::BSP, &status);
  AddPeriod(100, v1::ConsistencySpec::SSP, &status);
  v1::WorkerInfo& late = *status.mutable_view()->mutable_workers(1);
  EXPECT_TRUE(HasBspStepsLeft(status)) << "it has been there from the first step on";
  late.set_is_entering(true);
  EXPECT_FALSE(HasBspStepsLeft(status)) << "its first step will be after those of worker 0";
  late.set_is_entering(false);
  late.set_first_step(190);
  EXPECT_FALSE(HasBspStepsLeft(status));
  late.set_first_step(99);
  EXPECT_TRUE(HasBspStepsLeft(status));
  for (v1::WorkerInfo& worker : *status.mutable_view()->mutable_workers()) {
    worker.set_is_entering(true);
  }
  EXPECT_TRUE(HasBspStepsLeft(status)) << "nobody knows where they begin";
}

}  // namespace
}  // namespace capstan
