#ifndef SERVER_COORDINATOR_STATE_STATE_STORE_H_
#define SERVER_COORDINATOR_STATE_STATE_STORE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "proto/coordinator_state.pb.h"

namespace capstan {

// What a coordinator leaves to the next one.
struct SavedJob {
  v1::CoordinatorState state;
  std::shared_ptr<const v1::JobConstants> constants;
};

// Where a coordinator keeps its job, so that another one can go on with it. Each coordinator has a
// term of its own there. Once a later term has begun, nothing of an earlier one is kept any more,
// and the later one has read all that was. Calls block. Not thread-safe.
class StateStore {
 public:
  virtual ~StateStore() = default;

  // The term of this coordinator, from 1.
  virtual uint64_t term() const = 0;

  // Replaces what is kept. It is durable when this returns OK: a later term begins with it, or with
  // something that was saved later. `job.state` has this term. ABORTED: a later term has begun, and
  // may or may not have read it; this coordinator must end. UNAVAILABLE: it could not be written,
  // and a later term may or may not begin with it; the call may be repeated. The error names the
  // file.
  virtual absl::Status Save(const SavedJob& job) = 0;

  // No later term had begun when this was called. Errors as of Save.
  virtual absl::Status Confirm() = 0;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_STATE_STATE_STORE_H_
