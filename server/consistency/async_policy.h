#ifndef SERVER_CONSISTENCY_ASYNC_POLICY_H_
#define SERVER_CONSISTENCY_ASYNC_POLICY_H_

#include "common/base/ids.h"
#include "server/consistency/consistency_policy.h"

namespace capstan {

// Asynchronous: a pull never waits. Recht et al., "Hogwild!", NIPS'11.
class AsyncPolicy : public ConsistencyPolicy {
 public:
  bool applies_whole_steps() const override { return false; }
  PullDecision Decide(Step pull_step, Step min_step) const override;
};

}  // namespace capstan

#endif  // SERVER_CONSISTENCY_ASYNC_POLICY_H_
