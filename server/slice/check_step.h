#ifndef SERVER_SLICE_CHECK_STEP_H_
#define SERVER_SLICE_CHECK_STEP_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/exchange/exchange_request.h"
#include "server/consistency/consistency_schedule.h"
#include "server/consistency/step_vector.h"
#include "server/slice/push_log.h"

namespace capstan {

// Where a slice is.
struct StepContext {
  const std::string& name;  // for errors
  const StepVector& steps;
  const ConsistencySchedule& schedule;
  uint64_t version = 0;
  bool awaits_initial = false;
  std::optional<Step> held_from;  // Slice::HoldBack's step

  bool IsHeldBack(Step step) const { return held_from.has_value() && step >= *held_from; }
};

// Everything about a push that is not known yet but its bytes, and a pull of a worker: as
// Slice::Exchange. `push` is the other half of the pull's exchange; null: it has none.
absl::Status CheckPush(const StepContext& slice, WorkerId worker, const CheckedPush& push);
absl::Status CheckPull(const StepContext& slice, WorkerId worker, const StepPull& pull,
                       const StepPush* push);

}  // namespace capstan

#endif  // SERVER_SLICE_CHECK_STEP_H_
