#include "kernels/norm.h"

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
constexpr float kInfinity = std::numeric_limits<float>::infinity();

NormResult NormOnGpu(const std::vector<float>& values, size_t shift, TestGpu& gpu) {
  const int64_t n = static_cast<int64_t>(values.size());
  const DeviceArray<float> on_gpu(values, gpu, shift);
  const DeviceArray<NormResult> result({{/*sum_of_squares=*/kNan, /*non_finite=*/-1}}, gpu);
  const DeviceArray<char> scratch(std::vector<char>(SumOfSquaresScratchBytes(n, *gpu.stream), -1),
                                  gpu);
  EXPECT_TRUE(SumOfSquares(n, on_gpu.data(), result.data(), scratch.data(), *gpu.stream).ok());
  scratch.Download();
  return result.Download()[0];
}

void ExpectTwin(const std::vector<float>& values, TestGpu& gpu) {
  SCOPED_TRACE(testing::Message() << "n = " << values.size());
  CpuStream stream;
  NormResult expected;
  ASSERT_TRUE(SumOfSquares(static_cast<int64_t>(values.size()), values.data(), &expected,
                           /*scratch=*/nullptr, stream)
                  .ok());
  const NormResult first = NormOnGpu(values, /*shift=*/0, gpu);
  // Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2, for the CPU's order, the
  // worst there is: (n - 1) unit roundoffs of float64, all terms being positive.
  const double bound = static_cast<double>(values.size()) * 0x1p-52 * expected.sum_of_squares;
  EXPECT_NEAR(first.sum_of_squares, expected.sum_of_squares, bound);
  EXPECT_EQ(first.non_finite, expected.non_finite);
  for (const size_t shift : {0, 1, 3}) {
    EXPECT_EQ(NormOnGpu(values, shift, gpu).sum_of_squares, first.sum_of_squares)
        << "shift " << shift;
  }
}

TEST(CudaSumOfSquaresTest, AgreesWithTheCpuAndHasTheSameBitsEachTime) {
  TestGpu gpu;
  Random random(/*seed=*/75);
  for (const int64_t n : {0, 1, 3, 4, 5, 1023, 1024, 1025, 8191, 8192, 8193, 100003}) {
    ExpectTwin(NormalVector(n, random), gpu);
  }
}

TEST(CudaSumOfSquaresTest, NonFiniteValuesAreCountedAndNotAdded) {
  TestGpu gpu;
  Random random(/*seed=*/76);
  std::vector<float> values = NormalVector(9001, random);
  for (const int64_t i : {0, 77, 4096, 9000}) values[i] = kNan;
  for (const int64_t i : {1, 5000}) values[i] = kInfinity;
  values[8999] = -kInfinity;
  values[3] = std::numeric_limits<float>::max();
  ExpectTwin(values, gpu);
}

TEST(CudaSumOfSquaresTest, AgreesBeyondOneGrid) {
  TestGpu gpu;
  // 4,096 blocks of 256 threads, each of which adds 4 packs of 4 at a time.
  const int64_t n = int64_t{4096} * 256 * 16 + 5;
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(i % 17) - 8;
  // Sums of small whole numbers are exact.
  double expected = 0;
  for (const float value : values) expected += double{value} * value;
  const NormResult result = NormOnGpu(values, /*shift=*/0, gpu);
  EXPECT_EQ(result.sum_of_squares, expected);
  EXPECT_EQ(result.non_finite, 0);
}

}  // namespace
}  // namespace capstan
