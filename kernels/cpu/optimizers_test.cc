// Every optimizer with every kind of vectors against its rule, element by element, bit by bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/random.h"
#include "kernels/adagrad_rule.h"
#include "kernels/adam_rule.h"
#include "kernels/adamw_rule.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cpu/vector_targets.h"
#include "kernels/momentum_rule.h"
#include "kernels/nesterov_rule.h"
#include "kernels/normal_vector.h"
#include "kernels/sgd_rule.h"

namespace capstan {
namespace {

constexpr int kMaxArrays = 3;

// One optimizer: how many arrays it changes, one application to them, and to one element.
struct Optimizer {
  std::string name;
  int arrays;
  absl::Status (*apply)(int64_t n, const float* gradient, float* const* arrays, CpuStream& stream);
  void (*rule)(float gradient, float* element);
};

constexpr SgdCoefficients kSgd = {/*learning_rate=*/0.1f, /*weight_decay=*/0.01f};
constexpr MomentumCoefficients kMomentum = {/*learning_rate=*/0.1f, /*momentum=*/0.9f,
                                            /*weight_decay=*/0.01f};
constexpr NesterovCoefficients kNesterov = {/*learning_rate=*/0.1f, /*momentum=*/0.9f,
                                            /*weight_decay=*/0.01f};
constexpr AdagradCoefficients kAdagrad = {/*learning_rate=*/0.1f, /*epsilon=*/1e-7f,
                                          /*weight_decay=*/0.01f};

template <typename Coefficients>
constexpr Coefficients MomentsOf(float decay) {
  return {/*step=*/0.01f,         /*root_scale=*/1.7f,
          /*keep_first=*/0.9f,    /*add_first=*/0.1f,
          /*keep_second=*/0.999f, /*add_second=*/0.001f,
          /*epsilon=*/1e-8f,      decay};
}
constexpr auto kAdam = MomentsOf<AdamCoefficients>(0.01f);
constexpr auto kAdamW = MomentsOf<AdamWCoefficients>(0.01f);

std::vector<Optimizer> AllOptimizers() {
  return {
      {"Sgd", 1,
       [](int64_t n, const float* g, float* const* a, CpuStream& stream) {
         return ApplySgd(kSgd, n, g, a[0], stream);
       },
       [](float g, float* e) { SgdRule(kSgd, g, e[0]); }},
      {"Momentum", 2,
       [](int64_t n, const float* g, float* const* a, CpuStream& stream) {
         return ApplyMomentum(kMomentum, n, g, a[0], a[1], stream);
       },
       [](float g, float* e) { MomentumRule(kMomentum, g, e[0], e[1]); }},
      {"Nesterov", 2,
       [](int64_t n, const float* g, float* const* a, CpuStream& stream) {
         return ApplyNesterov(kNesterov, n, g, a[0], a[1], stream);
       },
       [](float g, float* e) { NesterovRule(kNesterov, g, e[0], e[1]); }},
      {"Adagrad", 2,
       [](int64_t n, const float* g, float* const* a, CpuStream& stream) {
         return ApplyAdagrad(kAdagrad, n, g, a[0], a[1], stream);
       },
       [](float g, float* e) { AdagradRule(kAdagrad, g, e[0], e[1]); }},
      {"Adam", 3,
       [](int64_t n, const float* g, float* const* a, CpuStream& stream) {
         return ApplyAdam(kAdam, n, g, a[0], a[1], a[2], stream);
       },
       [](float g, float* e) { AdamRule(kAdam, g, e[0], e[1], e[2]); }},
      {"AdamW", 3,
       [](int64_t n, const float* g, float* const* a, CpuStream& stream) {
         return ApplyAdamW(kAdamW, n, g, a[0], a[1], a[2], stream);
       },
       [](float g, float* e) { AdamWRule(kAdamW, g, e[0], e[1], e[2]); }},
  };
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

class OptimizersTest : public testing::TestWithParam<Optimizer> {
 protected:
  // One application to a gradient and arrays[0 ... arrays-1].
  void ExpectRule(const std::vector<float>& gradient, const std::vector<std::vector<float>>& arrays,
                  size_t shift) {
    SCOPED_TRACE(testing::Message() << gradient.size() << " elements, shift " << shift);
    const auto n = static_cast<int64_t>(gradient.size());
    const std::vector<float> shifted_gradient = Shifted(gradient, shift);
    std::vector<std::vector<float>> shifted;
    std::vector<float*> pointers;
    for (const std::vector<float>& array : arrays) shifted.push_back(Shifted(array, shift));
    for (std::vector<float>& array : shifted) pointers.push_back(array.data() + shift);

    CpuStream stream;
    ASSERT_TRUE(GetParam().apply(n, shifted_gradient.data() + shift, pointers.data(), stream).ok());

    for (int64_t i = 0; i < n; ++i) {
      float element[kMaxArrays] = {};
      for (size_t j = 0; j < arrays.size(); ++j) element[j] = arrays[j][i];
      GetParam().rule(gradient[i], element);
      for (size_t j = 0; j < arrays.size(); ++j) {
        EXPECT_TRUE(HasSameBits(pointers[j][i], element[j]))
            << "element " << i << " of array " << j << ": " << pointers[j][i] << ", expected "
            << element[j];
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_TRUE(HasSameBits(shifted_gradient[shift + i], gradient[i])) << "element " << i;
    }
    for (size_t j = 0; j < arrays.size(); ++j) {
      for (size_t i = 0; i < shift; ++i) EXPECT_EQ(shifted[j][i], -1.0f);
      EXPECT_EQ(shifted[j].back(), -1.0f);
    }
  }
};

TEST_P(OptimizersTest, HasTheBitsOfItsRuleAtAllSizesAndAlignments) {
  ForEachVectorTarget([this] {
    for (const int64_t n : {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 1001}) {
      for (const size_t shift : {0, 1, 2, 3}) {
        Random random(/*seed=*/83, /*stream=*/static_cast<uint64_t>(n));
        const std::vector<float> gradient = NormalVector(n, random);
        std::vector<std::vector<float>> arrays;
        for (int j = 0; j < GetParam().arrays; ++j) {
          arrays.push_back(NormalVector(n, random));
          // Squares and their sums are not negative.
          for (float& number : arrays[j]) number = j > 0 ? std::abs(number) : number;
        }
        ExpectRule(gradient, arrays, shift);
      }
    }
  });
}

TEST_P(OptimizersTest, HasTheBitsOfItsRuleForSpecialValues) {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> special = {0.0f,
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
  std::vector<std::vector<float>> arrays(GetParam().arrays);
  for (const float g : special) {
    for (const float value : special) {
      for (const float state : special) {
        gradient.push_back(g);
        for (size_t j = 0; j < arrays.size(); ++j) arrays[j].push_back(j == 0 ? value : state);
      }
    }
  }
  ForEachVectorTarget([&] { ExpectRule(gradient, arrays, /*shift=*/0); });
}

INSTANTIATE_TEST_SUITE_P(All, OptimizersTest, testing::ValuesIn(AllOptimizers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace capstan
