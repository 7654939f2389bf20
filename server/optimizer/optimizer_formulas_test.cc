// Every optimizer against its formula in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/base/random.h"
#include "kernels/normal_vector.h"
#include "proto/job.pb.h"
#include "server/optimizer/optimizer.h"

namespace capstan {
namespace {

using Spec = v1::OptimizerSpec;

constexpr int kApplications = 12;
constexpr double kRate = 0.1;
constexpr double kMomentum = 0.8;
constexpr double kBeta1 = 0.8;
constexpr double kBeta2 = 0.95;
constexpr double kEpsilon = 0.2;

// One element at application `t`, its gradient and its state.
struct Element {
  int64_t t;
  double decay;
  double g;
  double& w;
  std::vector<double>& state;
};

void Sgd(Element e) { e.w -= kRate * (e.g + e.decay * e.w); }

void Momentum(Element e) {
  e.state[0] = kMomentum * e.state[0] + e.g + e.decay * e.w;
  e.w -= kRate * e.state[0];
}

void Nesterov(Element e) {
  const double h = e.g + e.decay * e.w;
  e.state[0] = kMomentum * e.state[0] + h;
  e.w -= kRate * (h + kMomentum * e.state[0]);
}

void Adagrad(Element e) {
  const double h = e.g + e.decay * e.w;
  e.state[0] += h * h;
  e.w -= kRate * h / (std::sqrt(e.state[0]) + kEpsilon);
}

// The update of Adam before the learning rate, given h.
double MomentsUpdate(Element e, double h) {
  e.state[0] = kBeta1 * e.state[0] + (1 - kBeta1) * h;
  e.state[1] = kBeta2 * e.state[1] + (1 - kBeta2) * h * h;
  const double first = e.state[0] / (1 - std::pow(kBeta1, e.t));
  const double second = e.state[1] / (1 - std::pow(kBeta2, e.t));
  return first / (std::sqrt(second) + kEpsilon);
}

void Adam(Element e) { e.w -= kRate * MomentsUpdate(e, e.g + e.decay * e.w); }

void AdamW(Element e) { e.w -= kRate * (MomentsUpdate(e, e.g) + e.decay * e.w); }

struct Case {
  Spec::Type type;
  void (*formula)(Element element);
};

class OptimizerFormulaTest : public testing::TestWithParam<Case> {
 protected:
  static std::unique_ptr<Optimizer> Make(double weight_decay) {
    Spec spec;
    spec.set_type(GetParam().type);
    spec.set_learning_rate(kRate);
    spec.set_momentum(kMomentum);
    spec.set_beta1(kBeta1);
    spec.set_beta2(kBeta2);
    spec.set_epsilon(kEpsilon);
    spec.set_weight_decay(weight_decay);
    return MakeOptimizer(spec).value();
  }

  static void ExpectFormula(double weight_decay, size_t size) {
    const std::unique_ptr<Optimizer> optimizer = Make(weight_decay);
    Random random(/*seed=*/7, /*stream=*/size);
    std::vector<float> values = NormalVector(static_cast<int64_t>(size), random);
    std::vector<std::vector<float>> arrays(optimizer->state_count(), std::vector<float>(size));
    const std::vector<absl::Span<float>> state(arrays.begin(), arrays.end());
    std::vector<double> expected(values.begin(), values.end());
    std::vector<std::vector<double>> expected_state(size,
                                                    std::vector<double>(optimizer->state_count()));
    for (int64_t t = 1; t <= kApplications; ++t) {
      const std::vector<float> gradient = NormalVector(static_cast<int64_t>(size), random);
      optimizer->Apply(gradient, {t}, absl::MakeSpan(values), state);
      for (size_t i = 0; i < size; ++i) {
        GetParam().formula({t, weight_decay, gradient[i], expected[i], expected_state[i]});
        ASSERT_NEAR(values[i], expected[i], 3e-6 * (1 + std::abs(expected[i])))
            << "element " << i << " of " << size << " after application " << t;
      }
    }
  }
};

TEST_P(OptimizerFormulaTest, IsFollowedInFloat64) {
  for (const double weight_decay : {0.3, 0.0}) {
    for (const size_t size : {0, 1, 7, 64, 1000}) ExpectFormula(weight_decay, size);
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, OptimizerFormulaTest,
                         testing::Values(Case{Spec::SGD, Sgd}, Case{Spec::MOMENTUM, Momentum},
                                         Case{Spec::NESTEROV, Nesterov},
                                         Case{Spec::ADAGRAD, Adagrad}, Case{Spec::ADAM, Adam},
                                         Case{Spec::ADAMW, AdamW}),
                         [](const testing::TestParamInfo<Case>& info) {
                           return Spec::Type_Name(info.param.type);
                         });

}  // namespace
}  // namespace capstan
