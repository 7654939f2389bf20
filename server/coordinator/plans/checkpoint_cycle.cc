#include "server/coordinator/plans/checkpoint_cycle.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"

namespace capstan {
namespace {

// After a failure, the next attempt waits; longer after each one.
constexpr absl::Duration kFirstRetry = absl::Seconds(1);
constexpr absl::Duration kLastRetry = absl::Minutes(1);

int64_t NextMultiple(int64_t step, int64_t of) { return (step / of + 1) * of; }

absl::Status CheckSteps(uint32_t server, const v1::CheckpointPart& part) {
  const auto is_step = [](int64_t step) { return 0 <= step && step <= kLargestStep.value(); };
  bool is_valid = is_step(part.held_step()) && is_step(part.end_step());
  for (const v1::WorkerSteps& worker : part.workers()) {
    is_valid = is_valid && is_step(worker.least()) && is_step(worker.most());
  }
  if (is_valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "checkpoint of server-", server, ": expected steps from 0 to ", kLargestStep.value()));
}

}  // namespace

CheckpointCycle::CheckpointCycle(const v1::CheckpointSpec& spec, int64_t restored_step)
    : spec_(spec), newest_step_(restored_step) {
  status_.set_dir(spec.dir());
}

void CheckpointCycle::WriteTo(v1::CoordinatorState& state) const {
  state.set_checkpoint_number(number_);
  *state.mutable_checkpoint() = status_;
}

void CheckpointCycle::Restore(const v1::CoordinatorState& state) {
  number_ = state.checkpoint_number();
  status_ = state.checkpoint();
  newest_step_ = std::max(newest_step_, status_.step());
}

absl::StatusOr<uint64_t> CheckpointCycle::Request() {
  if (spec_.dir().empty()) {
    return absl::FailedPreconditionError(
        "the job has no folder for checkpoints; start it with --checkpoint_dir=DIR");
  }
  if (requested_ > number_) return requested_;  // It has not begun.
  // The step may be far ahead. The request goes before it.
  if (state_ == State::kWriting && is_ahead_ && parts_.empty()) AgreeAgain();
  if (!HasNoStep()) return requested_ = number_ + 1;
  is_requested_ = true;
  return number_;
}

void CheckpointCycle::AgreeAgain() {
  state_ = State::kCreated;
  ++number_;
  is_requested_ = is_requested_ || requested_ == number_;
}

bool CheckpointCycle::LeaveStepBeyondEnd(const Training& training) {
  if (state_ != State::kWriting || step_ <= training.steps_total) return false;
  AgreeAgain();
  return true;
}

bool CheckpointCycle::HasNoStep() const {
  return state_ == State::kCreating || state_ == State::kCreated || state_ == State::kAgreeing;
}

bool CheckpointCycle::Begin(const Training& training) {
  // In a job that stays, the training begins again.
  if (!training.has_ended) is_last_begun_ = false;
  if (state_ != State::kIdle) return false;
  if (next_time_ == absl::InfinitePast()) {
    next_time_ = training.now + absl::Seconds(spec_.seconds());
  }
  if (!IsDue(training)) return false;
  is_last_begun_ = is_last_begun_ || training.has_ended;
  is_requested_ = requested_ == ++number_;
  state_ = State::kCreating;
  work_ = [](CheckpointStorage& storage) { return storage.Create(); };
  return true;
}

bool CheckpointCycle::IsDue(const Training& training) const {
  // Nobody gets to a step beyond the last one.
  if (training.steps_total == 0) return false;
  if (requested_ > number_ || IsLastDue(training)) return true;
  if (!is_periodic() || training.has_ended) return false;
  if (newest_step_ >= training.steps_total) return false;
  if (retry_ > absl::ZeroDuration() || spec_.steps() == 0) return training.now >= next_time_;
  // Under BSP, the servers learn the step before any worker gets there.
  const auto steps = static_cast<int64_t>(spec_.steps());
  return training.is_bsp || training.steps_done >= NextMultiple(newest_step_, steps);
}

bool CheckpointCycle::IsLastDue(const Training& training) const {
  return is_periodic() && training.has_ended && !is_last_begun_ &&
         newest_step_ < training.steps_total;
}

bool CheckpointCycle::IsBusy(const Training& training) const {
  return state_ != State::kIdle || requested_ > number_ || IsLastDue(training);
}

bool CheckpointCycle::BeginAgreeing() {
  if (state_ != State::kCreated) return false;
  state_ = State::kAgreeing;
  held_from_.clear();
  parts_.clear();
  return true;
}

absl::Status CheckpointCycle::Report(uint32_t server, const v1::CheckpointPart& part) {
  if (part.number() != number_) return absl::OkStatus();
  if (absl::Status valid = CheckSteps(server, part); !valid.ok()) return valid;
  if (state_ == State::kAgreeing) held_from_[server] = Step(part.held_step());
  if (state_ == State::kWriting && part.has_ended()) parts_[server] = part;
  return absl::OkStatus();
}

void CheckpointCycle::NoteLostServer(uint32_t server, bool moves_shards) {
  held_from_.clear();
  parts_.clear();
  if (state_ != State::kWriting || !moves_shards) return;
  is_last_begun_ = false;
  // Who has asked for it gets the next one.
  if (std::exchange(is_requested_, false)) requested_ = number_ + 1;
  Discard(
      absl::UnavailableError(absl::StrCat("server ", server, " was lost while it was written")));
}

bool CheckpointCycle::ChooseStep(size_t num_servers, const Training& training) {
  if (state_ != State::kAgreeing || held_from_.size() < num_servers) return false;
  Step step;
  for (const auto& [server, held_from] : held_from_) step = std::max(step, held_from);
  step_ = step.value();
  const auto steps = static_cast<int64_t>(spec_.steps());
  if (steps > 0 && training.is_bsp && !is_requested_) {
    step_ = NextMultiple(std::max(step_ - 1, newest_step_), steps);
  }
  is_ahead_ = step_ > step.value();
  // Nobody gets beyond the last step.
  step_ = std::min(step_, training.steps_total);
  state_ = State::kWriting;
  return true;
}

const std::map<uint32_t, v1::CheckpointPart>* CheckpointCycle::EndedParts(
    size_t num_servers) const {
  return state_ == State::kWriting && parts_.size() >= num_servers ? &parts_ : nullptr;
}

void CheckpointCycle::Publish(v1::CheckpointManifest manifest) {
  step_ = manifest.step();
  state_ = State::kPublishing;
  work_ = [manifest = std::move(manifest), name = name_,
           keep = spec_.keep()](CheckpointStorage& storage) -> absl::StatusOr<std::string> {
    if (absl::Status status = storage.Publish(name, manifest); !status.ok()) {
      storage.Discard(name);
      return status;
    }
    return std::string(storage.RemoveOld(keep).message());
  };
}

void CheckpointCycle::Discard(const absl::Status& status) {
  state_ = State::kDiscarding;
  work_ = [status, name = name_](CheckpointStorage& storage) -> absl::StatusOr<std::string> {
    storage.Discard(name);
    return status;
  };
}

void CheckpointCycle::EndWork(const absl::StatusOr<std::string>& result, absl::Time now) {
  if (!result.ok()) return Fail(result.status(), now);
  if (state_ == State::kCreating) {
    name_ = *result;
    state_ = State::kCreated;
    return;
  }
  state_ = State::kIdle;
  newest_step_ = step_;
  retry_ = absl::ZeroDuration();
  next_time_ = now + absl::Seconds(spec_.seconds());
  status_.set_newest(absl::StrCat(spec_.dir(), "/", name_));
  status_.set_step(step_);
  status_.clear_error();
  v1::CheckpointReply reply;
  reply.set_path(status_.newest());
  reply.set_step(step_);
  if (is_requested_) replies_.insert_or_assign(number_, std::move(reply));
}

void CheckpointCycle::Fail(const absl::Status& status, absl::Time now) {
  state_ = State::kIdle;
  retry_ = std::clamp(2 * retry_, kFirstRetry, kLastRetry);
  next_time_ = now + retry_;
  status_.set_error(CutText(PrintableText(status.message())));
  // Not the server's or the disk's code: the coordinator itself can be reached.
  if (is_requested_) replies_.insert_or_assign(number_, absl::AbortedError(status.message()));
}

std::optional<absl::StatusOr<v1::CheckpointReply>> CheckpointCycle::Reply(uint64_t number) const {
  const auto found = replies_.lower_bound(number);
  if (found == replies_.end()) return std::nullopt;
  return found->second;
}

void CheckpointCycle::WriteTo(v1::JobView& view) const {
  view.clear_checkpoint();
  if (state_ != State::kAgreeing && state_ != State::kWriting) return;
  v1::CheckpointOrder& order = *view.mutable_checkpoint();
  order.set_number(number_);
  if (state_ == State::kAgreeing) return;
  order.set_name(name_);
  order.set_step(step_);
}

void CheckpointCycle::WriteTo(v1::CheckpointStatus& status) const { status.MergeFrom(status_); }

}  // namespace capstan
