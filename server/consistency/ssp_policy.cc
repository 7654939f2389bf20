#include "server/consistency/ssp_policy.h"

namespace capstan {

PullDecision SspPolicy::Decide(Step pull_step, Step min_step) const {
  // As a difference, so that no staleness overflows.
  return pull_step - min_step <= staleness_ ? PullDecision::kAnswer : PullDecision::kWait;
}

}  // namespace capstan
