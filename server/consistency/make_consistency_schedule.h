#ifndef SERVER_CONSISTENCY_MAKE_CONSISTENCY_SCHEDULE_H_
#define SERVER_CONSISTENCY_MAKE_CONSISTENCY_SCHEDULE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "server/consistency/consistency_schedule.h"
#include "server/consistency/make_consistency_policy.h"

namespace capstan {

// What counts for one table from a step on.
struct ConsistencyPeriod {
  Step first_step;
  ConsistencyMode mode = ConsistencyMode::kBsp;
  int64_t staleness = 0;  // in steps; matters to SSP only
};

// INVALID_ARGUMENT when the first period does not begin at step 0, a later one not after the one
// before it, or a staleness is negative.
absl::StatusOr<std::shared_ptr<const ConsistencySchedule>> MakeConsistencySchedule(
    absl::Span<const ConsistencyPeriod> periods);

}  // namespace capstan

#endif  // SERVER_CONSISTENCY_MAKE_CONSISTENCY_SCHEDULE_H_
