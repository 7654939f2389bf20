// Every optimizer on the GPU against its CPU twin, bit by bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/random.h"
#include "kernels/adagrad.h"
#include "kernels/adam.h"
#include "kernels/adamw.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cuda/device_array.h"
#include "kernels/momentum.h"
#include "kernels/nesterov.h"
#include "kernels/normal_vector.h"
#include "kernels/sgd.h"

namespace capstan {
namespace {

constexpr int kMaxArrays = 3;

// One optimizer: how many arrays it changes, and one application to them.
template <typename Stream>
using Apply = absl::Status (*)(int64_t n, const float* gradient, float* const* arrays,
                               Stream& stream);
struct Optimizer {
  std::string name;
  int arrays;
  Apply<CpuStream> on_cpu;
  Apply<CudaStream> on_gpu;
};

template <typename Stream>
absl::Status Sgd(int64_t n, const float* gradient, float* const* arrays, Stream& stream) {
  return ApplySgd({/*learning_rate=*/0.1f, /*weight_decay=*/0.01f}, n, gradient, arrays[0], stream);
}

template <typename Stream>
absl::Status Momentum(int64_t n, const float* gradient, float* const* arrays, Stream& stream) {
  return ApplyMomentum({/*learning_rate=*/0.1f, /*momentum=*/0.9f, /*weight_decay=*/0.01f}, n,
                       gradient, arrays[0], arrays[1], stream);
}

template <typename Stream>
absl::Status Nesterov(int64_t n, const float* gradient, float* const* arrays, Stream& stream) {
  return ApplyNesterov({/*learning_rate=*/0.1f, /*momentum=*/0.9f, /*weight_decay=*/0.01f}, n,
                       gradient, arrays[0], arrays[1], stream);
}

template <typename Stream>
absl::Status Adagrad(int64_t n, const float* gradient, float* const* arrays, Stream& stream) {
  return ApplyAdagrad({/*learning_rate=*/0.1f, /*epsilon=*/1e-7f, /*weight_decay=*/0.01f}, n,
                      gradient, arrays[0], arrays[1], stream);
}

template <typename Coefficients>
Coefficients MakeCoefficients() {
  Coefficients coefficients;
  coefficients.step = 0.01f;
  coefficients.root_scale = 1.7f;
  coefficients.keep_first = 0.9f;
  coefficients.add_first = 0.1f;
  coefficients.keep_second = 0.999f;
  coefficients.add_second = 0.001f;
  coefficients.epsilon = 1e-8f;
  return coefficients;
}

template <typename Stream>
absl::Status Adam(int64_t n, const float* gradient, float* const* arrays, Stream& stream) {
  auto coefficients = MakeCoefficients<AdamCoefficients>();
  coefficients.weight_decay = 0.01f;
  return ApplyAdam(coefficients, n, gradient, arrays[0], arrays[1], arrays[2], stream);
}

template <typename Stream>
absl::Status AdamW(int64_t n, const float* gradient, float* const* arrays, Stream& stream) {
  auto coefficients = MakeCoefficients<AdamWCoefficients>();
  coefficients.decay = 0.01f;
  return ApplyAdamW(coefficients, n, gradient, arrays[0], arrays[1], arrays[2], stream);
}

std::vector<Optimizer> AllOptimizers() {
  return {{"Sgd", 1, Sgd<CpuStream>, Sgd<CudaStream>},
          {"Momentum", 2, Momentum<CpuStream>, Momentum<CudaStream>},
          {"Nesterov", 2, Nesterov<CpuStream>, Nesterov<CudaStream>},
          {"Adagrad", 2, Adagrad<CpuStream>, Adagrad<CudaStream>},
          {"Adam", 3, Adam<CpuStream>, Adam<CudaStream>},
          {"AdamW", 3, AdamW<CpuStream>, AdamW<CudaStream>}};
}

class OptimizersTest : public testing::TestWithParam<Optimizer> {
 protected:
  // One application on both devices to arrays that start `shift` elements behind an aligned
  // address; the last array, which may be the only one, `last_shift`.
  void ExpectSameBits(int64_t n, size_t shift, size_t last_shift) {
    SCOPED_TRACE(testing::Message() << "n, shifts = " << n << ", " << shift << ", " << last_shift);
    const Optimizer& optimizer = GetParam();
    Random random(/*seed=*/71, /*stream=*/static_cast<uint64_t>(n));
    const std::vector<float> gradient = NormalVector(n, random);
    const DeviceArray<float> gradient_on_gpu(gradient, gpu_, shift);
    std::vector<std::vector<float>> arrays;
    std::vector<DeviceArray<float>> arrays_on_gpu;
    float* cpu[kMaxArrays] = {};
    float* gpu[kMaxArrays] = {};
    arrays.reserve(kMaxArrays);
    for (int i = 0; i < optimizer.arrays; ++i) {
      arrays.push_back(NormalVector(n, random));
      // Squares and their sums are not negative.
      for (float& number : arrays[i]) number = i > 0 ? std::abs(number) : number;
      const bool is_last = i + 1 == optimizer.arrays;
      arrays_on_gpu.emplace_back(arrays[i], gpu_, is_last ? last_shift : shift);
      cpu[i] = arrays[i].data();
      gpu[i] = arrays_on_gpu[i].data();
    }

    CpuStream stream;
    ASSERT_TRUE(optimizer.on_cpu(n, gradient.data(), cpu, stream).ok());
    ASSERT_TRUE(optimizer.on_gpu(n, gradient_on_gpu.data(), gpu, *gpu_.stream).ok());

    for (int i = 0; i < optimizer.arrays; ++i) {
      EXPECT_TRUE(HasSameBits(arrays_on_gpu[i].Download(), arrays[i])) << "array " << i;
    }
    EXPECT_TRUE(HasSameBits(gradient_on_gpu.Download(), gradient));
  }

  TestGpu gpu_;
};

TEST_P(OptimizersTest, SameBitsAsOnTheCpuAtAllSizes) {
  for (const int64_t n : {0, 1, 3, 4, 5, 255, 1023, 1024, 1025, 2047, 2048, 2049, 100003}) {
    ExpectSameBits(n, /*shift=*/0, /*last_shift=*/0);
  }
}

TEST_P(OptimizersTest, SameBitsWhereArraysAreNotAligned) {
  for (const int64_t n : {1, 4, 1025}) {
    ExpectSameBits(n, /*shift=*/1, /*last_shift=*/1);
    ExpectSameBits(n, /*shift=*/0, /*last_shift=*/2);
    ExpectSameBits(n, /*shift=*/3, /*last_shift=*/0);
  }
}

TEST_P(OptimizersTest, SameBitsBeyondOneGrid) {
  // A grid has 64 blocks a multiprocessor, each of 2 x 256 elements where they are not aligned.
  const int64_t n = int64_t{gpu_.device->multiprocessor_count()} * 64 * 512 + 1;
  ExpectSameBits(n, /*shift=*/1, /*last_shift=*/1);
}

INSTANTIATE_TEST_SUITE_P(All, OptimizersTest, testing::ValuesIn(AllOptimizers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace capstan
