#ifndef COMMON_MEMBERSHIP_START_TRACE_H_
#define COMMON_MEMBERSHIP_START_TRACE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/trace/tracer.h"

namespace capstan {

// A trace of this process in the file at `path`, which knows how far `clock` is off the
// coordinator's. `clock` outlives it. The errors of MeasureClockOffset and Tracer::Create. Blocks;
// for a process's own main thread.
absl::StatusOr<std::unique_ptr<Tracer>> StartTrace(const std::string& path,
                                                   CoordinatorEndpoint& coordinator, Clock* clock);

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_START_TRACE_H_
