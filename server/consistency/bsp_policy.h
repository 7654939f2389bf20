#ifndef SERVER_CONSISTENCY_BSP_POLICY_H_
#define SERVER_CONSISTENCY_BSP_POLICY_H_

#include "common/base/ids.h"
#include "server/consistency/consistency_policy.h"

namespace capstan {

// Bulk synchronous parallel: a pull at step c sees all updates of the steps before c, and no other.
// Valiant, "A Bridging Model for Parallel Computation", CACM 1990.
class BspPolicy : public ConsistencyPolicy {
 public:
  bool applies_whole_steps() const override { return true; }
  PullDecision Decide(Step pull_step, Step min_step) const override;
};

}  // namespace capstan

#endif  // SERVER_CONSISTENCY_BSP_POLICY_H_
