#include "server/coordinator/members/training_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace capstan {
namespace {

using ::testing::HasSubstr;

const absl::Time kNoon = absl::UnixEpoch() + absl::Hours(12);

TEST(TrainingProgressTest, TheTimeIsThatOfAllTrainingsAndOfThatBeforeTheCheckpoint) {
  const v1::JobSpec job;
  RestorePoint restored;
  restored.manifest.set_training_seconds(100);
  TrainingProgress training(job, restored);
  EXPECT_EQ(training.TimeUntil(kNoon), absl::Seconds(100));
  training.Begin(kNoon);
  EXPECT_EQ(training.TimeUntil(kNoon + absl::Seconds(5)), absl::Seconds(105));
  training.End(kNoon + absl::Seconds(7));
  EXPECT_EQ(training.TimeUntil(kNoon + absl::Hours(1)), absl::Seconds(107));
}

TEST(TrainingProgressTest, AllWorkersHaveTheSameStepsToDo) {
  const v1::JobSpec job;
  const RestorePoint anew;
  TrainingProgress training(job, anew);
  EXPECT_TRUE(training.ReportSteps(0, 0).ok()) << "it does not know yet";
  EXPECT_EQ(training.steps_total(), 0);
  EXPECT_TRUE(training.ReportSteps(1, 100).ok());
  EXPECT_TRUE(training.ReportSteps(0, 0).ok());
  EXPECT_EQ(training.steps_total(), 100);
  const absl::Status other = training.ReportSteps(2, 200);
  EXPECT_TRUE(absl::IsInvalidArgument(other)) << other;
  EXPECT_EQ(other.message(),
            "worker 2 has 200 steps to do, the others 100: expected the same data on every worker");
  EXPECT_EQ(training.steps_total(), 100);
}

TEST(TrainingProgressTest, WorkersOfAJobThatStaysDoRounds) {
  v1::JobSpec job;
  job.set_stay(true);
  const RestorePoint anew;
  TrainingProgress training(job, anew);
  EXPECT_TRUE(training.ReportSteps(0, 100).ok());
  EXPECT_TRUE(training.ReportSteps(1, 300).ok());
  EXPECT_FALSE(training.ReportSteps(1, 350).ok());
}

TEST(TrainingProgressTest, WorkersMayAgreeToEndEarlierOnce) {
  const v1::JobSpec job;
  const RestorePoint anew;
  TrainingProgress training(job, anew);
  EXPECT_FALSE(training.ReportEarlyEnd(0, 40).ok()) << "nobody has announced any";
  ASSERT_TRUE(training.ReportSteps(0, 100).ok());
  EXPECT_FALSE(training.ReportEarlyEnd(0, 101).ok());
  EXPECT_EQ(training.steps_announced(), 0);
  EXPECT_TRUE(training.ReportEarlyEnd(0, 40).ok());
  EXPECT_EQ(training.steps_total(), 40);
  EXPECT_EQ(training.steps_announced(), 100);
  EXPECT_TRUE(training.ReportSteps(1, 100).ok()) << "it does its last step";
  EXPECT_TRUE(training.ReportSteps(2, 40).ok()) << "it has come since";
  EXPECT_TRUE(training.ReportEarlyEnd(1, 40).ok());
  const absl::Status other = training.ReportEarlyEnd(2, 39);
  EXPECT_EQ(other.message(),
            "worker 2 has ended after 39 steps, the others have 40: expected the same of all "
            "workers");
  EXPECT_EQ(training.steps_total(), 40);
}

TEST(TrainingProgressTest, AJobThatStaysHasNoEarlyEnd) {
  v1::JobSpec job;
  job.set_stay(true);
  const RestorePoint anew;
  TrainingProgress training(job, anew);
  ASSERT_TRUE(training.ReportSteps(0, 100).ok());
  EXPECT_FALSE(training.ReportEarlyEnd(0, 40).ok());
  EXPECT_EQ(training.steps_total(), 100);
}

TEST(TrainingProgressTest, AJobEndsNotBeforeItsCheckpoint) {
  const v1::JobSpec job;
  RestorePoint restored;
  restored.path = "dir/c7";
  restored.manifest.set_end_step(44);
  TrainingProgress training(job, restored);
  EXPECT_THAT(std::string(training.ReportSteps(0, 43).message()),
              HasSubstr("expected at least the 44 steps that are in dir/c7, got 43"));
  EXPECT_EQ(training.steps_total(), 43);
  TrainingProgress longer(job, restored);
  EXPECT_TRUE(longer.ReportSteps(0, 44).ok());
}

}  // namespace
}  // namespace capstan
