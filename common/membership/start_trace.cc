#include "common/membership/start_trace.h"

#include "common/base/status_macros.h"
#include "common/membership/measure_clock_offset.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<Tracer>> StartTrace(const std::string& path,
                                                   CoordinatorEndpoint& coordinator, Clock* clock) {
  Tracer::Options options;
  options.path = path;
  options.clock = clock;
  ASSIGN_OR_RETURN(options.clock_offset, MeasureClockOffset(coordinator, *clock));
  return Tracer::Create(options);
}

}  // namespace capstan
