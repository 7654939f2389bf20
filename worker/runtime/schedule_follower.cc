#include "worker/runtime/schedule_follower.h"

#include <algorithm>

#include "common/scheduler/measured_period.h"

namespace capstan {

absl::Duration MedianTime(std::vector<absl::Duration> times) {
  if (times.empty()) return absl::ZeroDuration();
  const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void ScheduleFollower::OnView(const v1::JobView& view) {
  if (!view.has_schedule()) return;
  MutexLock lock(&mu_);
  if (view.schedule().first_step() >= newest_.first_step()) newest_ = view.schedule();
}

void ScheduleFollower::BeginStep(Step step) {
  v1::SchedulePeriod period;
  {
    MutexLock lock(&mu_);
    const int64_t first_step = newest_.first_step();
    const bool is_there = newest_.credit_bytes() > 0;  // some view had a period
    if (!is_there || first_step == current_ || Step(first_step) > step) return;
    period = newest_;
    current_ = first_step;
    steps_to_skip_ = kUncountedSteps;
    is_measured_ = false;
    step_times_.clear();
  }
  options_.apply(period);
}

void ScheduleFollower::RecordStep(absl::Duration time) {
  {
    MutexLock lock(&mu_);
    if (current_ < 0 || is_measured_ || steps_to_skip_-- > 0) return;
    step_times_.push_back(time);
  }
  if (!IsMeasured(times())) return;
  {
    MutexLock lock(&mu_);
    is_measured_ = true;
  }
  options_.on_measured();
}

v1::PeriodTimes ScheduleFollower::times() const {
  v1::PeriodTimes times;
  MutexLock lock(&mu_);
  if (current_ < 0) return times;
  times.set_first_step(current_);
  times.set_steps(step_times_.size());
  times.set_median_step_seconds(absl::ToDoubleSeconds(MedianTime(step_times_)));
  return times;
}

}  // namespace capstan
