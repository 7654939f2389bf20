#ifndef COMMON_MEMBERSHIP_START_TRACE_H_
#define COMMON_MEMBERSHIP_START_TRACE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/trace/trace_event.h"
#include "common/trace/tracer.h"

namespace capstan {

// The current offset of `clock` from the coordinator's clock, by Cristian's algorithm (Distributed
// Computing 3, 1989). Asks several times and takes the fastest reply. The coordinator read its
// clock at some moment of the round trip, so half of the round trip is the uncertainty. Returns the
// coordinator's errors. Blocks; for a process's own main thread.
absl::StatusOr<ClockOffset> MeasureClockOffset(CoordinatorEndpoint& coordinator, Clock& clock);

// Starts a trace of this process in the file at `path`, with the offset of `clock` from the
// coordinator's. `clock` outlives it. The errors are those of MeasureClockOffset and
// Tracer::Create. Blocks; for a process's own main thread.
absl::StatusOr<std::unique_ptr<Tracer>> StartTrace(const std::string& path,
                                                   CoordinatorEndpoint& coordinator, Clock* clock);

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_START_TRACE_H_
