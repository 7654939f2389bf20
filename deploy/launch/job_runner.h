#ifndef DEPLOY_LAUNCH_JOB_RUNNER_H_
#define DEPLOY_LAUNCH_JOB_RUNNER_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "deploy/launch/local_job.h"
#include "deploy/launch/member_replacement.h"
#include "deploy/launch/progress_display.h"
#include "deploy/launch/restart_plan.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Runs a job whose coordinator is on this machine, from its first process to the end of its last
// one here, and shows its progress. With a RestartPlan, a job that fails starts again. Borrows
// everything. Not thread-safe.
class JobRunner {
 public:
  struct Options {
    // The job to run. Required.
    LocalJob* job = nullptr;
    // Asks the coordinator at this address. Required.
    std::function<absl::StatusOr<v1::GetStatusReply>(const std::string& address)> get_status;
    // Tells the coordinator that a member has ended before it registered. Null: nobody else has to
    // know, as all members are here.
    std::function<absl::Status(v1::HeartbeatRequest::Role role, const std::string& reason)>
        report_early_failure;
    // True once for each interrupt from the terminal. Required.
    std::function<bool()> take_interrupt;
    // What follows a failure, and who replaces a lost process. Null: the first failure is the end.
    RestartPlan* restarts = nullptr;
    // Required.
    ProgressDisplay* display = nullptr;
    // Required.
    Clock* clock = nullptr;
    // Interval of looks at the processes. Until all members have registered, also the interval of
    // questions to the coordinator.
    absl::Duration poll_interval = absl::Milliseconds(20);
    // Interval of questions to the coordinator after that.
    absl::Duration status_interval = absl::Milliseconds(20);
    // The coordinator has this long to listen.
    absl::Duration start_timeout = absl::Minutes(1);
    // After success, the last processes have this long to end. Then they are killed. But programs
    // of the user's may take as long as they like.
    absl::Duration end_timeout = absl::Seconds(10);
    // The job's lease. A coordinator that goes on for a lost one has this long in addition: it does
    // not know who has heard of the end.
    absl::Duration lease = absl::Seconds(10);
    // After a failure or an interrupt, all processes have this long to end. Then they are killed.
    absl::Duration failure_timeout = absl::Seconds(3);
    // Then the coordinator alone has this long. It waits for members that have ended before it
    // knows.
    absl::Duration coordinator_timeout = absl::Milliseconds(300);
    // A server that is lost to the job has this long to end by itself. Then it is killed.
    absl::Duration server_patience = absl::Seconds(3);
    // After a failure before all members have registered, the coordinator answers for this long:
    // other machines that come late learn the reason.
    absl::Duration late_timeout = absl::Seconds(5);
  };

  explicit JobRunner(Options options)
      : options_(std::move(options)),
        replacement_(options_.job, options_.restarts, options_.display, options_.server_patience) {}

  // Returns when all processes have ended: OK when the job succeeded, CANCELLED after an interrupt,
  // else the reason of the failure.
  absl::Status Run();

 private:
  // From the start of the job's processes to its end, or to its failure.
  struct Life {
    absl::Time start;     // of the coordinator
    std::string address;  // of the coordinator; empty until it listens
    bool has_lost_coordinator = false;
    bool is_coordinator_away = false;  // the next one does not listen so far
    v1::GetStatusReply status;
    absl::Time next_status = absl::InfinitePast();
    std::vector<LocalJob::Ended> unjudged;  // ended members, not yet judged by the phase
    std::optional<absl::Time> dismissal;    // when a coordinator that has failed is to end
    std::optional<absl::Time> deadline;     // for the coordinator's end
  };

  // Lives until the job ends, or until there is no restart.
  absl::Status Live();
  // One life, from the checkpoint in the folder `restore`. Empty: from the job's own.
  absl::Status Watch(const std::string& restore);
  // True when the coordinator has ended well.
  absl::StatusOr<bool> LookAtProcesses();
  // Does the next of three things: finds the coordinator, starts a member, asks for progress.
  absl::Status Advance();
  // An error when it takes too long.
  absl::Status FindCoordinator();
  // True when the coordinator's last answer has all started members.
  bool HaveRegistered() const;
  // True if the job is done and a lost coordinator had nothing left to do.
  bool HasSummaryOfTheEnd() const;
  // For a coordinator that has not ended well: if it was lost, another one goes on with the job.
  absl::Status JudgeCoordinator(const LocalJob::Ended& coordinator);
  // What the coordinator's failure says, with the program for which the job has waited in vain.
  absl::Status CoordinatorFailure(const LocalJob::Ended& coordinator) const;
  absl::Status JudgeMember(const LocalJob::Ended& member);
  // The same after the job is done. The other programs go on, but the run has failed.
  void JudgeLateEnd(const LocalJob::Ended& member);
  void ShowLog(const LocalJob::Ended& member);
  // The same before the job has all members.
  absl::Status JudgeEarlyEnd(const LocalJob::Ended& member);
  // The same while the job needs this member.
  absl::Status JudgeLoss(const LocalJob::Ended& member);
  // The same for a server of a job with copies. Waits until the coordinator knows of the loss.
  absl::Status JudgeServerLoss(const LocalJob::Ended& server);
  // In a job that starts again: an error when the coordinator has declared it failed.
  absl::Status JudgeStatus() const;
  bool StartsAgain() const {
    return options_.restarts != nullptr && options_.restarts->starts_again();
  }
  // False when the coordinator did not answer.
  bool UpdateStatus();
  // Ends a coordinator that has declared the job failed, once nobody is to ask it for the reason.
  void Dismiss();
  // True if other machines have members that have not registered.
  bool MembersMayCome() const;
  absl::Status CheckDeadline() const;
  absl::Duration EndTimeout() const;
  void StartEndTimeout();
  // Waits until all processes have ended, an interrupt comes, or `timeout` is over and, if that is
  // asked for, all programs of the user's have ended.
  void WaitForTheEnd(absl::Duration timeout, bool waits_for_programs);
  void Pause();

  const Options options_;
  MemberReplacement replacement_;
  absl::Time start_;  // of the first life
  Life life_;
  bool has_trained_ = false;  // in some life
  absl::Status late_end_;     // of a program that has failed after the job was done
};

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_JOB_RUNNER_H_
