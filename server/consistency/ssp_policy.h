#ifndef SERVER_CONSISTENCY_SSP_POLICY_H_
#define SERVER_CONSISTENCY_SSP_POLICY_H_

#include <cstdint>

#include "common/base/ids.h"
#include "server/consistency/consistency_policy.h"

namespace capstan {

// Stale synchronous parallel: a pull at step c sees at least all updates stamped <= c - s - 1, so
// that the fastest worker is at most s steps ahead of the slowest. Ho et al., "More Effective
// Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS'13.
class SspPolicy : public ConsistencyPolicy {
 public:
  // `staleness` is s >= 0, in steps.
  explicit SspPolicy(int64_t staleness) : staleness_(staleness) {}

  bool applies_whole_steps() const override { return false; }
  PullDecision Decide(Step pull_step, Step min_step) const override;

 private:
  const int64_t staleness_;
};

}  // namespace capstan

#endif  // SERVER_CONSISTENCY_SSP_POLICY_H_
