#ifndef WORKER_RUNTIME_SCHEDULE_FOLLOWER_H_
#define WORKER_RUNTIME_SCHEDULE_FOLLOWER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// The median; of an even number, the upper one of the middle two. 0 without times.
absl::Duration MedianTime(std::vector<absl::Duration> times);

// A worker's part in the tuning of the schedule: applies each period of the coordinator from the
// period's first step on, and measures the steps. The training thread calls BeginStep and
// RecordStep. Any thread may call OnView and times().
class ScheduleFollower {
 public:
  struct Options {
    // Required. From now on, the worker sends as in this period.
    absl::AnyInvocable<void(const v1::SchedulePeriod&)> apply;
    // Required. Runs once for each period, after its measurement. Both run on the training thread.
    absl::AnyInvocable<void()> on_measured;
  };

  explicit ScheduleFollower(Options options) : options_(std::move(options)) {}

  // Views may come in any order.
  void OnView(const v1::JobView& view);
  // Applies the newest period if its first step is `step` or an earlier one.
  void BeginStep(Step step);
  void RecordStep(absl::Duration time);
  v1::PeriodTimes times() const;

 private:
  // In its first steps, a period shares the links with messages from before it.
  static constexpr int kUncountedSteps = 2;

  Options options_;

  mutable Mutex mu_;
  v1::SchedulePeriod newest_ ABSL_GUARDED_BY(mu_);
  int64_t current_ ABSL_GUARDED_BY(mu_) = -1;  // first step of the applied period; -1: none
  int steps_to_skip_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_measured_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<absl::Duration> step_times_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // WORKER_RUNTIME_SCHEDULE_FOLLOWER_H_
