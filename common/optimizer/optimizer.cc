#include "common/optimizer/optimizer.h"

#include <glog/logging.h>

#include <cmath>
#include <cstddef>

#include "common/base/status_macros.h"
#include "common/job/optimizer_check.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/optimizers.h"

namespace capstan {
namespace {

using Spec = v1::OptimizerSpec;

// The rules of one application:

double RateOf(const Spec& spec, const Application& application) {
  return application.rates.learning_rate.value_or(spec.learning_rate()) /
         static_cast<double>(application.learning_rate_divisor);
}

double MomentumOf(const Spec& spec, const Application& application) {
  return application.rates.momentum.value_or(spec.momentum());
}

double Beta1Of(const Spec& spec, const Application& application) {
  return application.rates.momentum.value_or(spec.beta1());
}

float SignOf(const Spec& spec) { return spec.maximize() ? -1.0f : 1.0f; }

SgdRule MakeSgd(const Spec& spec, const Application& application) {
  SgdRule rule;
  rule.learning_rate = static_cast<float>(RateOf(spec, application));
  rule.weight_decay = static_cast<float>(spec.weight_decay());
  rule.sign = SignOf(spec);
  return rule;
}

template <typename Rule>  // of momentum or Nesterov
Rule MakeWithMomentum(const Spec& spec, const Application& application) {
  Rule rule;
  rule.learning_rate = static_cast<float>(RateOf(spec, application));
  rule.momentum = static_cast<float>(MomentumOf(spec, application));
  rule.weight_decay = static_cast<float>(spec.weight_decay());
  rule.sign = SignOf(spec);
  return rule;
}

MomentumRule MakeMomentum(const Spec& spec, const Application& application) {
  MomentumRule rule = MakeWithMomentum<MomentumRule>(spec, application);
  if (application.number > 1) rule.add = static_cast<float>(1 - spec.dampening());
  return rule;
}

AdagradRule MakeAdagrad(const Spec& spec, const Application& application) {
  AdagradRule rule;
  rule.learning_rate = static_cast<float>(RateOf(spec, application));
  rule.epsilon = static_cast<float>(spec.epsilon());
  rule.weight_decay = static_cast<float>(spec.weight_decay());
  rule.sign = SignOf(spec);
  return rule;
}

Moments MakeMoments(const Spec& spec, const Application& application) {
  CHECK_GE(application.number, 1);
  const double t = static_cast<double>(application.number);
  const double beta1 = Beta1Of(spec, application);
  Moments moments;
  moments.step = static_cast<float>(RateOf(spec, application) / (1 - std::pow(beta1, t)));
  moments.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(spec.beta2(), t)));
  moments.keep_first = static_cast<float>(beta1);
  moments.add_first = static_cast<float>(1 - beta1);
  moments.keep_second = static_cast<float>(spec.beta2());
  moments.add_second = static_cast<float>(1 - spec.beta2());
  moments.epsilon = static_cast<float>(spec.epsilon());
  moments.sign = SignOf(spec);
  return moments;
}

template <typename Rule>  // of Adam or AMSGrad
Rule MakeAdam(const Spec& spec, const Application& application) {
  return {MakeMoments(spec, application), static_cast<float>(spec.weight_decay())};
}

template <typename Rule>  // with decoupled weight decay
Rule MakeAdamW(const Spec& spec, const Application& application) {
  return {MakeMoments(spec, application),
          static_cast<float>(RateOf(spec, application) * spec.weight_decay())};
}

template <bool kIsCentered, bool kHasMomentum>
RmspropRule<kIsCentered, kHasMomentum> MakeRmsprop(const Spec& spec,
                                                   const Application& application) {
  RmspropRule<kIsCentered, kHasMomentum> rule;
  rule.learning_rate = static_cast<float>(RateOf(spec, application));
  rule.keep = static_cast<float>(spec.alpha());
  rule.add = static_cast<float>(1 - spec.alpha());
  rule.momentum = static_cast<float>(MomentumOf(spec, application));
  rule.epsilon = static_cast<float>(spec.epsilon());
  rule.weight_decay = static_cast<float>(spec.weight_decay());
  rule.sign = SignOf(spec);
  return rule;
}

double LionBeta2(const Spec& spec) { return spec.has_beta2() ? spec.beta2() : kLionBeta2; }

LionRule MakeLion(const Spec& spec, const Application& application) {
  LionRule rule;
  rule.learning_rate = static_cast<float>(RateOf(spec, application));
  rule.mix = static_cast<float>(Beta1Of(spec, application));
  rule.mix_add = static_cast<float>(1 - Beta1Of(spec, application));
  rule.keep = static_cast<float>(LionBeta2(spec));
  rule.add = static_cast<float>(1 - LionBeta2(spec));
  rule.decay = static_cast<float>(RateOf(spec, application) * spec.weight_decay());
  rule.sign = SignOf(spec);
  return rule;
}

// Applies one of the rules of kernels/optimizers.h.
template <typename Rule>
class RuleOptimizer : public Optimizer {
 public:
  using MakeRule = Rule (*)(const Spec& spec, const Application& application);

  RuleOptimizer(const Spec& spec, MakeRule make_rule) : spec_(spec), make_rule_(make_rule) {}

  int state_count() const override { return Rule::kStateCount; }
  bool has_momentum() const override { return HasMomentum(spec_); }

  void Apply(absl::Span<const float> gradient, const Application& application,
             absl::Span<float> values, absl::Span<const absl::Span<float>> state) const override {
    CHECK_EQ(gradient.size(), values.size());
    CHECK_EQ(state.size(), size_t{Rule::kStateCount});
    float* arrays[1 + Rule::kStateCount] = {values.data()};
    for (int i = 0; i < Rule::kStateCount; ++i) {
      CHECK_EQ(state[i].size(), values.size());
      arrays[1 + i] = state[i].data();
    }
    CpuStream stream;
    CHECK(ApplyRule(make_rule_(spec_, application), static_cast<int64_t>(values.size()),
                    gradient.data(), arrays, stream)
              .ok());
  }

 private:
  const Spec spec_;
  const MakeRule make_rule_;
};

template <typename Rule>
std::unique_ptr<Optimizer> Make(const Spec& spec,
                                Rule (*make_rule)(const Spec& spec,
                                                  const Application& application)) {
  return std::make_unique<RuleOptimizer<Rule>>(spec, make_rule);
}

std::unique_ptr<Optimizer> MakeRmspropOptimizer(const Spec& spec) {
  if (HasMomentum(spec)) {
    return spec.centered() ? Make(spec, MakeRmsprop<true, true>)
                           : Make(spec, MakeRmsprop<false, true>);
  }
  return spec.centered() ? Make(spec, MakeRmsprop<true, false>)
                         : Make(spec, MakeRmsprop<false, false>);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const v1::OptimizerSpec& spec) {
  RETURN_IF_ERROR(CheckDenseOptimizer(spec));
  switch (spec.type()) {
    case Spec::SGD:
      return Make(spec, MakeSgd);
    case Spec::MOMENTUM:
      return Make(spec, MakeMomentum);
    case Spec::NESTEROV:
      return Make(spec, MakeWithMomentum<NesterovRule>);
    case Spec::ADAGRAD:
      return Make(spec, MakeAdagrad);
    case Spec::ADAM:
      return spec.amsgrad() ? Make(spec, MakeAdam<AmsgradRule>) : Make(spec, MakeAdam<AdamRule>);
    case Spec::ADAMW:
      return spec.amsgrad() ? Make(spec, MakeAdamW<AmsgradWRule>)
                            : Make(spec, MakeAdamW<AdamWRule>);
    case Spec::RMSPROP:
      return MakeRmspropOptimizer(spec);
    case Spec::LION:
      return Make(spec, MakeLion);
    case Spec::ROW_ADAGRAD:
    case Spec::FTRL:
    case Spec::TYPE_UNSPECIFIED:
      break;
  }
  LOG(FATAL) << "a dense optimizer without a rule: " << Spec::Type_Name(spec.type());
}

}  // namespace capstan
