#ifndef SERVER_CONSISTENCY_CONSISTENCY_POLICY_H_
#define SERVER_CONSISTENCY_CONSISTENCY_POLICY_H_

#include "common/base/ids.h"

namespace capstan {

enum class PullDecision {
  kAnswer,   // with the values as they are now
  kWait,     // until other workers have completed more steps
  kTooLate,  // the values that the contract asks for have been overwritten
};

// Decides when the reply to a pull is released, and how pushes become updates: the only difference
// between the consistency modes. Immutable, hence thread-safe.
class ConsistencyPolicy {
 public:
  virtual ~ConsistencyPolicy() = default;

  // True: the pushes of one step are kept apart and applied as one update, once every live worker
  // has pushed. False: each push is applied when it arrives.
  virtual bool applies_whole_steps() const = 0;

  // What becomes of a pull at `pull_step` of a slice of which every live worker has completed
  // `min_step` steps.
  virtual PullDecision Decide(Step pull_step, Step min_step) const = 0;
};

}  // namespace capstan

#endif  // SERVER_CONSISTENCY_CONSISTENCY_POLICY_H_
