// Every optimizer with every kind of vectors against its rule, element by element, bit by bit; and
// the rules against their formulas in float64.
#include "kernels/optimizers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "common/base/random.h"
#include "common/tensor/vector_targets.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/normal_vector.h"
#include "kernels/test_rules.h"

namespace capstan {
namespace {

// The formulas; `e` is an element of the values and of each array of state.

void Formula(const SgdRule& rule, double g, double* e) {
  e[0] -= rule.learning_rate * (g + rule.weight_decay * e[0]);
}

void Formula(const MomentumRule& rule, double g, double* e) {
  e[1] = rule.momentum * e[1] + g + rule.weight_decay * e[0];
  e[0] -= rule.learning_rate * e[1];
}

void Formula(const NesterovRule& rule, double g, double* e) {
  const double h = g + rule.weight_decay * e[0];
  e[1] = rule.momentum * e[1] + h;
  e[0] -= rule.learning_rate * (h + rule.momentum * e[1]);
}

void Formula(const AdagradRule& rule, double g, double* e) {
  const double h = g + rule.weight_decay * e[0];
  e[1] += h * h;
  e[0] -= rule.learning_rate * h / (std::sqrt(e[1]) + rule.epsilon);
}

template <typename Rule>
double MomentsUpdate(const Rule& rule, double h, double* e) {
  e[1] = rule.keep_first * e[1] + rule.add_first * h;
  e[2] = rule.keep_second * e[2] + rule.add_second * h * h;
  return rule.step * e[1] / (std::sqrt(e[2]) * rule.root_scale + rule.epsilon);
}

void Formula(const AdamRule& rule, double g, double* e) {
  e[0] -= MomentsUpdate(rule, g + rule.weight_decay * e[0], e);
}

void Formula(const AdamWRule& rule, double g, double* e) {
  e[0] -= MomentsUpdate(rule, g, e) + rule.decay * e[0];
}

void Call(const SgdRule& rule, float g, float* e) { rule(g, e[0]); }
template <typename Rule>
void Call(const Rule& rule, float g, float* e) {
  if constexpr (Rule::kStateCount == 1) rule(g, e[0], e[1]);
  if constexpr (Rule::kStateCount == 2) rule(g, e[0], e[1], e[2]);
}

// Which NaN an operation gives depends on the order of its operands, which compilers choose.
bool HasSameBits(float a, float b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0 || (std::isnan(a) && std::isnan(b));
}

// Arrays that start `shift` elements into their memory, with something behind them.
std::vector<float> Shifted(const std::vector<float>& array, size_t shift) {
  std::vector<float> memory(shift, -1.0f);
  memory.insert(memory.end(), array.begin(), array.end());
  memory.push_back(-1.0f);
  return memory;
}

// Normal numbers, as values and state. Squares and their sums are not negative.
std::vector<std::vector<float>> MakeArrays(int count, int64_t n, Random& random) {
  std::vector<std::vector<float>> arrays;
  for (int j = 0; j < count; ++j) {
    arrays.push_back(NormalVector(n, random));
    for (float& number : arrays[j]) number = j > 0 ? std::abs(number) : number;
  }
  return arrays;
}

template <typename Rule>
class OptimizersTest : public testing::Test {
 protected:
  static constexpr int kArrays = 1 + Rule::kStateCount;

  // One application to a gradient and arrays.
  static void ExpectRule(const std::vector<float>& gradient,
                         const std::vector<std::vector<float>>& arrays, size_t shift) {
    SCOPED_TRACE(testing::Message() << gradient.size() << " elements, shift " << shift);
    const auto n = static_cast<int64_t>(gradient.size());
    const std::vector<float> shifted_gradient = Shifted(gradient, shift);
    std::vector<std::vector<float>> shifted;
    float* pointers[kArrays];
    for (const std::vector<float>& array : arrays) shifted.push_back(Shifted(array, shift));
    for (int j = 0; j < kArrays; ++j) pointers[j] = shifted[j].data() + shift;

    CpuStream stream;
    const Rule rule = TestRule<Rule>();
    ASSERT_TRUE(ApplyRule(rule, n, shifted_gradient.data() + shift, pointers, stream).ok());

    for (int64_t i = 0; i < n; ++i) {
      float element[kArrays] = {};
      for (int j = 0; j < kArrays; ++j) element[j] = arrays[j][i];
      Call(rule, gradient[i], element);
      for (int j = 0; j < kArrays; ++j) {
        EXPECT_TRUE(HasSameBits(pointers[j][i], element[j]))
            << "element " << i << " of array " << j << ": " << pointers[j][i] << ", expected "
            << element[j];
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_TRUE(HasSameBits(shifted_gradient[shift + i], gradient[i])) << "element " << i;
    }
    for (int j = 0; j < kArrays; ++j) {
      for (size_t i = 0; i < shift; ++i) EXPECT_EQ(shifted[j][i], -1.0f);
      EXPECT_EQ(shifted[j].back(), -1.0f);
    }
  }
};

TYPED_TEST_SUITE(OptimizersTest, AllRules, RuleNames);

TYPED_TEST(OptimizersTest, HasTheBitsOfItsRuleAtAllSizesAndAlignments) {
  ForEachVectorTarget([] {
    for (const int64_t n : {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 1001}) {
      for (const size_t shift : {0, 1, 2, 3}) {
        Random random(/*seed=*/83, /*stream=*/static_cast<uint64_t>(n));
        const std::vector<float> gradient = NormalVector(n, random);
        TestFixture::ExpectRule(gradient, MakeArrays(TestFixture::kArrays, n, random), shift);
      }
    }
  });
}

TYPED_TEST(OptimizersTest, HasTheBitsOfItsRuleForSpecialValues) {
  using Limits = std::numeric_limits<float>;
  const float special[] = {0.0f,
                           -0.0f,
                           1.0f,
                           -1.0f,
                           Limits::denorm_min(),
                           -1e-41f,
                           Limits::min(),
                           Limits::max(),
                           -Limits::max(),
                           Limits::infinity(),
                           -Limits::infinity(),
                           Limits::quiet_NaN()};
  // Each with each as gradient, value and state.
  std::vector<float> gradient;
  std::vector<std::vector<float>> arrays(TestFixture::kArrays);
  for (const float g : special) {
    for (const float value : special) {
      for (const float state : special) {
        gradient.push_back(g);
        for (size_t j = 0; j < arrays.size(); ++j) arrays[j].push_back(j == 0 ? value : state);
      }
    }
  }
  ForEachVectorTarget([&] { TestFixture::ExpectRule(gradient, arrays, /*shift=*/0); });
}

TYPED_TEST(OptimizersTest, TheRuleFollowsItsFormulaInFloat64) {
  constexpr int kArrays = TestFixture::kArrays;
  constexpr int64_t kCount = 1001;
  const TypeParam rule = TestRule<TypeParam>();
  Random random(/*seed=*/51);
  const std::vector<float> gradient = NormalVector(kCount, random);
  const std::vector<std::vector<float>> arrays = MakeArrays(kArrays, kCount, random);
  for (int64_t i = 0; i < kCount; ++i) {
    float element[kArrays] = {};
    double expected[kArrays] = {};
    for (int j = 0; j < kArrays; ++j) expected[j] = element[j] = arrays[j][i];
    Call(rule, gradient[i], element);
    Formula(rule, gradient[i], expected);
    for (int j = 0; j < kArrays; ++j) {
      ASSERT_NEAR(element[j], expected[j], 3e-6 * (1 + std::abs(expected[j])))
          << "element " << i << " of array " << j;
    }
  }
}

}  // namespace
}  // namespace capstan
