#include "server/coordinator/plans/schedule_plan.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/field_text.h"
#include "common/job/job_properties.h"
#include "common/scheduler/measured_period.h"

namespace capstan {
namespace {

void Write(const SchedulePoint& point, double step_seconds, v1::TuningReport::Point& written) {
  written.set_partition_bytes(point.partition_bytes);
  written.set_credit_bytes(point.credit_bytes);
  written.set_step_seconds(step_seconds);
}

}  // namespace

int64_t FirstStepAfterNews(int64_t steps_done, double step_seconds) {
  constexpr double kNewsSeconds = 0.05;
  constexpr double kMostSteps = 20;
  return steps_done + 1 +
         static_cast<int64_t>(std::min(kMostSteps, std::ceil(kNewsSeconds / step_seconds)));
}

SchedulePlan::SchedulePlan(const v1::JobSpec& job, const v1::CheckpointManifest& restored)
    : is_tuned_(job.scheduler().tune()),
      first_step_(restored.step()),
      restored_(job.scheduler().tune() ? restored.tuning() : v1::TuningReport()) {}

void SchedulePlan::OnPlacement(const JobFacts& facts) {
  if (!is_tuned_) return;
  if (restored_.has_chosen()) {
    period_.set_first_step(first_step_);
    period_.set_partition_bytes(restored_.chosen().partition_bytes());
    period_.set_credit_bytes(restored_.chosen().credit_bytes());
    return;
  }
  const v1::SchedulerSpec& scheduler = facts.view.scheduler();
  SearchSpace space;
  space.slice_bytes = SliceBytes(scheduler);
  space.own = {std::max(scheduler.partition_bytes(), space.slice_bytes), scheduler.credit_bytes()};
  for (const uint64_t elements : facts.tables.elements()) {
    const uint64_t bytes = elements * sizeof(float);
    space.largest_tensor_bytes = std::max(space.largest_tensor_bytes, bytes);
    space.model_bytes += bytes;
  }
  tuner_.emplace(space);
  BeginPeriod(first_step_);
}

void SchedulePlan::BeginPeriod(int64_t first_step) {
  period_.set_first_step(first_step);
  period_.set_partition_bytes(tuner_->current().partition_bytes);
  period_.set_credit_bytes(tuner_->current().credit_bytes);
}

bool SchedulePlan::Settle(const JobFacts& facts, JobEvents& events) {
  if (facts.view.phase() != v1::TRAINING) return false;
  const std::vector<const Member*> computing = facts.members.Computing();
  if (!tuner_.has_value() || tuner_->has_ended() || computing.empty()) return false;
  double slowest_seconds = 0;
  int64_t least_steps = INT64_MAX;
  for (const Member* worker : computing) {
    const v1::PeriodTimes& times = worker->progress.period();
    if (times.first_step() != period_.first_step() || !IsMeasured(times)) return false;
    slowest_seconds = std::max(slowest_seconds, times.median_step_seconds());
    least_steps = std::min(least_steps, worker->progress.steps_done());
  }
  if (!(slowest_seconds > 0)) return false;  // A clock that stands still tells nothing.
  const bool is_void = std::exchange(is_void_, false);
  if (!is_void) tuner_->Record(slowest_seconds);
  BeginPeriod(FirstStepAfterNews(std::max(period_.first_step() - 1, least_steps), slowest_seconds));
  events.emplace_back(absl::StrCat(LatestText(), is_void ? " again, as a server was lost" : ""));
  return true;
}

std::string SchedulePlan::LatestText() const {
  return absl::StrCat("from step ", period_.first_step(), " on: partition ",
                      FormatSize(period_.partition_bytes()), ", credit ",
                      FormatSize(period_.credit_bytes()), ": ",
                      has_ended() ? Tuning().reason() : "to be measured");
}

void SchedulePlan::WriteToView(v1::JobView& view) const {
  if (period_.credit_bytes() > 0) *view.mutable_schedule() = period_;
}

void SchedulePlan::WriteToStatus(v1::GetStatusReply& status) const {
  if (is_tuned_) *status.mutable_tuning() = Tuning();
}

void SchedulePlan::WriteToManifest(v1::CheckpointManifest& manifest) const {
  if (has_ended()) *manifest.mutable_tuning() = Tuning();
}

void SchedulePlan::WriteToState(v1::CoordinatorState& state) const {
  if (is_tuned_) *state.mutable_tuning() = Tuning();
}

void SchedulePlan::Restore(const v1::CoordinatorState& state, const JobFacts& facts) {
  if (!facts.is_placed()) return;
  OnPlacement(facts);
  if (!tuner_.has_value()) return;
  const auto& tried = state.tuning().tried();
  if (!tried.empty()) tuner_->Record(tried[0].step_seconds());  // the warm-up, which is not kept
  for (const v1::TuningReport::Point& point : tried) tuner_->Record(point.step_seconds());
  period_ = state.view().schedule();
  is_void_ = true;
}

v1::TuningReport SchedulePlan::Tuning() const {
  if (restored_.has_chosen()) return restored_;
  v1::TuningReport report;
  if (!tuner_.has_value()) return report;
  for (const Tuner::Measurement& measurement : tuner_->measurements()) {
    Write(measurement.point, measurement.step_seconds, *report.add_tried());
  }
  if (!tuner_->has_ended()) return report;
  Write(tuner_->current(), tuner_->chosen_seconds(), *report.mutable_chosen());
  std::string& reason = *report.mutable_reason();
  reason = tuner_->reason();
  if (report.tried().empty()) return report;
  const v1::TuningReport::Point& own = report.tried(0);
  absl::StrAppend(&reason, " (the job's own: partition ", FormatSize(own.partition_bytes()),
                  ", credit ", FormatSize(own.credit_bytes()), ", ",
                  absl::StrFormat("%.1f ms; ", 1000 * tuner_->own_seconds()),
                  tuner_->points_tried(), " points in ", period_.first_step(), " steps)");
  return report;
}

}  // namespace capstan
