#include "kernels/arrays.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cuda/device_array.h"
#include "kernels/normal_vector.h"

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

// Any bits: normal and subnormal numbers, infinities and NaN.
std::vector<float> AnyFloats(int64_t n, Random& random) {
  std::vector<float> values(n);
  for (float& value : values) {
    const uint32_t bits = random();
    std::memcpy(&value, &bits, sizeof(value));
  }
  return values;
}

void ExpectSameBits(int64_t n, size_t float_shift, size_t bfloat_shift, TestGpu& gpu) {
  SCOPED_TRACE(testing::Message() << n << ", shifts " << float_shift << ", " << bfloat_shift);
  Random random(/*seed=*/74, /*stream=*/static_cast<uint64_t>(n));
  const std::vector<float> source = AnyFloats(n, random);
  std::vector<Bfloat16> rounded(n);
  std::vector<float> back(n);
  CpuStream stream;
  ASSERT_TRUE(ConvertToBfloat16(n, source.data(), rounded.data(), stream).ok());
  ASSERT_TRUE(ConvertToFloat32(n, rounded.data(), back.data(), stream).ok());

  const DeviceArray<float> gpu_source(source, gpu, float_shift);
  const DeviceArray<Bfloat16> gpu_rounded(std::vector<Bfloat16>(n, Bfloat16{0x7fff}), gpu,
                                          bfloat_shift);
  const DeviceArray<float> gpu_back(AnyFloats(n, random), gpu, float_shift);
  ASSERT_TRUE(ConvertToBfloat16(n, gpu_source.data(), gpu_rounded.data(), *gpu.stream).ok());
  ASSERT_TRUE(ConvertToFloat32(n, gpu_rounded.data(), gpu_back.data(), *gpu.stream).ok());

  EXPECT_TRUE(HasSameBits(gpu_rounded.Download(), rounded));
  EXPECT_TRUE(HasSameBits(gpu_back.Download(), back));
}

TEST(CudaConvertTest, SameBitsAsOnTheCpu) {
  TestGpu gpu;
  for (const int64_t n : {0, 1, 3, 4, 5, 1023, 2047, 2048, 2049, 100003}) {
    ExpectSameBits(n, /*float_shift=*/0, /*bfloat_shift=*/0, gpu);
  }
}

TEST(CudaConvertTest, SameBitsWhereArraysAreNotAligned) {
  TestGpu gpu;
  for (const int64_t n : {1, 4, 1025}) {
    ExpectSameBits(n, /*float_shift=*/1, /*bfloat_shift=*/0, gpu);
    ExpectSameBits(n, /*float_shift=*/0, /*bfloat_shift=*/1, gpu);
    ExpectSameBits(n, /*float_shift=*/3, /*bfloat_shift=*/2, gpu);
  }
}

}  // namespace
}  // namespace capstan
