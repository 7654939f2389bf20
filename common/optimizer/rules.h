#ifndef COMMON_OPTIMIZER_RULES_H_
#define COMMON_OPTIMIZER_RULES_H_

#include <cstdint>
#include <variant>

#include "common/exchange/rates.h"
#include "kernels/optimizers.h"
#include "proto/job.pb.h"

namespace capstan {

// One application of updates to a slice.
struct Application {
  int64_t number = 1;  // counts the applications to this slice, this one included, from 1
  // The learning rate of this application is divided by it; at least 1.
  uint64_t learning_rate_divisor = 1;
  Rates rates = {};
};

using OptimizerRule =
    std::variant<SgdRule, MomentumRule, NesterovRule, AdagradRule, AdamRule, AmsgradRule, AdamWRule,
                 AmsgradWRule, RmspropRule<false, false>, RmspropRule<false, true>,
                 RmspropRule<true, false>, RmspropRule<true, true>, LionRule>;

// The rule of one application of the optimizer of `spec`, which MakeOptimizer accepts. Of all
// applications it has one type.
OptimizerRule RuleOf(const v1::OptimizerSpec& spec, const Application& application);

}  // namespace capstan

#endif  // COMMON_OPTIMIZER_RULES_H_
