#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "common/base/random.h"
#include "common/tensor/bfloat16.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cuda/device_array.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Problem {
  GemmShape shape;
  float alpha;
  float beta;
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> c;
};

Problem MakeProblem(const GemmShape& shape, float beta) {
  Random random(/*seed=*/91);
  Problem problem = {shape,
                     /*alpha=*/-0.5f,
                     beta,
                     NormalVector(shape.m * shape.k, random),
                     NormalVector(shape.k * shape.n, random),
                     NormalVector(shape.m * shape.n, random)};
  if (beta == 0) problem.c.assign(problem.c.size(), kNan);
  return problem;
}

std::vector<float> Absolute(std::vector<float> values) {
  for (float& value : values) value = std::abs(value);
  return values;
}

std::vector<float> ProductOnCpu(const Problem& problem) {
  CpuStream stream;
  std::vector<float> c = problem.c;
  EXPECT_TRUE(Gemm(problem.shape, MatrixPrecision::kFloat32, problem.alpha, problem.a.data(),
                   problem.b.data(), problem.beta, c.data(), stream)
                  .ok());
  return c;
}

// |alpha| op(|A|) op(|B|) + |beta C|, to which the rounding errors are relative.
std::vector<float> Magnitudes(const Problem& problem) {
  return ProductOnCpu({problem.shape, std::abs(problem.alpha), std::abs(problem.beta),
                       Absolute(problem.a), Absolute(problem.b), Absolute(problem.c)});
}

std::vector<float> ProductOnGpu(const Problem& problem, MatrixPrecision precision, TestGpu& gpu) {
  const DeviceArray<float> a(problem.a, gpu), b(problem.b, gpu), c(problem.c, gpu, /*shift=*/1);
  EXPECT_TRUE(Gemm(problem.shape, precision, problem.alpha, a.data(), b.data(), problem.beta,
                   c.data(), *gpu.stream)
                  .ok());
  return c.Download();
}

// `relative_error`: of a product of two factors, by their rounding.
void ExpectProduct(const Problem& problem, const std::vector<float>& result,
                   double relative_error) {
  const GemmShape& shape = problem.shape;
  SCOPED_TRACE(testing::Message() << "m, n, k = " << shape.m << ", " << shape.n << ", " << shape.k
                                  << "; transposed " << shape.is_a_transposed
                                  << shape.is_b_transposed << "; beta " << problem.beta);
  const std::vector<float> expected = ProductOnCpu(problem);
  const std::vector<float> magnitudes = Magnitudes(problem);
  // Higham, section 3.5, on either side.
  const double bound = 2 * static_cast<double>(shape.k + 4) * 0x1p-24 + relative_error;
  ASSERT_EQ(result.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(result[i], expected[i], bound * magnitudes[i]) << "element " << i;
  }
}

std::vector<GemmShape> Shapes() {
  const int64_t sizes[][3] = {{1, 1, 1},  {1, 7, 3},    {5, 1, 9}, {3, 4, 1}, {3, 5, 0},
                              {33, 2, 8}, {64, 65, 33}, {0, 5, 2}, {5, 0, 2}};
  std::vector<GemmShape> shapes;
  for (const auto& size : sizes) {
    for (const int transposed : {0, 1, 2, 3}) {
      shapes.push_back({size[0], size[1], size[2], (transposed & 1) != 0, (transposed & 2) != 0});
    }
  }
  return shapes;
}

class CudaGemmTest : public testing::Test {
 protected:
  CudaGemmTest() { UseOneBlasThread(); }
  TestGpu gpu_;
};

TEST_F(CudaGemmTest, Float32AgreesWithTheCpu) {
  for (const GemmShape& shape : Shapes()) {
    for (const float beta : {0.0f, 2.0f}) {
      const Problem problem = MakeProblem(shape, beta);
      ExpectProduct(problem, ProductOnGpu(problem, MatrixPrecision::kFloat32, gpu_),
                    /*relative_error=*/0);
    }
  }
}

TEST_F(CudaGemmTest, Tf32RoundsFactorsToElevenBitsAtMost) {
  for (const GemmShape& shape : Shapes()) {
    const Problem problem = MakeProblem(shape, /*beta=*/2.0f);
    ExpectProduct(problem, ProductOnGpu(problem, MatrixPrecision::kTf32, gpu_),
                  /*relative_error=*/2 * 0x1p-10);
  }
}

std::vector<Bfloat16> Rounded(std::vector<float>& values) {
  std::vector<Bfloat16> rounded;
  for (float& value : values) value = ToFloat32(rounded.emplace_back(ToBfloat16(value)));
  return rounded;
}

TEST_F(CudaGemmTest, Bfloat16FactorsGiveTheProductOfTheirValues) {
  for (const GemmShape& shape : Shapes()) {
    for (const float beta : {0.0f, 2.0f}) {
      Problem problem = MakeProblem(shape, beta);
      const DeviceArray<Bfloat16> a(Rounded(problem.a), gpu_), b(Rounded(problem.b), gpu_);
      const DeviceArray<float> c(problem.c, gpu_);
      ASSERT_TRUE(
          Gemm(shape, problem.alpha, a.data(), b.data(), beta, c.data(), *gpu_.stream).ok());
      ExpectProduct(problem, c.Download(), /*relative_error=*/0);
    }
  }
}

TEST_F(CudaGemmTest, SameInputGivesTheSameBits) {
  const Problem problem = MakeProblem({/*m=*/65, /*n=*/31, /*k=*/129}, /*beta=*/0.0f);
  EXPECT_TRUE(HasSameBits(ProductOnGpu(problem, MatrixPrecision::kFloat32, gpu_),
                          ProductOnGpu(problem, MatrixPrecision::kFloat32, gpu_)));
}

TEST_F(CudaGemmTest, SizesThatBlasCannotCountAreRefused) {
  const GemmShape shape = {/*m=*/1, /*n=*/int64_t{1} << 31, /*k=*/1};
  const absl::Status status =
      Gemm(shape, MatrixPrecision::kFloat32, /*alpha=*/1.0f, /*a=*/nullptr, /*b=*/nullptr,
           /*beta=*/0.0f, /*c=*/nullptr, *gpu_.stream);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace capstan
