#include "server/consistency/async_policy.h"

namespace capstan {

PullDecision AsyncPolicy::Decide(Step /*pull_step*/, Step /*min_step*/) const {
  return PullDecision::kAnswer;
}

}  // namespace capstan
