#include "server/optimizer/optimizer.h"

#include <glog/logging.h>

#include <cmath>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/optimizer_range.h"
#include "kernels/optimizers.h"

namespace capstan {
namespace {

using Spec = v1::OptimizerSpec;

absl::Status CheckRates(const Spec& spec) {
  RETURN_IF_ERROR(CheckPositive("learning_rate", spec.learning_rate()));
  return CheckNotNegative("weight_decay", spec.weight_decay());
}

absl::Status CheckMoments(const Spec& spec) {
  RETURN_IF_ERROR(CheckFraction("beta1", spec.beta1()));
  RETURN_IF_ERROR(CheckFraction("beta2", spec.beta2()));
  return CheckPositive("epsilon", spec.epsilon());
}

// The rules of one application:

double RateOf(const Spec& spec, const Application& application) {
  return application.learning_rate.value_or(spec.learning_rate()) /
         static_cast<double>(application.learning_rate_divisor);
}

SgdRule MakeSgd(const Spec& spec, const Application& application) {
  SgdRule rule;
  rule.learning_rate = static_cast<float>(RateOf(spec, application));
  rule.weight_decay = static_cast<float>(spec.weight_decay());
  return rule;
}

template <typename Rule>  // of momentum or Nesterov
Rule MakeWithMomentum(const Spec& spec, const Application& application) {
  Rule rule;
  rule.learning_rate = static_cast<float>(RateOf(spec, application));
  rule.momentum = static_cast<float>(spec.momentum());
  rule.weight_decay = static_cast<float>(spec.weight_decay());
  return rule;
}

AdagradRule MakeAdagrad(const Spec& spec, const Application& application) {
  AdagradRule rule;
  rule.learning_rate = static_cast<float>(RateOf(spec, application));
  rule.epsilon = static_cast<float>(spec.epsilon());
  rule.weight_decay = static_cast<float>(spec.weight_decay());
  return rule;
}

template <typename Rule>  // of Adam or AdamW; without the weight decay
Rule MakeWithMoments(const Spec& spec, const Application& application) {
  CHECK_GE(application.number, 1);
  const double t = static_cast<double>(application.number);
  Rule rule;
  rule.step = static_cast<float>(RateOf(spec, application) / (1 - std::pow(spec.beta1(), t)));
  rule.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(spec.beta2(), t)));
  rule.keep_first = static_cast<float>(spec.beta1());
  rule.add_first = static_cast<float>(1 - spec.beta1());
  rule.keep_second = static_cast<float>(spec.beta2());
  rule.add_second = static_cast<float>(1 - spec.beta2());
  rule.epsilon = static_cast<float>(spec.epsilon());
  return rule;
}

AdamRule MakeAdam(const Spec& spec, const Application& application) {
  AdamRule rule = MakeWithMoments<AdamRule>(spec, application);
  rule.weight_decay = static_cast<float>(spec.weight_decay());
  return rule;
}

AdamWRule MakeAdamW(const Spec& spec, const Application& application) {
  AdamWRule rule = MakeWithMoments<AdamWRule>(spec, application);
  rule.decay = static_cast<float>(RateOf(spec, application) * spec.weight_decay());
  return rule;
}

// Applies one of the rules of kernels/optimizers.h.
template <typename Rule>
class RuleOptimizer : public Optimizer {
 public:
  using MakeRule = Rule (*)(const Spec& spec, const Application& application);

  RuleOptimizer(const Spec& spec, MakeRule make_rule) : spec_(spec), make_rule_(make_rule) {}

  int state_count() const override { return Rule::kStateCount; }

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

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const v1::OptimizerSpec& spec) {
  RETURN_IF_ERROR(CheckRates(spec));
  switch (spec.type()) {
    case Spec::SGD:
      return Make(spec, MakeSgd);
    case Spec::MOMENTUM:
      RETURN_IF_ERROR(CheckFraction("momentum", spec.momentum()));
      return Make(spec, MakeWithMomentum<MomentumRule>);
    case Spec::NESTEROV:
      RETURN_IF_ERROR(CheckFraction("momentum", spec.momentum()));
      return Make(spec, MakeWithMomentum<NesterovRule>);
    case Spec::ADAGRAD:
      RETURN_IF_ERROR(CheckPositive("epsilon", spec.epsilon()));
      return Make(spec, MakeAdagrad);
    case Spec::ADAM:
      RETURN_IF_ERROR(CheckMoments(spec));
      return Make(spec, MakeAdam);
    case Spec::ADAMW:
      RETURN_IF_ERROR(CheckMoments(spec));
      return Make(spec, MakeAdamW);
    case Spec::ROW_ADAGRAD:
    case Spec::FTRL:
    case Spec::TYPE_UNSPECIFIED:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "optimizer.type: expected SGD, MOMENTUM, NESTEROV, ADAGRAD, ADAM or ADAMW for a dense table, "
      "got ",
      Spec::Type_Name(spec.type()), "; name one"));
}

}  // namespace capstan
