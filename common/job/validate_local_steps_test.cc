// ValidateJob and flags of jobs with local steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/job/job_flags.h"
#include "common/job/job_properties.h"
#include "common/job/validate_job.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The error for a job of these flags; empty if there is none.
std::string Verdict(const std::vector<std::string>& flags) {
  return std::string(EffectiveJob(/*file=*/"", flags).status().message());
}

v1::OptimizerSpec OuterOf(const std::vector<std::string>& flags) {
  return EffectiveJob(/*file=*/"", flags).value().optimizer();
}

TEST(ValidateLocalStepsTest, DenseModelsMayHaveThem) {
  EXPECT_EQ(Verdict({"--local_steps=50", "--fragments=5", "--fragment_sync_delay=9"}), "");
  EXPECT_EQ(Verdict({"--local_steps=1", "--model=logistic_regression"}), "");
  EXPECT_EQ(Verdict({"--round_seconds=0.5", "--steps=9", "--model=replay"}), "");
}

TEST(ValidateLocalStepsTest, OtherModelsAreRefusedWithTheReason) {
  EXPECT_THAT(Verdict({"--local_steps=5", "--model=deepfm", "--data_format=synthetic_ctr",
                       "--optimizer=adagrad"}),
              HasSubstr("--local_steps: expected 0, as the model has a sparse table: a worker has "
                        "not all rows, so it cannot train alone, got 5"));
  EXPECT_THAT(Verdict({"--local_steps=5", "--model=program"}),
              HasSubstr("a program has local steps of its own"));
  EXPECT_THAT(Verdict({"--round_seconds=5", "--model=updates", "--steps=5"}),
              StartsWith("--round_seconds: expected 0, as updates has no model to train"));
}

TEST(ValidateLocalStepsTest, ARoundHasStepsOrATime) {
  EXPECT_THAT(Verdict({"--local_steps=5", "--round_seconds=1", "--steps=9"}),
              HasSubstr("--round_seconds: expected 0, as local_steps is given: one of the two"));
  EXPECT_THAT(Verdict({"--round_seconds=-1"}), HasSubstr("a finite number above 0, got -1"));
  EXPECT_THAT(Verdict({"--round_seconds=5"}),
              HasSubstr("--steps: expected the number of rounds, as round_seconds is given"));
}

TEST(ValidateLocalStepsTest, FragmentsAndTheirDelayFitIntoTheRound) {
  EXPECT_THAT(Verdict({"--local_steps=50", "--fragments=4"}),
              HasSubstr("--local_steps: fragments: expected a divisor of sync_every"));
  EXPECT_THAT(Verdict({"--local_steps=50", "--fragments=5", "--fragment_sync_delay=10"}),
              HasSubstr("fragment_sync_delay: expected less than sync_every / fragments"));
}

TEST(ValidateLocalStepsTest, TheWorkersOptimizerIsADenseOne) {
  for (const char* name : {"sgd", "momentum", "nesterov", "adagrad", "adam", "rmsprop", "lion"}) {
    EXPECT_EQ(Verdict({"--local_steps=5", std::string("--local_optimizer=") + name}), "");
  }
  EXPECT_THAT(Verdict({"--local_steps=5", "--local_optimizer=ftrl"}),
              HasSubstr("--local_optimizer: optimizer.type: expected SGD"));
  EXPECT_THAT(Verdict({"--local_steps=5", "--local_learning_rate=0"}),
              HasSubstr("optimizer.learning_rate: expected a number above 0"));
}

TEST(ValidateLocalStepsTest, TheServersOptimizerIsNesterovUnlessItIsNamed) {
  const v1::OptimizerSpec outer = OuterOf({"--local_steps=50"});
  EXPECT_EQ(outer.type(), v1::OptimizerSpec::NESTEROV);
  EXPECT_EQ(outer.learning_rate(), 0.7);
  EXPECT_EQ(outer.momentum(), 0.9);
  EXPECT_EQ(OuterOf({"--local_steps=50", "--learning_rate=0.5"}).learning_rate(), 0.5);
  EXPECT_EQ(OuterOf({"--local_steps=50", "--optimizer=adagrad"}).learning_rate(), 0.05);
  EXPECT_FALSE(OuterOf({}).has_type());
}

TEST(ValidateLocalStepsTest, MuchMomentumIsForBspAlone) {
  EXPECT_THAT(Verdict({"--local_steps=50", "--consistency=async"}),
              HasSubstr("--optimizer: with local steps and consistency async, the servers' "
                        "optimizer has at most momentum 0.5, got 0.9"));
  EXPECT_EQ(Verdict({"--local_steps=50", "--consistency=async", "--momentum=0.5"}), "");
  EXPECT_EQ(Verdict({"--local_steps=50", "--consistency=async", "--optimizer=adagrad"}), "");
}

TEST(ValidateLocalStepsTest, OfStepsAndTimeTheFlagCounts) {
  v1::JobSpec job;
  job.mutable_training()->mutable_local_steps()->set_sync_every(50);
  std::vector<std::string> flags = {"--round_seconds=2"};
  ASSERT_TRUE(ApplyJobFlags(&flags, &job).ok());
  EXPECT_EQ(job.training().local_steps().sync_every(), 0u);
  flags = {"--local_steps=20"};
  ASSERT_TRUE(ApplyJobFlags(&flags, &job).ok());
  EXPECT_EQ(job.training().local_steps().round_seconds(), 0);
  flags = {"--round_seconds=0"};
  ASSERT_TRUE(ApplyJobFlags(&flags, &job).ok());
  EXPECT_EQ(job.training().local_steps().sync_every(), 20u);
}

TEST(ValidateLocalStepsTest, FlagsOfRoundsMatterWithRoundsOnly) {
  for (const char* flag : {"--local_optimizer=adam", "--local_learning_rate=0.1", "--fragments=2",
                           "--fragment_sync_delay=2"}) {
    EXPECT_THAT(Verdict({flag}), HasSubstr("there are no --local_steps and no --round_seconds"));
  }
  EXPECT_THAT(Verdict({"--local_steps=5", "--field=training.local_steps.optimizer.momentum=0.5"}),
              HasSubstr("matters with --local_optimizer=momentum or nesterov or rmsprop only"));
}

TEST(LocalStepsPropertiesTest, RoundsOfTheLastLocalStepsAreRoundedUp) {
  v1::LocalStepsSpec rounds;
  EXPECT_EQ(RoundsFor(/*local_steps=*/45, rounds), 45) << "none";
  rounds.set_sync_every(20);
  EXPECT_EQ(RoundsFor(/*local_steps=*/40, rounds), 2);
  EXPECT_EQ(RoundsFor(/*local_steps=*/41, rounds), 3);
}

TEST(LocalStepsPropertiesTest, WhatIsNotGivenOfTheWorkersOptimizerIsUpToIt) {
  v1::LocalStepsSpec local_steps;
  local_steps.mutable_optimizer()->set_type(v1::OptimizerSpec::LION);
  EXPECT_FALSE(LocalOptimizer(local_steps).has_beta2()) << "it then has one of its own";
  EXPECT_EQ(LocalOptimizer({}).type(), v1::OptimizerSpec::ADAMW);
  EXPECT_EQ(LocalOptimizer({}).learning_rate(), 0.001);
}

}  // namespace
}  // namespace capstan
