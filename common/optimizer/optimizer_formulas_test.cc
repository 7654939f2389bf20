// Every optimizer against its formula in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/random.h"
#include "common/optimizer/optimizer.h"
#include "kernels/normal_vector.h"
#include "proto/job.pb.h"

namespace capstan {
namespace {

using Spec = v1::OptimizerSpec;

constexpr int kApplications = 12;
constexpr double kRate = 0.1;
constexpr double kMomentum = 0.8;
constexpr double kBeta1 = 0.8;
constexpr double kBeta2 = 0.95;
constexpr double kEpsilon = 0.2;
constexpr double kAlpha = 0.9;
constexpr double kDampening = 0.3;

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

void DampedMomentum(Element e) {
  const double h = e.g + e.decay * e.w;
  e.state[0] = e.t == 1 ? h : kMomentum * e.state[0] + (1 - kDampening) * h;
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

// The same with the largest mean of squares so far, which is not corrected yet.
double AmsgradUpdate(Element e, double h) {
  MomentsUpdate(e, h);
  e.state[2] = std::max(e.state[2], e.state[1]);
  const double first = e.state[0] / (1 - std::pow(kBeta1, e.t));
  const double second = e.state[2] / (1 - std::pow(kBeta2, e.t));
  return first / (std::sqrt(second) + kEpsilon);
}

void Amsgrad(Element e) { e.w -= kRate * AmsgradUpdate(e, e.g + e.decay * e.w); }

void AmsgradW(Element e) {
  e.w *= 1 - kRate * e.decay;
  e.w -= kRate * AmsgradUpdate(e, e.g);
}

void Rmsprop(Element e) {
  const double h = e.g + e.decay * e.w;
  e.state[0] = kAlpha * e.state[0] + (1 - kAlpha) * h * h;
  e.w -= kRate * h / (std::sqrt(e.state[0]) + kEpsilon);
}

void CenteredRmsprop(Element e) {
  const double h = e.g + e.decay * e.w;
  e.state[0] = kAlpha * e.state[0] + (1 - kAlpha) * h * h;
  e.state[1] = kAlpha * e.state[1] + (1 - kAlpha) * h;
  const double root = std::sqrt(e.state[0] - e.state[1] * e.state[1]);
  e.state[2] = kMomentum * e.state[2] + h / (root + kEpsilon);
  e.w -= kRate * e.state[2];
}

void Lion(Element e) {
  const double mixed = kBeta1 * e.state[0] + (1 - kBeta1) * e.g;
  e.w *= 1 - kRate * e.decay;
  if (mixed != 0) e.w -= std::copysign(kRate, mixed);
  e.state[0] = kBeta2 * e.state[0] + (1 - kBeta2) * e.g;
}

struct Case {
  const char* name;
  Spec::Type type;
  void (*formula)(Element element);
  void (*settings)(Spec& spec) = [](Spec&) {};
};

class OptimizerFormulaTest : public testing::TestWithParam<Case> {
 protected:
  static std::unique_ptr<Optimizer> Make(double weight_decay, bool maximizes) {
    Spec spec;
    spec.set_type(GetParam().type);
    spec.set_learning_rate(kRate);
    if (GetParam().type != Spec::RMSPROP) spec.set_momentum(kMomentum);
    spec.set_beta1(kBeta1);
    spec.set_beta2(kBeta2);
    spec.set_epsilon(kEpsilon);
    spec.set_alpha(kAlpha);
    spec.set_weight_decay(weight_decay);
    GetParam().settings(spec);
    spec.set_maximize(maximizes);
    return MakeOptimizer(spec).value();
  }

  static void ExpectFormula(double weight_decay, size_t size, bool maximizes = false) {
    const std::unique_ptr<Optimizer> optimizer = Make(weight_decay, maximizes);
    const double sign = maximizes ? -1 : 1;
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
        GetParam().formula({t, weight_decay, sign * gradient[i], expected[i], expected_state[i]});
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

TEST_P(OptimizerFormulaTest, IsFollowedUpTheGradient) {
  ExpectFormula(/*weight_decay=*/0.3, /*size=*/64, /*maximizes=*/true);
}

INSTANTIATE_TEST_SUITE_P(
    AllTypes, OptimizerFormulaTest,
    testing::Values(
        Case{"Sgd", Spec::SGD, Sgd}, Case{"Momentum", Spec::MOMENTUM, Momentum},
        Case{"DampedMomentum", Spec::MOMENTUM, DampedMomentum,
             [](Spec& spec) { spec.set_dampening(kDampening); }},
        Case{"Nesterov", Spec::NESTEROV, Nesterov}, Case{"Adagrad", Spec::ADAGRAD, Adagrad},
        Case{"Adam", Spec::ADAM, Adam},
        Case{"Amsgrad", Spec::ADAM, Amsgrad, [](Spec& spec) { spec.set_amsgrad(true); }},
        Case{"AdamW", Spec::ADAMW, AdamW},
        Case{"AmsgradW", Spec::ADAMW, AmsgradW, [](Spec& spec) { spec.set_amsgrad(true); }},
        Case{"Rmsprop", Spec::RMSPROP, Rmsprop},
        Case{"CenteredRmsprop", Spec::RMSPROP, CenteredRmsprop,
             [](Spec& spec) {
               spec.set_centered(true);
               spec.set_momentum(kMomentum);
             }},
        Case{"Lion", Spec::LION, Lion}),
    [](const testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace capstan
