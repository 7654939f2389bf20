#include "server/coordinator/members/training_progress.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/members/member_key.h"

namespace capstan {

TrainingProgress::TrainingProgress(const v1::JobSpec& job, const RestorePoint& restored)
    : job_(job), restored_(restored), time_(absl::Seconds(restored.manifest.training_seconds())) {}

void TrainingProgress::Restore(const v1::CoordinatorState& state, absl::Time now) {
  is_restored_ = true;
  time_ = absl::Seconds(state.training_seconds());
  steps_total_ = state.view().steps_total();
  steps_announced_ = state.steps_announced();
  if (state.view().phase() == v1::TRAINING) began_ = now;
}

void TrainingProgress::NoteTimeOfWorker(absl::Duration time, absl::Time now) {
  if (!is_restored_ || !began_.has_value()) return;
  time += absl::Seconds(restored_.manifest.training_seconds());
  if (time > TimeUntil(now)) time_ += time - TimeUntil(now);
}

void TrainingProgress::Begin(absl::Time now) { began_ = now; }

void TrainingProgress::End(absl::Time now) {
  time_ = TimeUntil(now);
  began_.reset();
}

absl::Duration TrainingProgress::TimeUntil(absl::Time now) const {
  return began_.has_value() ? time_ + (now - *began_) : time_;
}

absl::Status TrainingProgress::ReportSteps(uint32_t worker, int64_t steps) {
  if (steps == 0) return absl::OkStatus();
  if (steps_total_ == 0) steps_total_ = steps;
  if (!job_.stay() && steps < restored_.manifest.end_step()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--steps or --epochs: expected at least the ", restored_.manifest.end_step(),
                     " steps that are in ", restored_.path, ", got ", steps));
  }
  const int64_t others = steps_announced_ > 0 ? steps_announced_ : steps_total_;
  const bool has_same_rounds = job_.stay() && others > 0 && steps % others == 0;
  if (steps == others || steps == steps_total_ || has_same_rounds) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      MemberName({v1::HeartbeatRequest::WORKER, worker}), " has ", steps,
      " steps to do, the others ", others, ": expected the same data on every worker"));
}

absl::Status TrainingProgress::ReportEarlyEnd(uint32_t worker, int64_t steps) {
  const bool is_first = steps_announced_ == 0 && !job_.stay();
  if (is_first && 0 < steps && steps < steps_total_) {
    steps_announced_ = std::exchange(steps_total_, steps);
  }
  if (steps_announced_ > 0 && steps == steps_total_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(MemberName({v1::HeartbeatRequest::WORKER, worker}), " has ended after ", steps,
                   " steps, the others have ", steps_total_, ": expected the same of all workers"));
}

}  // namespace capstan
