#ifndef COMMON_SCHEDULER_MEASURED_PERIOD_H_
#define COMMON_SCHEDULER_MEASURED_PERIOD_H_

#include <cstdint>

#include "proto/coordinator_service.pb.h"

namespace capstan {

// Bounds on the measurement of a SchedulePeriod, in steps of each worker.
inline constexpr uint64_t kLeastPeriodSteps = 12;
inline constexpr uint64_t kMostPeriodSteps = 100;

// True if the worker has measured the period long enough to compare it with others: for one second,
// within the bounds above.
inline bool IsMeasured(const v1::PeriodTimes& times) {
  constexpr double kEnoughSeconds = 1;
  if (times.steps() < kLeastPeriodSteps) return false;
  const double seconds = static_cast<double>(times.steps()) * times.median_step_seconds();
  return times.steps() >= kMostPeriodSteps || seconds >= kEnoughSeconds;
}

}  // namespace capstan

#endif  // COMMON_SCHEDULER_MEASURED_PERIOD_H_
