#include "server/shard/check_request.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

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
  return absl::IsInvalidArgument(CheckRequest(request, {}));
}

TEST(CheckRequestTest, AStepHasAPushOrAPullFromStepZeroOn) {
  DenseStep step;
  EXPECT_TRUE(IsRefused(Dense(step)));
  step.pull = StepPull{Step(0)};
  EXPECT_TRUE(CheckRequest(Dense(step), {}).ok());
  step.pull = StepPull{Step(-1)};
  EXPECT_TRUE(IsRefused(Dense(step)));
  step.pull.reset();
  step.push = StepPush{Step(-1)};
  EXPECT_TRUE(IsRefused(Dense(step)));
  step.push = StepPush{Step(0)};
  EXPECT_TRUE(CheckRequest(Dense(step), {}).ok());
}

TEST(CheckRequestTest, ALearningRateIsFiniteAndNotNegative) {
  DenseStep step;
  step.push = StepPush{Step(3)};
  for (const double rate : {0.0, 0.5, 3e38}) {
    step.push->rates.learning_rate = rate;
    EXPECT_TRUE(CheckRequest(Dense(step), {}).ok()) << rate;
  }
  for (const double rate : {-1e-9, 4e38, double{INFINITY}, std::nan("")}) {
    step.push->rates.learning_rate = rate;
    EXPECT_TRUE(IsRefused(Dense(step))) << rate;
  }
}

TEST(CheckRequestTest, AMomentumIsBelowOneAndNotNegative) {
  DenseStep step;
  step.push = StepPush{Step(3)};
  for (const double momentum : {0.0, 0.95, 0.9999999}) {
    step.push->rates.momentum = momentum;
    EXPECT_TRUE(CheckRequest(Dense(step), {}).ok()) << momentum;
  }
  for (const double momentum : {-1e-9, 1 - 1e-9, 1.0, double{INFINITY}, std::nan("")}) {
    step.push->rates.momentum = momentum;
    EXPECT_TRUE(IsRefused(Dense(step))) << momentum;
  }
}

TEST(CheckRequestTest, RowsComeWithAGradientOrAPull) {
  RowStep step;
  step.push = StepPush{Step(0)};
  EXPECT_TRUE(CheckRequest(Rows(step), {}).ok()) << "an empty push";
  step.pushed_keys.rows = 2;
  EXPECT_TRUE(IsRefused(Rows(step)));
  step.push->gradient = Gradient();
  EXPECT_TRUE(CheckRequest(Rows(step), {}).ok());
  step.pushed_keys.rows = 0;
  EXPECT_TRUE(IsRefused(Rows(step)));
  step = RowStep();
  step.push = StepPush{Step(0)};
  step.pulled_keys.rows = 1;
  EXPECT_TRUE(IsRefused(Rows(step)));
  step.pull = StepPull{Step(1)};
  EXPECT_TRUE(CheckRequest(Rows(step), {}).ok());
}

template <typename Purpose>
ExchangeRequest Of(WorkerId worker, Purpose purpose) {
  ExchangeRequest request;
  request.sender.worker = worker;
  request.purpose = std::move(purpose);
  return request;
}

TEST(CheckRequestTest, WhatOneWorkerSendsComesFromTheFirst) {
  CheckedSlice slice;
  slice.has_initial_from_worker = true;
  TableState table;
  table.cut = 1;
  EXPECT_TRUE(CheckRequest(Of(WorkerId(0), InitialValues()), slice).ok());
  EXPECT_TRUE(CheckRequest(Of(WorkerId(0), OptimizerState()), slice).ok());
  EXPECT_TRUE(CheckRequest(Of(WorkerId(0), table), slice).ok());
  EXPECT_FALSE(CheckRequest(Of(WorkerId(1), InitialValues()), slice).ok());
  EXPECT_FALSE(CheckRequest(Of(WorkerId(1), OptimizerState()), slice).ok());
  EXPECT_FALSE(CheckRequest(Of(WorkerId(1), table), slice).ok());
  EXPECT_FALSE(CheckRequest(Of(WorkerId(0), InitialValues()), CheckedSlice()).ok())
      << "the table has others";
}

TEST(CheckRequestTest, StatesAreOfACutOrOfAProgramAtItsPlace) {
  CheckedSlice has_programs;
  has_programs.has_programs = true;
  WorkerState state;
  EXPECT_TRUE(IsRefused(Of(WorkerId(1), state))) << "cut 0";
  EXPECT_TRUE(IsRefused(Of(WorkerId(0), TableState()))) << "cut 0";
  state.cut = 1;
  EXPECT_TRUE(CheckRequest(Of(WorkerId(1), state), {}).ok());
  state.is_program = true;
  EXPECT_TRUE(IsRefused(Of(WorkerId(1), state)));
  state.cut = 0;
  EXPECT_TRUE(CheckRequest(Of(WorkerId(1), state), has_programs).ok());
  WorkerStatePull pull;
  EXPECT_TRUE(CheckRequest(Of(WorkerId(1), pull), {}).ok());
  pull.is_program = true;
  EXPECT_TRUE(IsRefused(Of(WorkerId(1), pull)));
  EXPECT_TRUE(CheckRequest(Of(WorkerId(1), pull), has_programs).ok());
}

TEST(CheckRequestTest, CollectiveOperationsAreAtTheFirstSlice) {
  ExchangeRequest request = Of(WorkerId(1), Collective());
  request.slice = kCollectiveSlice;
  EXPECT_TRUE(CheckRequest(request, {}).ok());
  request.slice.slice = SliceIndex(1);
  EXPECT_TRUE(IsRefused(request));
}

TEST(CheckRequestTest, AProbeIsForTheServer) { EXPECT_TRUE(IsRefused(Of(WorkerId(0), Probe()))); }

}  // namespace
}  // namespace capstan
