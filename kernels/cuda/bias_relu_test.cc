#include "kernels/bias_relu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cuda/device_array.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Activation kActivations[] = {Activation::kNone, Activation::kRelu};
// Around packs of 4, warps of packs, tiles of 128 columns, blocks of 256 threads and the rows of a
// part; the last two have more than one part, and one part after another's rows.
constexpr int64_t kSizes[][2] = {{0, 0},    {0, 5},    {3, 0},    {1, 1},    {1, 4},     {7, 3},
                                 {33, 10},  {32, 128}, {31, 127}, {33, 132}, {128, 129}, {129, 16},
                                 {257, 64}, {1000, 1}, {3, 4099}, {300, 36}, {4099, 12}};

// Relu's output where both signs and exact zeros occur.
std::vector<float> Outputs(int64_t size, Random& random) {
  std::vector<float> outputs = NormalVector(size, random);
  for (float& output : outputs) output = std::fmax(output, 0.0f);
  return outputs;
}

void ExpectForward(int64_t rows, int64_t columns, Activation activation, size_t shift,
                   TestGpu& gpu) {
  SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", shift " << shift);
  Random random(/*seed=*/81);
  const std::vector<float> bias = NormalVector(columns, random);
  std::vector<float> values = NormalVector(rows * columns, random);
  if (!values.empty()) values.back() = kNan;
  const DeviceArray<float> gpu_bias(bias, gpu, shift);
  const DeviceArray<float> gpu_values(values, gpu, shift);

  CpuStream stream;
  ASSERT_TRUE(AddBias(rows, columns, activation, bias.data(), values.data(), stream).ok());
  ASSERT_TRUE(
      AddBias(rows, columns, activation, gpu_bias.data(), gpu_values.data(), *gpu.stream).ok());

  const std::vector<float> result = gpu_values.Download();
  for (size_t i = 0; i + 1 < values.size(); ++i) ASSERT_EQ(result[i], values[i]) << "element " << i;
  EXPECT_TRUE(values.empty() || std::isnan(result.back()));
}

struct BackwardResult {
  std::vector<float> gradient;
  std::vector<float> bias_gradient;
};

BackwardResult BackwardOnGpu(int64_t rows, int64_t columns, Activation activation,
                             const std::vector<float>& outputs, const std::vector<float>& gradient,
                             size_t shift, TestGpu& gpu) {
  const DeviceArray<float> gpu_outputs(outputs, gpu, shift);
  const DeviceArray<float> gpu_gradient(gradient, gpu, shift);
  const DeviceArray<float> bias_gradient(std::vector<float>(columns, kNan), gpu, shift);
  // NaN in each float.
  const DeviceArray<char> scratch(
      std::vector<char>(AddBiasBackwardScratchBytes(rows, columns, *gpu.stream), -1), gpu);
  EXPECT_TRUE(AddBiasBackward(rows, columns, activation, gpu_outputs.data(), gpu_gradient.data(),
                              bias_gradient.data(), scratch.data(), *gpu.stream)
                  .ok());
  scratch.Download();
  return {gpu_gradient.Download(), bias_gradient.Download()};
}

void ExpectBackward(int64_t rows, int64_t columns, Activation activation, TestGpu& gpu) {
  SCOPED_TRACE(testing::Message() << rows << " x " << columns);
  Random random(/*seed=*/82);
  const std::vector<float> outputs = Outputs(rows * columns, random);
  const std::vector<float> before = NormalVector(rows * columns, random);
  std::vector<float> gradient = before;
  std::vector<float> bias_gradient(columns, kNan);
  CpuStream stream;
  ASSERT_TRUE(AddBiasBackward(rows, columns, activation, outputs.data(), gradient.data(),
                              bias_gradient.data(), /*scratch=*/nullptr, stream)
                  .ok());

  const BackwardResult result =
      BackwardOnGpu(rows, columns, activation, outputs, before, /*shift=*/0, gpu);

  EXPECT_TRUE(HasSameBits(result.gradient, gradient));
  std::vector<double> magnitudes(columns);
  for (int64_t i = 0; i < rows * columns; ++i) magnitudes[i % columns] += std::abs(gradient[i]);
  for (int64_t i = 0; i < columns; ++i) {
    // Higham, section 4.2: either order is within (rows - 1) unit roundoffs of the exact sum.
    const double bound = 2 * static_cast<double>(rows) * 0x1p-24 * magnitudes[i];
    ASSERT_NEAR(result.bias_gradient[i], bias_gradient[i], bound) << "column " << i;
  }
  for (const size_t shift : {0, 1}) {
    const BackwardResult again =
        BackwardOnGpu(rows, columns, activation, outputs, before, shift, gpu);
    EXPECT_TRUE(HasSameBits(again.gradient, gradient)) << "shift " << shift;
    EXPECT_TRUE(HasSameBits(again.bias_gradient, result.bias_gradient)) << "shift " << shift;
  }
}

TEST(CudaAddBiasTest, SameAsOnTheCpu) {
  TestGpu gpu;
  for (const auto& size : kSizes) {
    for (const Activation activation : kActivations) {
      for (const size_t shift : {0, 1}) ExpectForward(size[0], size[1], activation, shift, gpu);
    }
  }
}

TEST(CudaAddBiasTest, SameAsOnTheCpuBeyondOneGrid) {
  TestGpu gpu;
  // 64 blocks a multiprocessor, of 4 x 256 rows of one column.
  const int64_t rows = int64_t{gpu.device->multiprocessor_count()} * 64 * 1024 + 3;
  ExpectForward(rows, /*columns=*/1, Activation::kRelu, /*shift=*/0, gpu);
}

TEST(CudaAddBiasBackwardTest, AgreesWithTheCpuAndHasTheSameBitsEachTime) {
  TestGpu gpu;
  for (const auto& size : kSizes) {
    for (const Activation activation : kActivations) {
      ExpectBackward(size[0], size[1], activation, gpu);
    }
  }
}

TEST(CudaAddBiasBackwardTest, FewerRowsNeedNoMoreScratch) {
  TestGpu gpu;
  for (const int64_t columns : {1, 10, 64, 4000, 1000000}) {
    size_t last = 0;
    for (int64_t rows = 0; rows < 100000; rows = rows * 3 / 2 + 1) {
      const size_t bytes = AddBiasBackwardScratchBytes(rows, columns, *gpu.stream);
      EXPECT_GE(bytes, last) << rows << " x " << columns;
      last = bytes;
    }
  }
}

}  // namespace
}  // namespace capstan
