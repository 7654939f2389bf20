#ifndef SERVER_CONSISTENCY_CONSISTENCY_POLICY_H_
#define SERVER_CONSISTENCY_CONSISTENCY_POLICY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/base/ids.h"

namespace capstan {

enum class ConsistencyMode {
  // Bulk synchronous parallel: a pull at step c sees all updates of the steps before c, and no
  // other. Valiant, "A Bridging Model for Parallel Computation", CACM 1990.
  kBsp,
  // Stale synchronous parallel with staleness s: a pull at step c sees at least all updates of the
  // steps up to c - s - 1, so the fastest worker is at most s steps ahead of the slowest. Ho et
  // al.,
  // "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS'13.
  kSsp,
  // Asynchronous: a pull never waits. Recht et al., "Hogwild!", NIPS'11.
  kAsync,
};

enum class PullDecision {
  kAnswer,   // with the current values
  kWait,     // until other workers have completed more steps
  kTooLate,  // later updates have overwritten the values of this step
};

// Decides when a pull is answered, and how pushes become updates. The consistency modes differ in
// nothing else. Immutable, hence thread-safe.
class ConsistencyPolicy {
 public:
  virtual ~ConsistencyPolicy() = default;

  // True: the pushes of one step are kept, and applied as one update once every live worker has
  // pushed. False: each push is applied when it arrives.
  virtual bool applies_whole_steps() const = 0;

  // Decides about a pull at `pull_step`. Every live worker has completed `min_step` steps of the
  // slice.
  virtual PullDecision Decide(Step pull_step, Step min_step) const = 0;
};

// `staleness` is s of kSsp, in steps; the other modes ignore it. INVALID_ARGUMENT if it is
// negative.
absl::StatusOr<std::unique_ptr<ConsistencyPolicy>> MakeConsistencyPolicy(ConsistencyMode mode,
                                                                         int64_t staleness);

}  // namespace capstan

#endif  // SERVER_CONSISTENCY_CONSISTENCY_POLICY_H_
