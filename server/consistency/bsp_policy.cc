#include "server/consistency/bsp_policy.h"

namespace capstan {

PullDecision BspPolicy::Decide(Step pull_step, Step min_step) const {
  if (min_step < pull_step) return PullDecision::kWait;
  return min_step == pull_step ? PullDecision::kAnswer : PullDecision::kTooLate;
}

}  // namespace capstan
