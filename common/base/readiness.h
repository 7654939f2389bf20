#ifndef COMMON_BASE_READINESS_H_
#define COMMON_BASE_READINESS_H_

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"

namespace capstan {

// Whether a process does its work. If it does not, the status says what it waits for. Thread-safe.
class Readiness {
 public:
  explicit Readiness(absl::Status status) : status_(std::move(status)) {}

  // Ignored after End.
  void Set(absl::Status status) {
    MutexLock lock(&mu_);
    if (!has_ended_) status_ = std::move(status);
  }

  // The process ends. It is never ready again. The first reason counts.
  void End(absl::Status reason) {
    MutexLock lock(&mu_);
    if (!std::exchange(has_ended_, true)) status_ = std::move(reason);
  }

  absl::Status Get() const {
    MutexLock lock(&mu_);
    return status_;
  }

 private:
  mutable Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace capstan

#endif  // COMMON_BASE_READINESS_H_
