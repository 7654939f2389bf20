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

// A worker in a job whose schedule is tuned: sends as the coordinator's latest period says from its
// first step on, and measures the steps in it. The training thread begins and records steps; any
// thread brings views and asks for times.
class ScheduleFollower {
 public:
  struct Options {
    // Required: sends like that from now on.
    absl::AnyInvocable<void(const v1::SchedulePeriod&)> apply;
    // Required: once for each period, when it has been measured. Both run on the training thread.
    absl::AnyInvocable<void()> on_measured;
  };

  explicit ScheduleFollower(Options options) : options_(std::move(options)) {}

  // Views may come in any order.
  void OnView(const v1::JobView& view);
  // Takes a period that begins at `step` or has begun before it.
  void BeginStep(Step step);
  void RecordStep(absl::Duration time);
  v1::PeriodTimes times() const;

 private:
  // The first steps of a period still have messages that were sent before it.
  static constexpr int kUncountedSteps = 2;

  Options options_;

  mutable Mutex mu_;
  v1::SchedulePeriod newest_ ABSL_GUARDED_BY(mu_);
  int64_t current_ ABSL_GUARDED_BY(mu_) = -1;  // first step of the period that counts; -1: none
  int steps_to_skip_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_measured_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<absl::Duration> step_times_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // WORKER_RUNTIME_SCHEDULE_FOLLOWER_H_
