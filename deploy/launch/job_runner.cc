#include "deploy/launch/job_runner.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

// For a job that has lost a server, and has no copies.
std::string AdviceOnReplicas(const v1::JobView& view) {
  return absl::StrCat("; with ", view.servers_size() > 1 ? "" : "two servers and ",
                      "--replicas=2 the job would have gone on");
}

}  // namespace

absl::Status JobRunner::Run() {
  start_ = options_.clock->Now();
  absl::Status result = Live();
  if (result.ok()) {
    WaitForTheEnd(options_.end_timeout, /*waits_for_programs=*/true);
    result = late_end_;
  } else if (!life_.address.empty()) {
    // The coordinator tells the members why they end.
    options_.job->SignalCoordinator(SIGTERM);
    WaitForTheEnd(options_.failure_timeout, /*waits_for_programs=*/false);
  }
  options_.job->KillAll();
  options_.display->Finish();
  return result;
}

absl::Status JobRunner::Live() {
  absl::Status result = Watch(/*restore=*/"");
  while (StartsAgain() && !result.ok() && !absl::IsCancelled(result)) {
    // Processes of this life could still write a checkpoint.
    options_.job->Reset();
    life_ = Life();
    ASSIGN_OR_RETURN(const RestartPlan::Restart restart,
                     options_.restarts->AfterFailure(result, has_trained_));
    options_.display->Notice(absl::StrCat(result.message(), "; ", restart.text));
    result = Watch(restart.checkpoint);
  }
  return result;
}

absl::Status JobRunner::Watch(const std::string& restore) {
  life_.start = options_.clock->Now();
  RETURN_IF_ERROR(options_.job->StartCoordinator(restore));
  while (true) {
    if (options_.take_interrupt()) return absl::CancelledError("interrupted");
    ASSIGN_OR_RETURN(const bool is_done, LookAtProcesses());
    if (is_done) return absl::OkStatus();
    RETURN_IF_ERROR(JudgeStatus());
    replacement_.EndSilentMembers(life_.status.view(), options_.clock->Now());
    RETURN_IF_ERROR(CheckDeadline());
    RETURN_IF_ERROR(Advance());
    Pause();
  }
}

absl::Status JobRunner::Advance() {
  if (life_.address.empty() || life_.is_coordinator_away) return FindCoordinator();
  const bool has_started_all = options_.job->HasStartedAllMembers();
  const bool may_start = !has_started_all && life_.status.view().phase() != v1::FAILED;
  if (may_start && HaveRegistered()) return options_.job->StartNextMember(life_.address);
  if (!has_started_all || options_.clock->Now() >= life_.next_status) UpdateStatus();
  return absl::OkStatus();
}

absl::Status JobRunner::FindCoordinator() {
  if (const std::optional<std::string> address = options_.job->CoordinatorAddress()) {
    life_.address = *address;
    life_.is_coordinator_away = false;
    return absl::OkStatus();
  }
  if (options_.clock->Now() < life_.start + options_.start_timeout) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "the coordinator has not begun to listen for ", absl::FormatDuration(options_.start_timeout),
      ": it was stopped, or a disk that it reads or writes does not answer; see its "
      "log, and start the job again"));
}

bool JobRunner::HaveRegistered() const {
  const v1::JobView& view = life_.status.view();
  if (view.servers_size() < options_.job->servers_started()) return false;
  return options_.job->runs_programs() || view.workers_size() >= options_.job->workers_started();
}

absl::StatusOr<bool> JobRunner::LookAtProcesses() {
  bool is_done = false;
  for (LocalJob::Ended& process : options_.job->TakeEnded()) {
    if (process.role != LocalJob::Role::kCoordinator) {
      life_.unjudged.push_back(std::move(process));
    } else if (process.exit.ok() || HasSummaryOfTheEnd()) {
      is_done = true;
    } else {
      RETURN_IF_ERROR(JudgeCoordinator(process));
    }
  }
  if (is_done) {
    for (const LocalJob::Ended& member : std::exchange(life_.unjudged, {})) JudgeLateEnd(member);
    return true;
  }
  if (life_.unjudged.empty() || life_.is_coordinator_away) return false;
  if (!UpdateStatus()) {
    // The coordinator is probably ending, too. Its own error says more.
    StartEndTimeout();
    return false;
  }
  for (const LocalJob::Ended& member : std::exchange(life_.unjudged, {})) {
    RETURN_IF_ERROR(JudgeMember(member));
  }
  return false;
}

bool JobRunner::HasSummaryOfTheEnd() const {
  return life_.status.view().phase() == v1::DONE && options_.job->HasSummary();
}

absl::Status JobRunner::JudgeCoordinator(const LocalJob::Ended& coordinator) {
  const absl::Status failure = CoordinatorFailure(coordinator);
  const bool has_failed = life_.status.view().phase() == v1::FAILED;
  const bool is_kept = options_.restarts != nullptr && options_.job->keeps_state() && !has_failed;
  // With an exit code, it says itself why nobody can go on.
  if (coordinator.exit.signal == 0 || !is_kept) return failure;
  const std::string refusal = options_.restarts->AfterLostCoordinator(life_.status);
  if (!refusal.empty()) {
    return absl::AbortedError(
        absl::StrCat(failure.message(), ", and no other one is started: ", refusal));
  }
  options_.display->Notice(
      absl::StrCat(coordinator.ToString(), "; another one goes on with the job"));
  life_.start = options_.clock->Now();
  life_.has_lost_coordinator = true;
  life_.is_coordinator_away = true;
  life_.deadline.reset();
  return options_.job->Replace(coordinator, life_.address);
}

absl::Status JobRunner::CoordinatorFailure(const LocalJob::Ended& coordinator) const {
  std::string text = coordinator.ToString();
  // Programs join in the order of their ranks, so this one is missing.
  const int first_missing = life_.status.view().workers_size();
  const std::optional<std::string> missing = options_.job->RunningWorker(first_missing);
  if (absl::StrContains(text, "--registration_seconds") && missing.has_value() &&
      options_.job->runs_programs()) {
    absl::StrAppend(&text, "; the program of ", *missing,
                    " runs, but has not joined (capstan_start)");
  }
  return absl::AbortedError(text);
}

absl::Status JobRunner::JudgeMember(const LocalJob::Ended& member) {
  switch (life_.status.view().phase()) {
    case v1::TRAINING:
    case v1::EVALUATING:
    case v1::SAVING:
      if (member.role == LocalJob::Role::kServer && MaySurviveServerLoss(life_.status.view())) {
        return JudgeServerLoss(member);
      }
      // Whatever its exit code, a program that ends before the job is lost to it.
      return member.exit.ok() && !member.is_program ? absl::OkStatus() : JudgeLoss(member);
    case v1::DONE:
      JudgeLateEnd(member);
      return absl::OkStatus();
    case v1::FAILED:
      return absl::OkStatus();
    default:
      return JudgeEarlyEnd(member);
  }
}

absl::Status JobRunner::JudgeEarlyEnd(const LocalJob::Ended& member) {
  // The job cannot start without it.
  const std::string end = member.EarlyEndText();
  const absl::Status failure = absl::AbortedError(end);
  ShowLog(member);
  if (!MembersMayCome() || options_.report_early_failure == nullptr) return failure;
  const v1::HeartbeatRequest::Role role = member.role == LocalJob::Role::kServer
                                              ? v1::HeartbeatRequest::SERVER
                                              : v1::HeartbeatRequest::WORKER;
  if (!options_.report_early_failure(role, end).ok()) return failure;
  // The coordinator declares the job failed, also to machines that come late. If the member had
  // registered, that takes its lease.
  options_.display->Notice(end);
  return absl::OkStatus();
}

void JobRunner::JudgeLateEnd(const LocalJob::Ended& member) {
  if (!member.is_program || member.exit.ok()) return;
  if (member.HadLeft(life_.status.view())) {
    options_.display->Notice(
        absl::StrCat(member.ToString(), "; it had left the job before the end"));
    return;
  }
  ShowLog(member);
  late_end_.Update(absl::AbortedError(absl::StrCat("after the job was done, ", member.ToString())));
}

void JobRunner::ShowLog(const LocalJob::Ended& member) {
  for (const std::string& line : member.LogLines()) options_.display->Notice(line);
}

absl::Status JobRunner::JudgeServerLoss(const LocalJob::Ended& server) {
  if (!IsLossKnown(server, life_.status.view())) {
    life_.unjudged.push_back(server);
    return absl::OkStatus();
  }
  return replacement_.FollowServerLoss(server, life_.status, life_.address);
}

absl::Status JobRunner::JudgeLoss(const LocalJob::Ended& member) {
  using Answer = RestartPlan::LossAnswer;
  const bool is_worker = member.role == LocalJob::Role::kWorker;
  const bool can_restart = options_.restarts != nullptr && options_.restarts->replaces_workers();
  ShowLog(member);
  const std::string advice = is_worker ? "" : AdviceOnReplicas(life_.status.view());
  if (!is_worker && StartsAgain()) return absl::AbortedError(member.ToString() + advice);
  // The place of the last worker is held, too.
  const bool is_held = can_restart && is_worker && RestartPlan::AreHeld(life_.status.view());
  const bool is_last = options_.job->has_all_members() && !options_.job->HasRunning(member.role);
  const std::string& refusal = life_.status.view().place_refusal();
  const bool has_open_step = is_worker && life_.status.view().phase() == v1::TRAINING;
  const std::string text = absl::StrCat(
      member.ToString(), can_restart && has_open_step && !refusal.empty()
                             ? absl::StrCat("; no other process could do its step again: ", refusal)
                             : "");
  const absl::Status end = absl::AbortedError(absl::StrCat(text, "; it was the last one", advice));
  if (is_last && !is_held) return end;
  const Answer answer =
      can_restart && is_worker ? options_.restarts->AfterLostWorker(life_.status) : Answer::kGoOn;
  if (is_last && answer == Answer::kGoOn) return end;
  if (answer == Answer::kReplace) {
    return replacement_.ReplaceWorker(member, life_.status.view(), life_.address);
  }
  if (answer == Answer::kRestart && StartsAgain()) return absl::AbortedError(text);
  if (answer == Answer::kRestart && is_held) {
    return options_.restarts->AfterFailure(absl::AbortedError(text), has_trained_).status();
  }
  const bool others_wait = RestartPlan::AreHeld(life_.status.view());
  // At a restart that is not to be, the coordinator fails the job, and tells the other machines
  // why.
  const char* const effect = !is_worker || answer == Answer::kRestart ? ""
                             : others_wait ? "; its place is held (--replace_seconds)"
                                           : "; the others go on";
  options_.display->Notice(absl::StrCat(text, effect));
  return absl::OkStatus();
}

absl::Status JobRunner::JudgeStatus() const {
  const v1::JobView& view = life_.status.view();
  if (!StartsAgain() || view.phase() != v1::FAILED) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("the job failed: ", view.reason()));
}

bool JobRunner::UpdateStatus() {
  absl::StatusOr<v1::GetStatusReply> reply = options_.get_status(life_.address);
  const absl::Time now = options_.clock->Now();
  life_.next_status = now + options_.status_interval;
  if (!reply.ok()) return false;
  life_.status = *std::move(reply);
  options_.display->Show(now - start_, life_.status);
  const v1::Phase phase = life_.status.view().phase();
  has_trained_ = has_trained_ || phase == v1::TRAINING || phase == v1::EVALUATING ||
                 phase == v1::SAVING || phase == v1::DONE;
  if (phase == v1::FAILED) {
    Dismiss();
  } else if (phase == v1::DONE) {
    StartEndTimeout();
  } else {
    life_.deadline.reset();
  }
  return true;
}

void JobRunner::Dismiss() {
  const absl::Time now = options_.clock->Now();
  if (!life_.dismissal.has_value()) {
    life_.dismissal = now;
    if (MembersMayCome()) {
      *life_.dismissal += options_.late_timeout;
      options_.display->Notice(absl::StrCat(
          "the job failed: ", life_.status.view().reason(), "; the coordinator stays for ",
          absl::FormatDuration(options_.late_timeout), " to tell machines that come late"));
    }
    life_.deadline = *life_.dismissal + EndTimeout();
  }
  if (now >= *life_.dismissal) options_.job->SignalCoordinator(SIGTERM);
}

bool JobRunner::MembersMayCome() const {
  const bool have_all_registered = life_.status.view().epoch() > 0;
  return !options_.job->has_all_members() && !have_all_registered;
}

absl::Status JobRunner::CheckDeadline() const {
  if (!life_.deadline.has_value() || options_.clock->Now() < *life_.deadline)
    return absl::OkStatus();
  const v1::Phase phase = life_.status.view().phase();
  const bool has_ended = phase == v1::DONE || phase == v1::FAILED;
  std::string message = absl::StrCat(
      has_ended ? "the coordinator did not end within " : "the coordinator has not answered for ",
      absl::FormatDuration(EndTimeout()),
      has_ended ? " after the end of the job" : " after the end of another process");
  if (!life_.status.view().reason().empty())
    absl::StrAppend(&message, ": ", life_.status.view().reason());
  for (const LocalJob::Ended& member : life_.unjudged)
    absl::StrAppend(&message, "; ", member.ToString());
  return absl::DeadlineExceededError(message);
}

absl::Duration JobRunner::EndTimeout() const {
  return options_.end_timeout + (life_.has_lost_coordinator ? options_.lease : absl::Duration());
}

void JobRunner::StartEndTimeout() {
  if (!life_.deadline.has_value()) life_.deadline = options_.clock->Now() + EndTimeout();
}

void JobRunner::WaitForTheEnd(absl::Duration timeout, bool waits_for_programs) {
  options_.job->KillServersOutside(life_.status.view());
  absl::Time deadline = options_.clock->Now() + timeout;
  bool has_told = false;
  const auto keeps_waiting = [&] {
    const bool is_late = options_.clock->Now() >= deadline;
    if (waits_for_programs && is_late && options_.job->HasRunningProgram() &&
        !std::exchange(has_told, true)) {
      options_.display->Notice(
          "the job is done; waits for the workers' programs to end (Ctrl-C ends them)");
    }
    if (waits_for_programs && options_.job->HasRunningProgram()) return true;
    return options_.job->HasRunning() && options_.clock->Now() < deadline;
  };
  while (keeps_waiting() && !options_.take_interrupt()) {
    Pause();
    for (const LocalJob::Ended& process : options_.job->TakeEnded()) JudgeLateEnd(process);
    const bool has_members = options_.job->HasRunning(LocalJob::Role::kServer) ||
                             options_.job->HasRunning(LocalJob::Role::kWorker);
    if (has_members || !options_.job->has_all_members()) continue;
    deadline = std::min(deadline, options_.clock->Now() + options_.coordinator_timeout);
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
