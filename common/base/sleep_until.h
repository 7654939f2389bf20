#ifndef COMMON_BASE_SLEEP_UNTIL_H_
#define COMMON_BASE_SLEEP_UNTIL_H_

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace capstan {

// Lets the calling thread stand still until `clock` says so, as if it computed.
inline void SleepUntil(Clock& clock, absl::Time end) {
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  while (clock.Now() < end) clock.WaitUntil(mutex, never, end);
}

}  // namespace capstan

#endif  // COMMON_BASE_SLEEP_UNTIL_H_
