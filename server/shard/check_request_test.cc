#include "server/shard/check_step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/codec/codec.h"

namespace capstan {
namespace {

ExchangeRequest Dense(const DenseStep& step) {
  ExchangeRequest request;
  request.purpose = step;
  return request;
}

ExchangeRequest Rows(const RowStep& step) {
  ExchangeRequest request;
  request.purpose = step;
  return request;
}

bool IsRefused(const ExchangeRequest& request) {
  return absl::IsInvalidArgument(CheckStep(request));
}

TEST(CheckStepTest, AStepHasAPushOrAPullFromStepZeroOn) {
  DenseStep step;
  EXPECT_TRUE(IsRefused(Dense(step)));
  step.pull = StepPull{Step(0)};
  EXPECT_TRUE(CheckStep(Dense(step)).ok());
  step.pull = StepPull{Step(-1)};
  EXPECT_TRUE(IsRefused(Dense(step)));
  step.pull.reset();
  step.push = StepPush{Step(-1)};
  EXPECT_TRUE(IsRefused(Dense(step)));
  step.push = StepPush{Step(0)};
  EXPECT_TRUE(CheckStep(Dense(step)).ok());
}

TEST(CheckStepTest, ALearningRateIsFiniteAndNotNegative) {
  DenseStep step;
  step.push = StepPush{Step(3)};
  for (const double rate : {0.0, 0.5, 3e38}) {
    step.push->rates.learning_rate = rate;
    EXPECT_TRUE(CheckStep(Dense(step)).ok()) << rate;
  }
  for (const double rate : {-1e-9, 4e38, double{INFINITY}, std::nan("")}) {
    step.push->rates.learning_rate = rate;
    EXPECT_TRUE(IsRefused(Dense(step))) << rate;
  }
}

TEST(CheckStepTest, AMomentumIsBelowOneAndNotNegative) {
  DenseStep step;
  step.push = StepPush{Step(3)};
  for (const double momentum : {0.0, 0.95, 0.9999999}) {
    step.push->rates.momentum = momentum;
    EXPECT_TRUE(CheckStep(Dense(step)).ok()) << momentum;
  }
  for (const double momentum : {-1e-9, 1 - 1e-9, 1.0, double{INFINITY}, std::nan("")}) {
    step.push->rates.momentum = momentum;
    EXPECT_TRUE(IsRefused(Dense(step))) << momentum;
  }
}

TEST(CheckStepTest, RowsComeWithAGradientOrAPull) {
  RowStep step;
  step.push = StepPush{Step(0)};
  EXPECT_TRUE(CheckStep(Rows(step)).ok()) << "an empty push";
  step.pushed_keys.rows = 2;
  EXPECT_TRUE(IsRefused(Rows(step)));
  step.push->gradient = Gradient();
  EXPECT_TRUE(CheckStep(Rows(step)).ok());
  step.pushed_keys.rows = 0;
  EXPECT_TRUE(IsRefused(Rows(step)));
  step = RowStep();
  step.push = StepPush{Step(0)};
  step.pulled_keys.rows = 1;
  EXPECT_TRUE(IsRefused(Rows(step)));
  step.pull = StepPull{Step(1)};
  EXPECT_TRUE(CheckStep(Rows(step)).ok());
}

TEST(CheckStepTest, WhatIsNoStepIsNotItsMatter) {
  ExchangeRequest request;
  request.purpose = Probe();
  EXPECT_TRUE(CheckStep(request).ok());
}

}  // namespace
}  // namespace capstan
