#include "kernels/gemm.h"

#include <cblas.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/tensor/bfloat16.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/normal_vector.h"

namespace capstan {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Element {
  double value = 0;
  double magnitude = 0;  // sum of the absolute terms, to which the rounding error is relative
};

// Element [row, column] of op(A) * op(B).
Element ProductElement(const GemmShape& shape, const std::vector<float>& a,
                       const std::vector<float>& b, int64_t row, int64_t column) {
  Element element;
  for (int64_t i = 0; i < shape.k; ++i) {
    const double left = shape.is_a_transposed ? a[i * shape.m + row] : a[row * shape.k + i];
    const double right = shape.is_b_transposed ? b[column * shape.k + i] : b[i * shape.n + column];
    element.value += left * right;
    element.magnitude += std::abs(left * right);
  }
  return element;
}

// Rounds `values` in place too, so that they are what the factors mean.
std::vector<Bfloat16> Rounded(std::vector<float>& values) {
  std::vector<Bfloat16> rounded;
  for (float& value : values) value = ToFloat32(rounded.emplace_back(ToBfloat16(value)));
  return rounded;
}

void ExpectProduct(const GemmShape& shape, float alpha, float beta) {
  SCOPED_TRACE(testing::Message() << "m, n, k = " << shape.m << ", " << shape.n << ", " << shape.k
                                  << "; transposed " << shape.is_a_transposed
                                  << shape.is_b_transposed << "; beta " << beta);
  Random random(/*seed=*/11);
  const std::vector<float> a = NormalVector(shape.m * shape.k, random);
  const std::vector<float> b = NormalVector(shape.k * shape.n, random);
  std::vector<float> c = NormalVector(shape.m * shape.n, random);
  const std::vector<float> before = c;
  if (beta == 0) c.assign(c.size(), kNan);

  CpuStream stream;
  ASSERT_TRUE(
      Gemm(shape, MatrixPrecision::kFloat32, alpha, a.data(), b.data(), beta, c.data(), stream)
          .ok());

  for (int64_t row = 0; row < shape.m; ++row) {
    for (int64_t column = 0; column < shape.n; ++column) {
      const int64_t i = row * shape.n + column;
      const Element product = ProductElement(shape, a, b, row, column);
      const double expected = alpha * product.value + beta * before[i];
      const double magnitude = std::abs(alpha) * product.magnitude + std::abs(beta * before[i]);
      // Higham, "Accuracy and Stability of Numerical Algorithms", section 3.5; unit roundoff 2^-24.
      const double bound = static_cast<double>(shape.k + 3) * 0x1p-24 * magnitude;
      ASSERT_NEAR(c[i], expected, bound) << "row " << row << ", column " << column;
    }
  }
}

TEST(GemmTest, OneBlasThreadIsLeft) {
  UseOneBlasThread();
  EXPECT_EQ(openblas_get_num_threads(), 1);
}

TEST(GemmTest, TooLittleAddressSpaceIsRefused) {
  ASSERT_TRUE(TakeBlasMemory().ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit little = {size_t{100} << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &little), 0);
  const absl::Status status = TakeBlasMemory();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("256 MiB of address space"), std::string::npos) << status;
}

TEST(GemmTest, TheNameOfTheLibraryHasItsVersionAndItsCode) {
  const std::string name = BlasName();
  EXPECT_EQ(name.find("OpenBLAS 0."), 0u) << name;
  EXPECT_NE(name.find(absl::StrCat(" ", openblas_get_corename())), name.npos) << name;
}

TEST(GemmTest, MatchesTheDefinitionAtOddSizesAndAllTranspositions) {
  UseOneBlasThread();
  const int64_t sizes[][3] = {{1, 1, 1},  {1, 7, 3},   {5, 1, 9},    {3, 4, 1},     {17, 13, 31},
                              {33, 2, 8}, {64, 65, 3}, {32, 10, 64}, {101, 67, 129}};
  for (const auto& size : sizes) {
    for (const int transposed : {0, 1, 2, 3}) {
      const GemmShape shape = {size[0], size[1], size[2], (transposed & 1) != 0,
                               (transposed & 2) != 0};
      ExpectProduct(shape, /*alpha=*/1.0f, /*beta=*/0.0f);
      ExpectProduct(shape, /*alpha=*/-0.5f, /*beta=*/2.0f);
    }
  }
}

TEST(GemmTest, EmptyInnerSizeScalesTheOutputOnly) {
  UseOneBlasThread();
  for (const bool transposed : {false, true}) {
    const GemmShape shape = {/*m=*/3, /*n=*/5, /*k=*/0, transposed, transposed};
    ExpectProduct(shape, /*alpha=*/1.0f, /*beta=*/0.0f);
    ExpectProduct(shape, /*alpha=*/1.0f, /*beta=*/3.0f);
  }
}

TEST(GemmTest, EmptyOutputTouchesNothing) {
  UseOneBlasThread();
  float untouched = 1.0f;
  CpuStream stream;
  for (const GemmShape& shape :
       {GemmShape{/*m=*/0, /*n=*/5, /*k=*/2}, GemmShape{/*m=*/5, /*n=*/0, /*k=*/2}}) {
    EXPECT_TRUE(Gemm(shape, MatrixPrecision::kFloat32, /*alpha=*/1.0f, nullptr, nullptr,
                     /*beta=*/0.0f, &untouched, stream)
                    .ok());
  }
  EXPECT_EQ(untouched, 1.0f);
}

TEST(GemmTest, SameInputGivesTheSameBits) {
  UseOneBlasThread();
  const GemmShape shape = {/*m=*/128, /*n=*/96, /*k=*/200};
  Random random(/*seed=*/12);
  const std::vector<float> a = NormalVector(shape.m * shape.k, random);
  const std::vector<float> b = NormalVector(shape.k * shape.n, random);
  std::vector<float> first(shape.m * shape.n, kNan), second(shape.m * shape.n, kNan);
  CpuStream stream;
  ASSERT_TRUE(Gemm(shape, MatrixPrecision::kFloat32, /*alpha=*/1.0f, a.data(), b.data(),
                   /*beta=*/0.0f, first.data(), stream)
                  .ok());
  ASSERT_TRUE(Gemm(shape, MatrixPrecision::kFloat32, /*alpha=*/1.0f, a.data(), b.data(),
                   /*beta=*/0.0f, second.data(), stream)
                  .ok());
  EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof(float)), 0);
}

TEST(GemmTest, Bfloat16FactorsGiveTheProductOfTheirValues) {
  UseOneBlasThread();
  Random random(/*seed=*/13);
  for (const int transposed : {0, 1, 2, 3}) {
    const GemmShape shape = {/*m=*/17, /*n=*/13, /*k=*/31, (transposed & 1) != 0,
                             (transposed & 2) != 0};
    std::vector<float> a = NormalVector(shape.m * shape.k, random);
    std::vector<float> b = NormalVector(shape.k * shape.n, random);
    std::vector<float> c(shape.m * shape.n, 1.0f);
    const std::vector<Bfloat16> rounded_a = Rounded(a), rounded_b = Rounded(b);
    CpuStream stream;
    ASSERT_TRUE(Gemm(shape, /*alpha=*/2.0f, rounded_a.data(), rounded_b.data(), /*beta=*/3.0f,
                     c.data(), stream)
                    .ok());
    for (int64_t i = 0; i < shape.m * shape.n; ++i) {
      const Element product = ProductElement(shape, a, b, i / shape.n, i % shape.n);
      ASSERT_NEAR(c[i], 2 * product.value + 3,
                  static_cast<double>(shape.k + 3) * 0x1p-24 * (2 * product.magnitude + 3));
    }
  }
}

TEST(GemmTest, SizesThatBlasCannotCountAreRefused) {
  CpuStream stream;
  float untouched = 1.0f;
  for (const GemmShape& shape : {GemmShape{/*m=*/1, /*n=*/int64_t{1} << 31, /*k=*/0},
                                 GemmShape{/*m=*/-1, /*n=*/1, /*k=*/1}}) {
    const absl::Status status = Gemm(shape, MatrixPrecision::kFloat32, /*alpha=*/1.0f, nullptr,
                                     nullptr, /*beta=*/0.0f, &untouched, stream);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(untouched, 1.0f);
}

}  // namespace
}  // namespace capstan
