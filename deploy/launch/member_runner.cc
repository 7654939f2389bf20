#include "deploy/launch/member_runner.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

bool IsAtEnd(const v1::JobView& view) {
  return view.phase() == v1::DONE || view.phase() == v1::FAILED;
}

bool HasBegun(const v1::JobView& view) {
  return IsAtEnd(view) || view.phase() == v1::TRAINING || view.phase() == v1::EVALUATING ||
         view.phase() == v1::SAVING;
}

}  // namespace

absl::Status MemberRunner::Run() {
  start_ = options_.clock->Now();
  absl::Status result = StartMembers();
  if (result.ok()) result = Watch();
  options_.job->KillAll();
  options_.display->Finish();
  return result;
}

absl::Status MemberRunner::StartMembers() {
  while (!options_.job->HasStartedAllMembers()) {
    RETURN_IF_ERROR(options_.job->StartNextMember(options_.coordinator));
  }
  return absl::OkStatus();
}

absl::Status MemberRunner::Watch() {
  while (true) {
    if (options_.take_interrupt()) return absl::CancelledError("interrupted");
    RETURN_IF_ERROR(Look());
    if (std::optional<absl::Status> result = Result(); result.has_value()) return *result;
    SleepUntil(*options_.clock, options_.clock->Now() + options_.poll_interval);
  }
}

void MemberRunner::UpdateStatus() {
  if (IsAtEnd(status_.view())) return;
  absl::StatusOr<v1::GetStatusReply> reply = options_.get_status();
  answers_ = reply.ok();
  if (!answers_) return;
  status_ = *std::move(reply);
  options_.display->Show(options_.clock->Now() - start_, status_);
  if (!IsAtEnd(status_.view())) return;
  deadline_ = options_.clock->Now() + options_.end_timeout;
  options_.job->KillServersOutside(status_.view());
}

absl::Status MemberRunner::Look() {
  const std::vector<LocalJob::Ended> ended = options_.job->TakeEnded();
  const absl::Time now = options_.clock->Now();
  // At the end, the coordinator knows more than the processes.
  if (!ended.empty() || !options_.job->HasRunning() || now >= next_status_) {
    next_status_ = now + options_.status_interval;
    UpdateStatus();
  }
  std::vector<LocalJob::Ended> waiting = std::exchange(unjudged_, {});
  waiting.insert(waiting.end(), ended.begin(), ended.end());
  for (const LocalJob::Ended& member : waiting) RETURN_IF_ERROR(Judge(member));
  replacement_.EndSilentMembers(status_.view(), now);
  return absl::OkStatus();
}

absl::Status MemberRunner::Judge(const LocalJob::Ended& member) {
  // Whether another one takes its place depends on the job.
  const bool is_survivable = IsSurvivable(member);
  const bool may_be_replaced =
      is_survivable || (options_.restarts != nullptr && options_.restarts->replaces_workers() &&
                        member.role == LocalJob::Role::kWorker);
  const bool is_known = !is_survivable || IsLossKnown(member, status_.view());
  if (may_be_replaced && (!answers_ || !is_known) && !IsAtEnd(status_.view())) {
    unjudged_.push_back(member);
    return absl::OkStatus();
  }
  if (is_survivable) {
    return replacement_.FollowServerLoss(member, status_, options_.coordinator);
  }
  // Whatever its exit code, a program that ends before the job is lost to it.
  const bool is_lost_program = member.is_program && answers_ && !IsAtEnd(status_.view());
  if (!member.exit.ok() || is_lost_program) return JudgeLoss(member);
  has_good_end_ = true;
  return absl::OkStatus();
}

bool MemberRunner::IsSurvivable(const LocalJob::Ended& member) const {
  // A good end is that of the job.
  return member.role == LocalJob::Role::kServer && !member.exit.ok() &&
         MaySurviveServerLoss(status_.view());
}

absl::Status MemberRunner::JudgeLoss(const LocalJob::Ended& member) {
  using Answer = RestartPlan::LossAnswer;
  const bool may_be_replaced =
      options_.restarts != nullptr && options_.restarts->replaces_workers() && answers_ &&
      member.role == LocalJob::Role::kWorker && status_.view().phase() == v1::TRAINING;
  const Answer answer =
      may_be_replaced ? options_.restarts->AfterLostWorker(status_) : Answer::kGoOn;
  if (answer == Answer::kReplace) {
    for (const std::string& line : member.LogLines()) options_.display->Notice(line);
    return replacement_.ReplaceWorker(member, status_.view(), options_.coordinator);
  }
  if (answer == Answer::kRestart && RestartPlan::AreHeld(status_.view())) {
    const absl::Status end = absl::AbortedError(member.ToString());
    return options_.restarts->AfterFailure(end, /*has_trained=*/true).status();
  }
  const bool is_early = !HasBegun(status_.view());
  const std::string loss = is_early ? member.EarlyEndText() : member.ToString();
  if (first_loss_.empty()) first_loss_ = loss;
  // After the job's failure, every process ends with the same reason.
  if (status_.view().phase() == v1::FAILED) return absl::OkStatus();
  for (const std::string& line : member.LogLines()) options_.display->Notice(line);
  if (status_.view().phase() == v1::DONE) {
    if (member.is_program && !member.HadLeft(status_.view())) {
      late_end_.Update(absl::AbortedError(absl::StrCat("after the job was done, ", loss)));
    }
    return absl::OkStatus();
  }
  options_.display->Notice(loss);
  if (!is_early || !member.is_program) return absl::OkStatus();
  // If the coordinator cannot be told, it finds out when members are missing.
  options_.report_early_failure(v1::HeartbeatRequest::WORKER, loss).IgnoreError();
  return absl::OkStatus();
}

std::optional<absl::Status> MemberRunner::Result() const {
  const v1::JobView& view = status_.view();
  const bool may_go_on = view.phase() == v1::DONE && options_.job->HasRunningProgram();
  const bool is_late = deadline_.has_value() && options_.clock->Now() >= *deadline_;
  if (may_go_on || (options_.job->HasRunning() && !is_late)) return std::nullopt;
  if (view.phase() == v1::FAILED) {
    return absl::AbortedError(absl::StrCat("the job failed: ", view.reason()));
  }
  if (view.phase() == v1::DONE || has_good_end_) return late_end_;
  // The others go on, so the job's end is still to come.
  if (answers_) return std::nullopt;
  if (!first_loss_.empty()) return absl::AbortedError(first_loss_);
  if (!unjudged_.empty()) return absl::AbortedError(unjudged_.front().ToString());
  return absl::UnavailableError(absl::StrCat("the coordinator ", options_.coordinator,
                                             " no longer answers; its machine has the job's end"));
}

absl::StatusOr<v1::GetStatusReply> AwaitCoordinator(
    const std::string& address,
    const std::function<absl::StatusOr<v1::GetStatusReply>()>& get_status,
    const std::function<bool()>& take_interrupt,
    const std::function<void(const std::string&)>& tell, absl::Duration patience, Clock* clock) {
  const absl::Time deadline = clock->Now() + patience;
  for (bool is_first = true;; is_first = false) {
    if (take_interrupt()) return absl::CancelledError("interrupted");
    absl::StatusOr<v1::GetStatusReply> reply = get_status();
    const bool is_absent =
        absl::IsUnavailable(reply.status()) || absl::IsDeadlineExceeded(reply.status());
    if (!is_absent) return reply;
    if (clock->Now() >= deadline) return reply.status();
    if (is_first) tell(absl::StrCat("waiting for the coordinator at ", address));
    SleepUntil(*clock, clock->Now() + absl::Milliseconds(200));
  }
}

}  // namespace capstan
