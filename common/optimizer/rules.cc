#include "common/optimizer/rules.h"

#include <glog/logging.h>

#include <cmath>

#include "common/job/optimizer_check.h"

namespace capstan {
namespace {

using Spec = v1::OptimizerSpec;

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

OptimizerRule RmspropRuleOf(const Spec& spec, const Application& application) {
  if (HasMomentum(spec)) {
    if (spec.centered()) return MakeRmsprop<true, true>(spec, application);
    return MakeRmsprop<false, true>(spec, application);
  }
  if (spec.centered()) return MakeRmsprop<true, false>(spec, application);
  return MakeRmsprop<false, false>(spec, application);
}

}  // namespace

OptimizerRule RuleOf(const v1::OptimizerSpec& spec, const Application& application) {
  switch (spec.type()) {
    case Spec::SGD:
      return MakeSgd(spec, application);
    case Spec::MOMENTUM:
      return MakeMomentum(spec, application);
    case Spec::NESTEROV:
      return MakeWithMomentum<NesterovRule>(spec, application);
    case Spec::ADAGRAD:
      return MakeAdagrad(spec, application);
    case Spec::ADAM:
      if (spec.amsgrad()) return MakeAdam<AmsgradRule>(spec, application);
      return MakeAdam<AdamRule>(spec, application);
    case Spec::ADAMW:
      if (spec.amsgrad()) return MakeAdamW<AmsgradWRule>(spec, application);
      return MakeAdamW<AdamWRule>(spec, application);
    case Spec::RMSPROP:
      return RmspropRuleOf(spec, application);
    case Spec::LION:
      return MakeLion(spec, application);
    case Spec::ROW_ADAGRAD:
    case Spec::FTRL:
    case Spec::TYPE_UNSPECIFIED:
      break;
  }
  LOG(FATAL) << "a dense optimizer without a rule: " << Spec::Type_Name(spec.type());
}

}  // namespace capstan
