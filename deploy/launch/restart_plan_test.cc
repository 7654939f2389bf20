#include "deploy/launch/restart_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/launch/fake_job_run.h"
#include "server/checkpoint/example_checkpoint.h"
#include "server/checkpoint/manifest.h"
#include "server/coordinator/members/training_status.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Answer = RestartPlan::LossAnswer;

const absl::Status kFailure = absl::AbortedError("server-0 ended");

class RestartPlanTest : public ::testing::Test {
 protected:
  RestartPlanTest()
      : dir_(absl::StrCat(::testing::TempDir(), "/",
                          ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(dir_);
  }

  RestartPlan Plan(int most = RestartPlan::kNoLimit) {
    auto plan = RestartPlan::Create({dir_, most});
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *std::move(plan);
  }
  // The text of the next restart, or the error.
  static std::string Next(RestartPlan& plan) {
    const auto restart = plan.AfterFailure(kFailure, /*has_trained=*/true);
    return restart.ok() ? restart->text : std::string(restart.status().message());
  }

  const std::string dir_;
};

v1::GetStatusReply TrainingUnder(v1::ConsistencySpec::Mode mode) {
  v1::GetStatusReply status = TrainingStatus({10, 20});
  AddPeriod(0, mode, &status);
  return status;
}

// The places of lost workers are held.
v1::GetStatusReply TrainingWithHeldPlaces(std::vector<int64_t> steps_done = {10, 20}) {
  v1::GetStatusReply status = TrainingStatus(steps_done);
  AddPeriod(0, v1::ConsistencySpec::BSP, &status);
  status.mutable_view()->set_holds_places(true);
  return status;
}

TEST_F(RestartPlanTest, TheNewestCompleteCheckpointOfThisRunIsTaken) {
  WriteExampleCheckpoint(dir_, 900);
  RestartPlan plan = Plan();
  EXPECT_THAT(Next(plan), HasSubstr("restart 1 as it first began: this run has no checkpoint"));
  WriteExampleCheckpoint(dir_, 50);
  const std::string newest = WriteExampleCheckpoint(dir_, 100);
  std::filesystem::create_directory(dir_ + "/checkpoint-000004");
  const auto restart = plan.AfterFailure(kFailure, /*has_trained=*/true);
  ASSERT_TRUE(restart.ok()) << restart.status();
  EXPECT_EQ(restart->checkpoint, newest);
  EXPECT_EQ(restart->text, "restart 2 from step 100 (checkpoint-000003)");
}

TEST_F(RestartPlanTest, ADamagedCheckpointIsPassedOver) {
  RestartPlan plan = Plan();
  const std::string older = WriteExampleCheckpoint(dir_, 50);
  const std::string newest = WriteExampleCheckpoint(dir_, 100);
  std::ofstream(newest + "/" + kManifestFile, std::ios::app) << "x";
  EXPECT_EQ(Next(plan), "restart 1 from step 50 (checkpoint-000001)");
  std::ofstream(older + "/" + kManifestFile, std::ios::app) << "x";
  EXPECT_THAT(Next(plan), AllOf(HasSubstr("server-0 ended; restarted 1 time; no restart: "),
                                HasSubstr(newest), HasSubstr("it is damaged")));
}

TEST_F(RestartPlanTest, TenFailuresInARowWithoutANewerCheckpointAreTheEnd) {
  RestartPlan plan = Plan();
  for (int i = 1; i <= 9; ++i) EXPECT_THAT(Next(plan), HasSubstr("as it first began"));
  WriteExampleCheckpoint(dir_, 50);
  for (int i = 1; i <= 9; ++i) {
    EXPECT_EQ(Next(plan), absl::StrCat("restart ", 9 + i, " from step 50 (checkpoint-000001)"));
  }
  EXPECT_EQ(Next(plan),
            "server-0 ended; restarted 18 times; no restart: 10 failures in a row without a newer "
            "checkpoint: the reason seems to last");
}

TEST_F(RestartPlanTest, RestartsAndReplacedWorkersCountTogether) {
  RestartPlan plan = Plan(/*most=*/3);
  EXPECT_EQ(plan.CountsText(), "");
  EXPECT_EQ(plan.AfterLostWorker(TrainingUnder(v1::ConsistencySpec::ASYNC)), Answer::kReplace);
  EXPECT_EQ(plan.AfterLostWorker(TrainingUnder(v1::ConsistencySpec::SSP)), Answer::kReplace);
  EXPECT_THAT(Next(plan), HasSubstr("restart 1 "));
  EXPECT_EQ(plan.AfterLostWorker(TrainingUnder(v1::ConsistencySpec::SSP)), Answer::kGoOn);
  EXPECT_EQ(Next(plan),
            "server-0 ended; restarted 1 time, 2 workers replaced; no restart: "
            "--restart=on_failure:3 allows no more");
}

TEST_F(RestartPlanTest, ALostWorkerIsReplacedOnlyInTraining) {
  RestartPlan plan = Plan();
  v1::GetStatusReply status = TrainingUnder(v1::ConsistencySpec::SSP);
  status.mutable_view()->set_phase(v1::EVALUATING);
  EXPECT_EQ(plan.AfterLostWorker(status), Answer::kGoOn);
  EXPECT_EQ(plan.AfterLostWorker(TrainingUnder(v1::ConsistencySpec::BSP)), Answer::kRestart);
  status = TrainingWithHeldPlaces();
  status.mutable_view()->set_phase(v1::SAVING);
  EXPECT_EQ(plan.AfterLostWorker(status), Answer::kRestart);
  EXPECT_EQ(plan.CountsText(), "");
}

TEST_F(RestartPlanTest, IfOtherBitsAreAllowedALostWorkerIsReplacedUnderBspToo) {
  auto plan = RestartPlan::Create({dir_, RestartPlan::kNoLimit, /*allows_other_bits=*/true});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->AfterLostWorker(TrainingUnder(v1::ConsistencySpec::BSP)), Answer::kReplace);
}

TEST_F(RestartPlanTest, WorkersThatAreLostAgainAndAgainAreAFailureOfTheJob) {
  RestartPlan plan = Plan();
  const v1::GetStatusReply status = TrainingUnder(v1::ConsistencySpec::SSP);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(plan.AfterLostWorker(status), Answer::kReplace);
  EXPECT_EQ(plan.AfterLostWorker(status), Answer::kRestart);
  WriteExampleCheckpoint(dir_, 50);
  EXPECT_EQ(plan.AfterLostWorker(status), Answer::kReplace);
}

TEST_F(RestartPlanTest, AWorkerWhosePlaceIsHeldIsReplacedUnderBsp) {
  RestartPlan plan = Plan();
  EXPECT_EQ(plan.AfterLostWorker(TrainingWithHeldPlaces()), Answer::kReplace);
  EXPECT_EQ(plan.CountsText(), "1 worker replaced");
}

TEST_F(RestartPlanTest, AHeldPlaceThatMayNotBeTakenAnyMoreIsAFailureOfTheJob) {
  RestartPlan plan = Plan(/*most=*/1);
  EXPECT_EQ(plan.AfterLostWorker(TrainingWithHeldPlaces()), Answer::kReplace);
  EXPECT_EQ(plan.AfterLostWorker(TrainingWithHeldPlaces()), Answer::kRestart);
  EXPECT_EQ(Next(plan),
            "server-0 ended; 1 worker replaced; no restart: --restart=on_failure:1 allows no more");
}

TEST_F(RestartPlanTest, AStepOfAllWorkersBeginsANewRowOfReplacements) {
  RestartPlan plan = Plan();
  for (int64_t step = 1; step <= 20; ++step) {
    EXPECT_EQ(plan.AfterLostWorker(TrainingWithHeldPlaces({step, step + 1})), Answer::kReplace);
  }
  // The step of worker 1 alone is none, and who has just come has not told its own.
  for (int64_t step = 22; step < 31; ++step) {
    EXPECT_EQ(plan.AfterLostWorker(TrainingWithHeldPlaces({20, step})), Answer::kReplace);
  }
  EXPECT_EQ(plan.AfterLostWorker(TrainingWithHeldPlaces({20, 0})), Answer::kRestart);
}

TEST_F(RestartPlanTest, AJobWithoutCheckpointsOnlyReplacesWorkers) {
  auto plan = RestartPlan::Create({/*checkpoint_dir=*/""});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->AfterLostWorker(TrainingWithHeldPlaces()), Answer::kReplace);
  EXPECT_EQ(Next(*plan),
            "server-0 ended; 1 worker replaced; no restart: the job has no "
            "checkpoints (--checkpoint_dir)");
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(plan->AfterLostWorker(TrainingWithHeldPlaces()), Answer::kReplace);
  }
  EXPECT_EQ(plan->AfterLostWorker(TrainingWithHeldPlaces()), Answer::kRestart);
  EXPECT_EQ(
      Next(*plan),
      "server-0 ended; 10 workers replaced; no restart: 10 workers were lost in a row without "
      "a further step: the reason seems to last");
}

TEST_F(RestartPlanTest, AJobOnSeveralMachinesOnlyReplacesWorkers) {
  RestartPlan::Options options;
  EXPECT_TRUE(RestartPlan::Create(options)->starts_again());
  options.only_replaces = true;
  auto plan = RestartPlan::Create(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->starts_again());
  EXPECT_EQ(plan->AfterLostWorker(TrainingWithHeldPlaces()), Answer::kReplace);
}

// Each shard had two copies again after the first loss, if `was_whole`.
v1::GetStatusReply AfterSecondLoss(int64_t steps_done, bool was_whole) {
  v1::GetStatusReply status = TrainingStatus({steps_done, steps_done});
  status.add_server_losses()->set_seconds_until_whole(was_whole ? 2 : 0);
  status.add_server_losses();
  return status;
}

TEST_F(RestartPlanTest, ReplacedServersCountWithWorkersAndRestarts) {
  RestartPlan plan = Plan(/*most=*/3);
  const v1::GetStatusReply status = TrainingUnder(v1::ConsistencySpec::SSP);
  EXPECT_EQ(plan.AfterLostServer(status, /*had_come=*/true), "");
  EXPECT_EQ(plan.AfterLostServer(status, /*had_come=*/false), "");
  EXPECT_EQ(plan.AfterLostWorker(status), Answer::kReplace);
  EXPECT_EQ(plan.AfterLostServer(status, /*had_come=*/true),
            "--restart=on_failure:3 allows no more");
  EXPECT_EQ(plan.AfterLostWorker(status), Answer::kGoOn);
  EXPECT_EQ(plan.CountsText(), "1 worker replaced, 2 servers replaced");
}

TEST_F(RestartPlanTest, NoServerIsReplacedWhileTheResultIsWritten) {
  RestartPlan plan = Plan();
  v1::GetStatusReply status;
  status.mutable_view()->set_phase(v1::SAVING);
  EXPECT_EQ(plan.AfterLostServer(status, /*had_come=*/true), "the job is near its end");
  EXPECT_EQ(plan.CountsText(), "");
}

TEST_F(RestartPlanTest, AStepWithTwoCopiesBeginsANewRowOfReplacedServers) {
  RestartPlan plan = Plan();
  int64_t step = 0;
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(plan.AfterLostServer(AfterSecondLoss(++step, true), /*had_come=*/true), "");
  }
  // One more is in the row already.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(plan.AfterLostServer(AfterSecondLoss(step, true), /*had_come=*/true), "");
    EXPECT_EQ(plan.AfterLostServer(AfterSecondLoss(step + 1, false), /*had_come=*/true), "");
    EXPECT_EQ(plan.AfterLostServer(AfterSecondLoss(step + 1, true), /*had_come=*/false), "");
  }
  EXPECT_THAT(plan.AfterLostServer(AfterSecondLoss(step, true), /*had_come=*/true),
              HasSubstr("10 others were lost in a row"));
  EXPECT_EQ(plan.AfterLostServer(AfterSecondLoss(step + 1, true), /*had_come=*/true), "");
}

TEST_F(RestartPlanTest, ReplacedCoordinatorsCountToo) {
  RestartPlan plan = Plan(/*most=*/2);
  const v1::GetStatusReply status = TrainingUnder(v1::ConsistencySpec::SSP);
  EXPECT_EQ(plan.AfterLostCoordinator(status), "");
  EXPECT_EQ(plan.AfterLostWorker(status), Answer::kReplace);
  EXPECT_EQ(plan.AfterLostCoordinator(status), "--restart=on_failure:2 allows no more");
  EXPECT_EQ(plan.CountsText(), "1 coordinator replaced, 1 worker replaced");
}

TEST_F(RestartPlanTest, AFurtherStepBeginsANewRowOfReplacedCoordinators) {
  RestartPlan plan = Plan();
  for (int64_t step = 1; step <= 30; ++step) {
    EXPECT_EQ(plan.AfterLostCoordinator(TrainingStatus({step, step})), "");
  }
  // One more is in the row already. A coordinator may have heard of nothing so far.
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(plan.AfterLostCoordinator(TrainingStatus({i % 2 == 0 ? 0 : 30, 30})), "");
  }
  EXPECT_THAT(plan.AfterLostCoordinator(TrainingStatus({30, 31})),
              HasSubstr("10 others were lost in a row without a further step"));
}

TEST_F(RestartPlanTest, APlanForServersAndCoordinatorsStartsNothingElse) {
  RestartPlan::Options options;
  EXPECT_TRUE(RestartPlan::Create(options)->replaces_workers());
  options.only_servers = true;
  auto plan = RestartPlan::Create(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->starts_again());
  EXPECT_FALSE(plan->replaces_workers());
  EXPECT_EQ(plan->AfterLostServer(TrainingWithHeldPlaces(), /*had_come=*/true), "");
  EXPECT_EQ(plan->AfterLostCoordinator(TrainingWithHeldPlaces()), "");
}

TEST_F(RestartPlanTest, AFolderThatCannotBeReadIsAnError) {
  std::ofstream(dir_) << "a file";
  EXPECT_THAT(std::string(RestartPlan::Create({dir_}).status().message()),
              HasSubstr("expected a folder with checkpoints"));
}

}  // namespace
}  // namespace capstan
