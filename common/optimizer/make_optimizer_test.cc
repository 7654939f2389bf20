#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/job/optimizer_check.h"
#include "common/optimizer/optimizer.h"
#include "proto/job.pb.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using Spec = v1::OptimizerSpec;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Spec SpecOf(Spec::Type type) {
  Spec spec;
  spec.set_type(type);
  return spec;
}

// Sets one field of an otherwise good spec to each of `values` and expects that it is refused.
void ExpectRefused(Spec::Type type, void (Spec::*set_field)(double), absl::string_view field,
                   std::initializer_list<double> values) {
  for (const double value : values) {
    Spec spec = SpecOf(type);
    (spec.*set_field)(value);
    const absl::Status status = MakeOptimizer(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field << " = " << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr("optimizer." + std::string(field)));
  }
}

TEST(MakeOptimizerTest, DefaultsOfEveryTypeAreAccepted) {
  const struct {
    Spec::Type type;
    int state_count;
  } cases[] = {{Spec::SGD, 0},  {Spec::MOMENTUM, 1}, {Spec::NESTEROV, 1}, {Spec::ADAGRAD, 1},
               {Spec::ADAM, 2}, {Spec::ADAMW, 2},    {Spec::RMSPROP, 1},  {Spec::LION, 1}};
  for (const auto& expected : cases) {
    const auto optimizer = MakeOptimizer(SpecOf(expected.type));
    ASSERT_TRUE(optimizer.ok()) << optimizer.status();
    EXPECT_EQ((*optimizer)->state_count(), expected.state_count);
    EXPECT_EQ(OptimizerArrays(SpecOf(expected.type)), expected.state_count);
  }
}

TEST(MakeOptimizerTest, SettingsAddState) {
  const auto expect_arrays = [](const Spec& spec, int arrays) {
    EXPECT_EQ(MakeOptimizer(spec).value()->state_count(), arrays) << spec.ShortDebugString();
    EXPECT_EQ(OptimizerArrays(spec), arrays) << spec.ShortDebugString();
  };
  Spec spec = SpecOf(Spec::ADAM);
  spec.set_amsgrad(true);
  expect_arrays(spec, 3);
  spec.set_type(Spec::ADAMW);
  expect_arrays(spec, 3);
  spec.set_type(Spec::RMSPROP);
  spec.set_momentum(0);
  expect_arrays(spec, 1);
  spec.set_momentum(0.9);
  expect_arrays(spec, 2);
  spec.set_centered(true);
  expect_arrays(spec, 3);
}

TEST(MakeOptimizerTest, ArraysHaveTorchsNames) {
  using ::testing::ElementsAre;
  EXPECT_THAT(OptimizerArrayNames(SpecOf(Spec::NESTEROV)), ElementsAre("momentum_buffer"));
  EXPECT_THAT(OptimizerArrayNames(SpecOf(Spec::ADAGRAD)), ElementsAre("sum"));
  EXPECT_THAT(OptimizerArrayNames(SpecOf(Spec::LION)), ElementsAre("exp_avg"));
  Spec spec = SpecOf(Spec::ADAMW);
  spec.set_amsgrad(true);
  EXPECT_THAT(OptimizerArrayNames(spec), ElementsAre("exp_avg", "exp_avg_sq", "max_exp_avg_sq"));
  spec = SpecOf(Spec::RMSPROP);
  spec.set_centered(true);
  spec.set_momentum(0.9);
  EXPECT_THAT(OptimizerArrayNames(spec), ElementsAre("square_avg", "grad_avg", "momentum_buffer"));
}

TEST(MakeOptimizerTest, EmptySpecIsMomentum) {
  const auto optimizer = MakeOptimizer(Spec());
  ASSERT_TRUE(optimizer.ok()) << optimizer.status();
  EXPECT_EQ((*optimizer)->state_count(), 1);
}

TEST(MakeOptimizerTest, UnspecifiedTypeIsRefused) {
  const absl::Status status = MakeOptimizer(SpecOf(Spec::TYPE_UNSPECIFIED)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ADAMW"));
}

TEST(MakeOptimizerTest, RatesOutOfRangeAreRefusedByEveryType) {
  for (const Spec::Type type : {Spec::SGD, Spec::MOMENTUM, Spec::NESTEROV, Spec::ADAGRAD,
                                Spec::ADAM, Spec::ADAMW, Spec::RMSPROP, Spec::LION}) {
    ExpectRefused(type, &Spec::set_learning_rate, "learning_rate",
                  {0, -0.1, kNan, kInfinity, -kInfinity, 1e-50, 1e50});
    ExpectRefused(type, &Spec::set_weight_decay, "weight_decay", {-1e-9, kNan, kInfinity, 1e50});
  }
}

TEST(MakeOptimizerTest, FractionsOutOfRangeAreRefused) {
  const std::initializer_list<double> bad = {-0.1, 1, 1 - 1e-12, 2, kNan, kInfinity};
  ExpectRefused(Spec::MOMENTUM, &Spec::set_momentum, "momentum", bad);
  ExpectRefused(Spec::NESTEROV, &Spec::set_momentum, "momentum", bad);
  ExpectRefused(Spec::RMSPROP, &Spec::set_momentum, "momentum", bad);
  ExpectRefused(Spec::RMSPROP, &Spec::set_alpha, "alpha", bad);
  for (const Spec::Type type : {Spec::ADAM, Spec::ADAMW, Spec::LION}) {
    ExpectRefused(type, &Spec::set_beta1, "beta1", bad);
    ExpectRefused(type, &Spec::set_beta2, "beta2", bad);
  }
  ExpectRefused(Spec::MOMENTUM, &Spec::set_dampening, "dampening", {-0.1, 1.1, kNan, kInfinity});
}

TEST(MakeOptimizerTest, EpsilonOutOfRangeIsRefused) {
  for (const Spec::Type type : {Spec::ADAGRAD, Spec::ADAM, Spec::ADAMW, Spec::RMSPROP}) {
    ExpectRefused(type, &Spec::set_epsilon, "epsilon", {0, -1e-8, 1e-50, kNan, kInfinity});
  }
}

TEST(MakeOptimizerTest, HyperParametersThatTheTypeDoesNotUseAreNotLookedAt) {
  Spec spec = SpecOf(Spec::SGD);
  spec.set_momentum(5);
  spec.set_epsilon(-1);
  EXPECT_TRUE(MakeOptimizer(spec).ok());
}

TEST(MakeOptimizerTest, ErrorSaysWhatWasExpectedAndGot) {
  Spec spec;
  spec.set_momentum(1.5);
  EXPECT_EQ(MakeOptimizer(spec).status().message(),
            "optimizer.momentum: expected a number that is at least 0 and, as float32, below 1, "
            "got 1.5; correct it");
}

}  // namespace
}  // namespace capstan
