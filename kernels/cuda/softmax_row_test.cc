#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cuda/device_array.h"
#include "kernels/cuda/softmax_row_test_kernels.h"

namespace capstan {
namespace {

SumAndCount TotalOnGpu(int64_t samples, double row_sum) {
  TestGpu gpu;
  const DeviceArray<SumAndCount> total({{-1.0, /*count=*/-1}}, gpu);
  EXPECT_TRUE(TotalOfSamples(samples, row_sum, total.data(), *gpu.stream).ok());
  return total.Download()[0];
}

TEST(SampleTotalsTest, LossIsTheSumOfLogarithmsForAnyNumberOfSamples) {
  for (const double row_sum : {1.0, 1.25, 10.0, 2e9}) {
    for (const int64_t samples : {0, 1, 22, 33, 1000}) {
      const SumAndCount total = TotalOnGpu(samples, row_sum);
      const double expected = static_cast<double>(samples) * std::log(row_sum);
      EXPECT_NEAR(total.sum, expected, 1e-12 * expected) << samples << " samples of " << row_sum;
      EXPECT_EQ(total.count, samples);
    }
  }
}

TEST(SampleTotalsTest, NanMakesTheLossNanAndIsNeverCorrect) {
  const SumAndCount total = TotalOnGpu(/*samples=*/3, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(total.sum));
  EXPECT_EQ(total.count, 0);
}

}  // namespace
}  // namespace capstan
