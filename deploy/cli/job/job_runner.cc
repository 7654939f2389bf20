#include "deploy/cli/job/job_runner.h"

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

std::string Describe(const LocalJob::Ended& process) {
  return absl::StrCat(process.name, " ended (", process.exit.ToString(), "): ", process.last_line);
}

}  // namespace

absl::Status JobRunner::Run() {
  start_ = options_.clock->Now();
  const absl::Status result = Watch();
  if (result.ok()) {
    WaitForTheEnd(options_.end_timeout);
  } else if (!address_.empty()) {
    // The coordinator tells the members why they end.
    options_.job->SignalCoordinator(SIGTERM);
    WaitForTheEnd(options_.failure_timeout);
  }
  options_.job->KillAll();
  options_.display->Finish();
  return result;
}

absl::Status JobRunner::Watch() {
  RETURN_IF_ERROR(options_.job->StartCoordinator());
  while (true) {
    if (options_.take_interrupt()) return absl::CancelledError("interrupted");
    ASSIGN_OR_RETURN(const bool is_done, LookAtProcesses());
    if (is_done) return absl::OkStatus();
    RETURN_IF_ERROR(CheckDeadline());
    RETURN_IF_ERROR(Advance());
    Pause();
  }
}

absl::Status JobRunner::Advance() {
  if (address_.empty()) {
    address_ = options_.job->CoordinatorAddress().value_or("");
    return absl::OkStatus();
  }
  const bool has_started_all = options_.job->HasStartedAllMembers();
  if (!has_started_all && HaveRegistered()) return options_.job->StartNextMember(address_);
  if (!has_started_all || options_.clock->Now() >= next_status_) UpdateStatus();
  return absl::OkStatus();
}

bool JobRunner::HaveRegistered() const {
  return status_.view().servers_size() >= options_.job->servers_started() &&
         status_.view().workers_size() >= options_.job->workers_started();
}

absl::StatusOr<bool> JobRunner::LookAtProcesses() {
  for (LocalJob::Ended& process : options_.job->TakeEnded()) {
    if (process.role != LocalJob::Role::kCoordinator) {
      unjudged_.push_back(std::move(process));
    } else if (process.exit.ok()) {
      return true;
    } else {
      return absl::AbortedError(Describe(process));
    }
  }
  if (unjudged_.empty()) return false;
  if (!UpdateStatus()) {
    // The coordinator is probably ending, too. Its own error says more.
    StartEndTimeout();
    return false;
  }
  for (const LocalJob::Ended& member : std::exchange(unjudged_, {})) {
    RETURN_IF_ERROR(JudgeMember(member));
  }
  return false;
}

absl::Status JobRunner::JudgeMember(const LocalJob::Ended& member) {
  switch (status_.view().phase()) {
    case v1::TRAINING:
    case v1::EVALUATING:
    case v1::SAVING:
      if (member.exit.ok()) return absl::OkStatus();
      if (!options_.job->HasRunning(member.role)) {
        return absl::AbortedError(absl::StrCat(Describe(member), "; it was the last one"));
      }
      options_.display->Notice(absl::StrCat(
          Describe(member), member.role == LocalJob::Role::kWorker ? "; the others go on" : ""));
      return absl::OkStatus();
    case v1::DONE:
    case v1::FAILED:
      return absl::OkStatus();
    default:
      // The job cannot start without it.
      return absl::AbortedError(Describe(member));
  }
}

bool JobRunner::UpdateStatus() {
  absl::StatusOr<v1::GetStatusReply> reply = options_.get_status(address_);
  const absl::Time now = options_.clock->Now();
  next_status_ = now + options_.status_interval;
  if (!reply.ok()) return false;
  status_ = *std::move(reply);
  options_.display->Show(now - start_, status_);
  const v1::Phase phase = status_.view().phase();
  if (phase == v1::DONE || phase == v1::FAILED) StartEndTimeout();
  // No further member will ask it for the reason.
  if (phase == v1::FAILED) options_.job->SignalCoordinator(SIGTERM);
  return true;
}

absl::Status JobRunner::CheckDeadline() const {
  if (!deadline_.has_value() || options_.clock->Now() < *deadline_) return absl::OkStatus();
  std::string message =
      absl::StrCat("the coordinator did not end within ",
                   absl::FormatDuration(options_.end_timeout), " after the end of the job");
  if (!status_.view().reason().empty()) absl::StrAppend(&message, ": ", status_.view().reason());
  for (const LocalJob::Ended& member : unjudged_) absl::StrAppend(&message, "; ", Describe(member));
  return absl::DeadlineExceededError(message);
}

void JobRunner::StartEndTimeout() {
  if (!deadline_.has_value()) deadline_ = options_.clock->Now() + options_.end_timeout;
}

void JobRunner::WaitForTheEnd(absl::Duration timeout) {
  const absl::Time deadline = options_.clock->Now() + timeout;
  while (options_.job->HasRunning() && options_.clock->Now() < deadline &&
         !options_.take_interrupt()) {
    Pause();
    options_.job->TakeEnded();
  }
}

void JobRunner::Pause() {
  const absl::Time until = options_.clock->Now() + options_.poll_interval;
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  while (options_.clock->WaitUntil(mutex, never, until)) {
  }
}

}  // namespace capstan
