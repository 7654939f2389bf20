#include "tests/benchmark/step_gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace capstan {
namespace {

TEST(StepGradientTest, SumOfAllWorkersIsWhatIsChecked) {
  std::vector<float> sum(1000), gradient(1000);
  for (int worker = 0; worker < 3; ++worker) {
    FillGradient(worker, absl::MakeSpan(gradient));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  }
  EXPECT_EQ(SumOfGradients(3), 6);
  EXPECT_TRUE(CheckPattern(sum, SumOfGradients(3)).ok()) << CheckPattern(sum, SumOfGradients(3));
}

TEST(StepGradientTest, WrongValueIsNamed) {
  std::vector<float> gradient(100);
  FillGradient(/*worker=*/1, absl::MakeSpan(gradient));
  std::swap(gradient[8], gradient[9]);
  EXPECT_EQ(CheckPattern(gradient, 2).message(), "element 8 is wrong: expected 4, got 6");
}

TEST(StepGradientTest, MissingWorkerIsSeen) {
  std::vector<float> gradient(100);
  FillGradient(/*worker=*/0, absl::MakeSpan(gradient));
  EXPECT_FALSE(CheckPattern(gradient, SumOfGradients(2)).ok());
}

}  // namespace
}  // namespace capstan
