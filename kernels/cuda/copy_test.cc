#include "kernels/copy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "kernels/cuda/device_array.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(CudaCopyTest, CopiesEveryElementAndNoneBeyond) {
  TestGpu gpu;
  Random random(/*seed=*/73);
  for (const int64_t n : {0, 1, 7, 1000}) {
    const std::vector<float> values = NormalVector(n, random);
    const DeviceArray<float> source(values, gpu, /*shift=*/1);
    const DeviceArray<float> target(std::vector<float>(n, kNan), gpu, /*shift=*/2);
    ASSERT_TRUE(Copy(n, source.data(), target.data(), *gpu.stream).ok());
    EXPECT_TRUE(HasSameBits(target.Download(), values));
  }
}

}  // namespace
}  // namespace capstan
