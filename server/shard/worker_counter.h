#ifndef SERVER_SHARD_WORKER_COUNTER_H_
#define SERVER_SHARD_WORKER_COUNTER_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace capstan {

// Counts something for each worker. Thread-safe.
class WorkerCounter {
 public:
  void Increment(WorkerId worker) {
    MutexLock lock(&mu_);
    ++counts_[worker];
  }
  std::map<WorkerId, int64_t> counts() const {
    MutexLock lock(&mu_);
    return counts_;
  }

 private:
  mutable Mutex mu_;
  std::map<WorkerId, int64_t> counts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // SERVER_SHARD_WORKER_COUNTER_H_
