// Every optimizer with every kind of vectors against its rule, element by element, bit by bit; and
// the rules against their formulas in float64.
#include "kernels/optimizers.h"

#include <gtest/gtest.h>

#include <algorithm>
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
  e[0] -= rule.learning_rate * (rule.sign * g + rule.weight_decay * e[0]);
}

void Formula(const MomentumRule& rule, double g, double* e) {
  e[1] = rule.momentum * e[1] + rule.add * (rule.sign * g + rule.weight_decay * e[0]);
  e[0] -= rule.learning_rate * e[1];
}

void Formula(const NesterovRule& rule, double g, double* e) {
  const double h = rule.sign * g + rule.weight_decay * e[0];
  e[1] = rule.momentum * e[1] + h;
  e[0] -= rule.learning_rate * (h + rule.momentum * e[1]);
}

void Formula(const AdagradRule& rule, double g, double* e) {
  const double h = rule.sign * g + rule.weight_decay * e[0];
  e[1] += h * h;
  e[0] -= rule.learning_rate * h / (std::sqrt(e[1]) + rule.epsilon);
}

template <typename Rule>
double MomentsUpdate(const Rule& rule, double h, double* e) {
  const Moments& moments = rule.moments;
  e[1] = moments.keep_first * e[1] + moments.add_first * h;
  e[2] = moments.keep_second * e[2] + moments.add_second * h * h;
  if (Rule::kStateCount == 3) e[3] = std::max(e[3], e[2]);
  const double under_root = e[Rule::kStateCount];
  return moments.step * e[1] / (std::sqrt(under_root) * moments.root_scale + moments.epsilon);
}

template <typename Rule>  // of Adam or AMSGrad
void Formula(const Rule& rule, double g, double* e) {
  e[0] -= MomentsUpdate(rule, rule.moments.sign * g + rule.weight_decay * e[0], e);
}
template <typename Rule>
void DecoupledFormula(const Rule& rule, double g, double* e) {
  const double decay = rule.decay * e[0];
  e[0] -= MomentsUpdate(rule, rule.moments.sign * g, e) + decay;
}
void Formula(const AdamWRule& rule, double g, double* e) { DecoupledFormula(rule, g, e); }
void Formula(const AmsgradWRule& rule, double g, double* e) { DecoupledFormula(rule, g, e); }

template <bool kIsCentered, bool kHasMomentum>
void Formula(const RmspropRule<kIsCentered, kHasMomentum>& rule, double g, double* e) {
  const double h = rule.sign * g + rule.weight_decay * e[0];
  e[1] = rule.keep * e[1] + rule.add * h * h;
  double variance = e[1];
  if (kIsCentered) {
    e[2] = rule.keep * e[2] + rule.add * h;
    variance = std::max(0.0, variance - e[2] * e[2]);
  }
  double change = h / (std::sqrt(variance) + rule.epsilon);
  if (kHasMomentum) {
    double& velocity = e[kIsCentered ? 3 : 2];
    velocity = rule.momentum * velocity + change;
    change = velocity;
  }
  e[0] -= rule.learning_rate * change;
}

void Formula(const LionRule& rule, double g, double* e) {
  const double mixed = rule.mix * e[1] + rule.mix_add * rule.sign * g;
  const double direction = mixed == 0 ? 0 : std::copysign(1, mixed);
  e[0] -= rule.learning_rate * direction + rule.decay * e[0];
  e[1] = rule.keep * e[1] + rule.add * rule.sign * g;
}

template <typename Rule>
void Call(const Rule& rule, float g, float* e) {
  if constexpr (Rule::kStateCount == 0) rule(g, e[0]);
  if constexpr (Rule::kStateCount == 1) rule(g, e[0], e[1]);
  if constexpr (Rule::kStateCount == 2) rule(g, e[0], e[1], e[2]);
  if constexpr (Rule::kStateCount == 3) rule(g, e[0], e[1], e[2], e[3]);
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
  std::vector<std::vector<float>> arrays = MakeArrays(kArrays, kCount, random);
  // A mean of squares is not below the square of the mean, which centered RMSprop subtracts.
  if (kArrays > 1) {
    for (float& number : arrays[1]) number += 16;
  }
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
