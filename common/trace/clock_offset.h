#ifndef COMMON_TRACE_CLOCK_OFFSET_H_
#define COMMON_TRACE_CLOCK_OFFSET_H_

#include "absl/time/time.h"

namespace capstan {

// How far the clock of this process is off the coordinator's, as it was measured.
struct ClockOffset {
  absl::Duration offset;       // the coordinator's time minus this process's
  absl::Duration uncertainty;  // by which the offset may be wrong, either way
};

}  // namespace capstan

#endif  // COMMON_TRACE_CLOCK_OFFSET_H_
