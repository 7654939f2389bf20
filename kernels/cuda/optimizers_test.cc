// Every optimizer on the GPU against its CPU twin, bit by bit.
#include "kernels/optimizers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cuda/device_array.h"
#include "kernels/normal_vector.h"
#include "kernels/test_rules.h"

namespace capstan {
namespace {

template <typename Rule>
class CudaOptimizersTest : public testing::Test {
 protected:
  static constexpr int kArrays = 1 + Rule::kStateCount;

  // One application on both devices to arrays that start `shift` elements behind an aligned
  // address; the last array, which may be the only one, `last_shift`.
  void ExpectSameBits(int64_t n, size_t shift, size_t last_shift) {
    SCOPED_TRACE(testing::Message() << "n, shifts = " << n << ", " << shift << ", " << last_shift);
    Random random(/*seed=*/71, /*stream=*/static_cast<uint64_t>(n));
    const std::vector<float> gradient = NormalVector(n, random);
    const DeviceArray<float> gradient_on_gpu(gradient, gpu_, shift);
    std::vector<std::vector<float>> arrays;
    std::vector<DeviceArray<float>> arrays_on_gpu;
    float* cpu[kArrays] = {};
    float* gpu[kArrays] = {};
    arrays.reserve(kArrays);
    for (int i = 0; i < kArrays; ++i) {
      arrays.push_back(NormalVector(n, random));
      // Squares and their sums are not negative.
      for (float& number : arrays[i]) number = i > 0 ? std::abs(number) : number;
      const bool is_last = i + 1 == kArrays;
      arrays_on_gpu.emplace_back(arrays[i], gpu_, is_last ? last_shift : shift);
      cpu[i] = arrays[i].data();
      gpu[i] = arrays_on_gpu[i].data();
    }

    CpuStream stream;
    const Rule rule = TestRule<Rule>();
    ASSERT_TRUE(ApplyRule(rule, n, gradient.data(), cpu, stream).ok());
    ASSERT_TRUE(ApplyRule(rule, n, gradient_on_gpu.data(), gpu, *gpu_.stream).ok());

    for (int i = 0; i < kArrays; ++i) {
      EXPECT_TRUE(HasSameBits(arrays_on_gpu[i].Download(), arrays[i])) << "array " << i;
    }
    EXPECT_TRUE(HasSameBits(gradient_on_gpu.Download(), gradient));
  }

  TestGpu gpu_;
};

TYPED_TEST_SUITE(CudaOptimizersTest, AllRules, RuleNames);

TYPED_TEST(CudaOptimizersTest, SameBitsAsOnTheCpuAtAllSizes) {
  for (const int64_t n : {0, 1, 3, 4, 5, 255, 1023, 1024, 1025, 2047, 2048, 2049, 100003}) {
    this->ExpectSameBits(n, /*shift=*/0, /*last_shift=*/0);
  }
}

TYPED_TEST(CudaOptimizersTest, SameBitsWhereArraysAreNotAligned) {
  for (const int64_t n : {1, 4, 1025}) {
    this->ExpectSameBits(n, /*shift=*/1, /*last_shift=*/1);
    this->ExpectSameBits(n, /*shift=*/0, /*last_shift=*/2);
    this->ExpectSameBits(n, /*shift=*/3, /*last_shift=*/0);
  }
}

TYPED_TEST(CudaOptimizersTest, SameBitsBeyondOneGrid) {
  // A grid has 64 blocks a multiprocessor, each of 2 x 256 elements where they are not aligned.
  const int64_t n = int64_t{this->gpu_.device->multiprocessor_count()} * 64 * 512 + 1;
  this->ExpectSameBits(n, /*shift=*/1, /*last_shift=*/1);
}

}  // namespace
}  // namespace capstan
