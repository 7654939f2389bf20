#include "common/job/local_steps_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::LocalSteps Steps(int64_t sync_every, uint32_t fragments = 1, uint32_t delay = 0) {
  v1::LocalSteps local_steps;
  local_steps.set_sync_every(sync_every);
  local_steps.set_fragments(fragments);
  local_steps.set_fragment_sync_delay(delay);
  return local_steps;
}

v1::LocalSteps Seconds(double round_seconds, uint32_t fragments = 1, uint32_t delay = 0) {
  v1::LocalSteps local_steps = Steps(0, fragments, delay);
  local_steps.set_round_seconds(round_seconds);
  return local_steps;
}

// The message of the error; empty: none.
std::string ErrorOf(const absl::Status& status) {
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

std::string Refusal(const v1::LocalSteps& local_steps) {
  return ErrorOf(CheckLocalSteps(local_steps, /*is_replaceable=*/false));
}

TEST(CheckLocalStepsTest, RoundsOfStepsAndOfTimeFit) {
  EXPECT_EQ(Refusal(Steps(1)), "");
  EXPECT_EQ(Refusal(Steps(60, /*fragments=*/4, /*delay=*/14)), "");
  EXPECT_EQ(Refusal(Steps(1024, kMostFragments)), "");
  EXPECT_EQ(Refusal(Seconds(0.5)), "");
  EXPECT_EQ(Refusal(Seconds(2400, /*fragments=*/7, /*delay=*/100)), "");
}

TEST(CheckLocalStepsTest, ARoundHasStepsOrATime) {
  EXPECT_THAT(Refusal(Steps(0)), HasSubstr("got neither"));
  v1::LocalSteps both = Steps(50);
  both.set_round_seconds(10);
  EXPECT_THAT(Refusal(both), HasSubstr("got both"));
}

TEST(CheckLocalStepsTest, WhatIsNoNumberOfStepsAndNoTimeIsRefused) {
  EXPECT_THAT(Refusal(Steps(-1)), HasSubstr("sync_every: expected 1 local step or more"));
  for (const double seconds : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(Refusal(Seconds(seconds)), HasSubstr("round_seconds: expected a time above 0"));
  }
}

TEST(CheckLocalStepsTest, FragmentsDivideTheRound) {
  EXPECT_THAT(Refusal(Steps(50, /*fragments=*/0)), HasSubstr("fragments: expected 1 to 1024"));
  EXPECT_THAT(Refusal(Steps(2050, /*fragments=*/1025)), HasSubstr("got 1025"));
  EXPECT_THAT(Refusal(Steps(50, /*fragments=*/4)),
              HasSubstr("fragments: expected a divisor of sync_every, which is 50, got 4"));
  EXPECT_THAT(Refusal(Steps(50, /*fragments=*/5, /*delay=*/10)),
              HasSubstr("expected less than sync_every / fragments, which is 10 steps, got 10"));
}

TEST(CheckLocalStepsTest, NobodyCanDoLocalStepsAgain) {
  EXPECT_THAT(ErrorOf(CheckLocalSteps(Steps(50), /*is_replaceable=*/true)),
              HasSubstr("no other process can do the local steps of a lost one again"));
}

TEST(CheckLocalStepsTest, TextNamesWhatCounts) {
  EXPECT_EQ(LocalStepsText(Steps(50, 5, 3)), "sync_every 50, fragments 5, fragment_sync_delay 3");
  EXPECT_EQ(LocalStepsText(Seconds(1.5)), "round_seconds 1.5, fragments 1, fragment_sync_delay 0");
}

class TablesOfRoundsTest : public testing::Test {
 protected:
  TablesOfRoundsTest() {
    table().set_name("w");
    table().add_shape(4);
    job_.mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  }

  v1::TableSpec& table() { return tables_.empty() ? *tables_.Add() : *tables_.Mutable(0); }
  v1::OptimizerSpec& Optimizer(v1::OptimizerSpec::Type type) {
    table().mutable_optimizer()->set_type(type);
    return *table().mutable_optimizer();
  }
  std::string Refusal() const { return ErrorOf(CheckTablesOfRounds(job_, tables_)); }

  v1::JobSpec job_;
  TableSpecs tables_;
};

TEST_F(TablesOfRoundsTest, MuchMomentumIsForBspAlone) {
  Optimizer(v1::OptimizerSpec::NESTEROV).set_momentum(0.9);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("table w: with local steps and consistency async"),
                               HasSubstr("at most momentum 0.5, got 0.9: the training would"),
                               HasSubstr("or consistency bsp")));
  job_.mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  EXPECT_THAT(Refusal(), HasSubstr("consistency ssp"));
  job_.mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  EXPECT_EQ(Refusal(), "");
}

TEST_F(TablesOfRoundsTest, EachKindOfMomentumCounts) {
  using Spec = v1::OptimizerSpec;
  for (const Spec::Type type : {Spec::MOMENTUM, Spec::NESTEROV, Spec::RMSPROP}) {
    Optimizer(type).set_momentum(0.51);
    EXPECT_THAT(Refusal(), HasSubstr("momentum 0.5, got 0.51")) << type;
    Optimizer(type).set_momentum(0.5);
    EXPECT_EQ(Refusal(), "") << type;
  }
  for (const Spec::Type type : {Spec::ADAM, Spec::ADAMW, Spec::LION}) {
    Optimizer(type).set_beta1(0.9);
    EXPECT_THAT(Refusal(), HasSubstr("beta1 0.5, got 0.9")) << type;
    Optimizer(type).set_beta1(0.5);
    EXPECT_EQ(Refusal(), "") << type;
  }
  table().mutable_optimizer()->Clear();
  for (const Spec::Type type : {Spec::SGD, Spec::ADAGRAD, Spec::RMSPROP}) {
    Optimizer(type);
    EXPECT_EQ(Refusal(), "") << type;
  }
}

TEST_F(TablesOfRoundsTest, TheJobsOptimizerIsThatOfATableWithoutOne) {
  EXPECT_THAT(Refusal(), HasSubstr("got 0.9"));  // the default
  job_.mutable_optimizer()->set_momentum(0.25);
  EXPECT_EQ(Refusal(), "");
}

TEST_F(TablesOfRoundsTest, NoServerStepsATableThatRepliesTheMean) {
  table().set_replies_mean(true);
  EXPECT_EQ(Refusal(), "");
}

TEST_F(TablesOfRoundsTest, SparseTablesAreRefused) {
  job_.mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  table().mutable_sparse()->set_dim(3);
  EXPECT_THAT(Refusal(), HasSubstr("table w is sparse, and local steps train dense tables only"));
}

}  // namespace
}  // namespace capstan
