#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/base/random.h"
#include "kernels/cuda/device_array.h"
#include "kernels/cuda/topk_codec.h"
#include "kernels/norm.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

// The formula of the header, each operation rounded to float32.
std::vector<float> Expected(float factor, float clip, const std::vector<float>& gradient,
                            std::vector<float> momentum) {
  for (size_t i = 0; i < momentum.size(); ++i) {
    const float kept = factor * momentum[i];
    const float added = clip * gradient[i];
    momentum[i] = kept + added;
  }
  return momentum;
}

TEST(TopkMomentumTest, AddsTheGradientToTheKeptPartOfTheMomentum) {
  TestGpu gpu;
  Random random(/*seed=*/17);
  for (const int64_t n : {1, 255, 4099, 100003}) {
    const std::vector<float> gradient = NormalVector(n, random);
    const std::vector<float> momentum = NormalVector(n, random);
    const DeviceArray<float> gradient_on_gpu(gradient, gpu, /*shift=*/1);
    const DeviceArray<float> momentum_on_gpu(momentum, gpu, /*shift=*/3);
    ASSERT_TRUE(AddMomentum(n, 0.9f, /*norm=*/nullptr, /*most=*/0, gradient_on_gpu.data(),
                            momentum_on_gpu.data(), *gpu.stream)
                    .ok());
    EXPECT_EQ(momentum_on_gpu.Download(), Expected(0.9f, 1, gradient, momentum)) << n;
    EXPECT_EQ(gradient_on_gpu.Download(), gradient);
  }
}

TEST(TopkMomentumTest, AGradientThatIsTooLongIsMadeShorter) {
  TestGpu gpu;
  const std::vector<float> gradient = {3, -4, 0}, momentum = {1, 1, 1};
  NormResult norm;
  norm.sum_of_squares = 25;
  const DeviceArray<NormResult> norm_on_gpu({norm}, gpu);
  for (const double most : {2.5, 5.0, 6.0}) {
    const DeviceArray<float> gradient_on_gpu(gradient, gpu), momentum_on_gpu(momentum, gpu);
    ASSERT_TRUE(AddMomentum(3, 0.5f, norm_on_gpu.data(), most, gradient_on_gpu.data(),
                            momentum_on_gpu.data(), *gpu.stream)
                    .ok());
    const float clip = most < 5 ? 0.5f : 1.0f;
    EXPECT_EQ(momentum_on_gpu.Download(), Expected(0.5f, clip, gradient, momentum)) << most;
  }
}

TEST(TopkMomentumTest, SentElementsBecomeZero) {
  TestGpu gpu;
  constexpr size_t kSize = 1000;
  const DeviceArray<float> elements(std::vector<float>(kSize, 1), gpu);
  std::vector<uint32_t> indices;
  for (uint32_t i = 3; i < kSize; i += 7) indices.push_back(i);
  const DeviceArray<uint32_t> bytes(indices, gpu);
  ASSERT_TRUE(ZeroSent(static_cast<int64_t>(indices.size()),
                       reinterpret_cast<const uint8_t*>(bytes.data()), elements.data(), *gpu.stream)
                  .ok());
  const std::vector<float> result = elements.Download();
  for (size_t i = 0; i < kSize; ++i) EXPECT_EQ(result[i], i % 7 == 3 ? 0 : 1) << i;
}

}  // namespace
}  // namespace capstan
