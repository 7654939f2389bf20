#ifndef COMMON_MEMBERSHIP_VIEW_WATCH_H_
#define COMMON_MEMBERSHIP_VIEW_WATCH_H_

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// The newest view of a member. A thread can wait for a certain view. Thread-safe.
class ViewWatch {
 public:
  explicit ViewWatch(Clock* clock) : clock_(clock) {}

  void OnView(const v1::JobView& view);
  // The member cannot go on.
  void OnLost(absl::Status status);

  // Blocks until the newest view satisfies `is_awaited`, and returns it. ABORTED with the reason
  // when the job has failed; OnLost's status, unless the job is done.
  absl::StatusOr<v1::JobView> WaitFor(absl::FunctionRef<bool(const v1::JobView&)> is_awaited);

 private:
  Clock* const clock_;
  Mutex mu_;
  CondVar changed_;
  v1::JobView view_ ABSL_GUARDED_BY(mu_);
  absl::Status lost_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_VIEW_WATCH_H_
