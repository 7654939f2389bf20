#ifndef TESTS_SIMULATION_SLEEP_ON_H_
#define TESTS_SIMULATION_SLEEP_ON_H_

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace capstan {

// Lets the calling thread stand still for so long by `clock`, as if it computed.
inline void SleepOn(Clock& clock, absl::Duration duration) {
  const absl::Time end = clock.Now() + duration;
  Mutex mu;
  CondVar never;
  MutexLock lock(&mu);
  while (clock.Now() < end) clock.WaitUntil(mu, never, end);
}

}  // namespace capstan

#endif  // TESTS_SIMULATION_SLEEP_ON_H_
