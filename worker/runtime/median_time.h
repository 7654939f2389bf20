#ifndef WORKER_RUNTIME_MEDIAN_TIME_H_
#define WORKER_RUNTIME_MEDIAN_TIME_H_

#include <algorithm>
#include <vector>

#include "absl/time/time.h"

namespace capstan {

// The upper one of an even number; 0 of none.
inline absl::Duration MedianTime(std::vector<absl::Duration> times) {
  if (times.empty()) return absl::ZeroDuration();
  const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace capstan

#endif  // WORKER_RUNTIME_MEDIAN_TIME_H_
