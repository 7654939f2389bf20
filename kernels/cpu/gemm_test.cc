#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/blas_threads.h"

namespace capstan {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> NormalVector(int64_t size, Random& random) {
  std::vector<float> numbers(size);
  for (float& number : numbers) number = random.Normal();
  return numbers;
}

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

  Gemm(shape, alpha, a.data(), b.data(), beta, c.data());

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
  Gemm({/*m=*/0, /*n=*/5, /*k=*/2}, /*alpha=*/1.0f, nullptr, nullptr, /*beta=*/0.0f, &untouched);
  Gemm({/*m=*/5, /*n=*/0, /*k=*/2}, /*alpha=*/1.0f, nullptr, nullptr, /*beta=*/0.0f, &untouched);
  EXPECT_EQ(untouched, 1.0f);
}

TEST(GemmTest, SameInputGivesTheSameBits) {
  UseOneBlasThread();
  const GemmShape shape = {/*m=*/128, /*n=*/96, /*k=*/200};
  Random random(/*seed=*/12);
  const std::vector<float> a = NormalVector(shape.m * shape.k, random);
  const std::vector<float> b = NormalVector(shape.k * shape.n, random);
  std::vector<float> first(shape.m * shape.n, kNan), second(shape.m * shape.n, kNan);
  Gemm(shape, /*alpha=*/1.0f, a.data(), b.data(), /*beta=*/0.0f, first.data());
  Gemm(shape, /*alpha=*/1.0f, a.data(), b.data(), /*beta=*/0.0f, second.data());
  EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace capstan
