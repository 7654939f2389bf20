#ifndef COMMON_MEMBERSHIP_MEASURE_CLOCK_OFFSET_H_
#define COMMON_MEMBERSHIP_MEASURE_CLOCK_OFFSET_H_

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/trace/trace_event.h"

namespace capstan {

// How far `clock` is off the coordinator's now. Asks several times; the answer that took least time
// counts, as Cristian's algorithm says (Distributed Computing 3, 1989): the coordinator read its
// clock at some time on the way, so that half of that time is the uncertainty. Or the coordinator's
// error. Blocks; for a process's own main thread.
absl::StatusOr<ClockOffset> MeasureClockOffset(CoordinatorEndpoint& coordinator, Clock& clock);

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_MEASURE_CLOCK_OFFSET_H_
