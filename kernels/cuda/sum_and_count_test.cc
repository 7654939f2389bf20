#include "kernels/cuda/sum_and_count.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/device_array.h"

namespace capstan {
namespace {

TEST(SumAndCountTest, AddsAllPartials) {
  TestGpu gpu;
  for (const int64_t n : {0, 1, 31, 32, 33, 1023, 1024, 1025, 8192}) {
    std::vector<SumAndCount> partials;
    // Multiples of a half: sums of them are exact in any order.
    for (int64_t i = 0; i < n; ++i) partials.push_back({static_cast<double>(i) / 2, i * i});
    const DeviceArray<SumAndCount> on_gpu(partials, gpu);
    const DeviceArray<double> sum({-1.0}, gpu);
    const DeviceArray<int64_t> count({-1}, gpu);
    ASSERT_TRUE(AddPartials("test", n, on_gpu.data(), sum.data(), count.data(), *gpu.stream).ok());
    EXPECT_EQ(sum.Download()[0], static_cast<double>(n * (n - 1)) / 4) << n;
    EXPECT_EQ(count.Download()[0], (n - 1) * n * (2 * n - 1) / 6) << n;
  }
}

}  // namespace
}  // namespace capstan
