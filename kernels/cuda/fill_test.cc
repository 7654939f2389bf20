#include "kernels/fill.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cuda/device_array.h"

namespace capstan {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(CudaFillTest, WritesEveryElementAndNoneBeyond) {
  TestGpu gpu;
  for (const size_t shift : {0, 1, 2, 3}) {
    for (const int64_t n : {0, 1, 3, 4, 5, 1023, 1024, 1025, 70001}) {
      SCOPED_TRACE(testing::Message() << "n, shift = " << n << ", " << shift);
      const DeviceArray<float> values(std::vector<float>(n, kNan), gpu, shift);
      ASSERT_TRUE(Fill(n, /*value=*/-0.0f, values.data(), *gpu.stream).ok());
      EXPECT_TRUE(HasSameBits(values.Download(), std::vector<float>(n, -0.0f)));
    }
  }
}

}  // namespace
}  // namespace capstan
