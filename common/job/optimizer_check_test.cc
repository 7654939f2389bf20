#include "common/job/optimizer_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace capstan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(OptimizerCheckTest, WhatAFloat32CannotHoldIsRefused) {
  for (const double value : {1.2e-38, 1e-8, 1.0, 1e9}) {
    EXPECT_TRUE(CheckPositive("epsilon", value).ok()) << value;
  }
  for (const double value : {0.0, -1.0, 1e-39, 1.1e9, kInfinity, -kInfinity, std::nan("")}) {
    EXPECT_FALSE(CheckPositive("epsilon", value).ok()) << value;
  }
  EXPECT_TRUE(CheckNotNegative("l1", 0).ok());
  for (const double value : {-1e-9, 1.1e9, kInfinity, std::nan("")}) {
    EXPECT_FALSE(CheckNotNegative("l1", value).ok()) << value;
  }
  // The largest float32 below 1 is 1 - 2^-24.
  for (const double value : {0.0, 0.9, 1 - std::exp2(-24)}) {
    EXPECT_TRUE(CheckFraction("beta1", value).ok()) << value;
  }
  for (const double value : {-0.1, 1.0, 1 - std::exp2(-26), kInfinity, std::nan("")}) {
    EXPECT_FALSE(CheckFraction("beta1", value).ok()) << value;
  }
}

TEST(OptimizerCheckTest, ARuleMayAskForMore) {
  EXPECT_TRUE(CheckPositive("beta", 1e-9, /*least=*/1e-9).ok());
  EXPECT_EQ(CheckPositive("beta", 1e-10, /*least=*/1e-9),
            absl::InvalidArgumentError("optimizer.beta: expected a number above 0 (1e-09 to 1e9), "
                                       "got 1e-10; correct it"));
}

TEST(OptimizerCheckTest, TheFieldIsNamed) {
  EXPECT_EQ(CheckPositive("learning_rate", -1).message(),
            "optimizer.learning_rate: expected a number above 0 (1.2e-38 to 1e9), got -1; correct "
            "it");
  EXPECT_EQ(CheckNotNegative("l2", -1).message(),
            "optimizer.l2: expected 0 or a number above it (up to 1e9), got -1; correct it");
  EXPECT_EQ(
      CheckFraction("momentum", 1.5).message(),
      "optimizer.momentum: expected a number that is at least 0 and, as float32, below 1, got "
      "1.5; correct it");
}

TEST(OptimizerCheckTest, SparseTablesHaveFewerSettings) {
  v1::OptimizerSpec spec;
  spec.set_type(v1::OptimizerSpec::ADAM);
  EXPECT_TRUE(CheckRowSettings(spec).ok());
  spec.set_maximize(true);
  EXPECT_EQ(CheckRowSettings(spec),
            absl::InvalidArgumentError("optimizer.maximize: expected false for a sparse table, got "
                                       "true; give the table an optimizer without"));
  spec.set_maximize(false);
  spec.set_amsgrad(true);
  EXPECT_FALSE(CheckRowSettings(spec).ok());
  spec.set_amsgrad(false);
  spec.set_weight_decay(0.1);
  EXPECT_FALSE(CheckRowSettings(spec).ok());
}

}  // namespace
}  // namespace capstan
