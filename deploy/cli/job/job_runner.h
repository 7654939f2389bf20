#ifndef DEPLOY_CLI_JOB_JOB_RUNNER_H_
#define DEPLOY_CLI_JOB_JOB_RUNNER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "deploy/cli/job/local_job.h"
#include "deploy/cli/job/progress_display.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Runs a local job from its first process to the end of its last one, and shows its progress.
// Borrows everything. Not thread-safe.
class JobRunner {
 public:
  struct Options {
    // The job to run. Required.
    LocalJob* job = nullptr;
    // Asks the coordinator at this address. Required.
    std::function<absl::StatusOr<v1::GetStatusReply>(const std::string& address)> get_status;
    // True once for each interrupt from the terminal. Required.
    std::function<bool()> take_interrupt;
    // Required.
    ProgressDisplay* display = nullptr;
    // Required.
    Clock* clock = nullptr;
    // Interval of looks at the processes. Until all members have registered, also the interval of
    // questions to the coordinator.
    absl::Duration poll_interval = absl::Milliseconds(20);
    // Interval of questions to the coordinator after that.
    absl::Duration status_interval = absl::Milliseconds(20);
    // After success, the last processes have this long to end. Then they are killed.
    absl::Duration end_timeout = absl::Seconds(10);
    // After a failure or an interrupt, all processes have this long to end. Then they are killed.
    absl::Duration failure_timeout = absl::Seconds(3);
  };

  explicit JobRunner(Options options) : options_(std::move(options)) {}

  // Returns when all processes have ended: OK when the job succeeded, CANCELLED after an interrupt,
  // else the reason of the failure.
  absl::Status Run();

 private:
  absl::Status Watch();
  // True when the coordinator has ended well.
  absl::StatusOr<bool> LookAtProcesses();
  // Does the next of three things: finds the coordinator, starts a member, asks for progress.
  absl::Status Advance();
  // True when the coordinator's last answer has all started members.
  bool HaveRegistered() const;
  absl::Status JudgeMember(const LocalJob::Ended& member);
  // False when the coordinator did not answer.
  bool UpdateStatus();
  absl::Status CheckDeadline() const;
  void StartEndTimeout();
  // Waits until all processes have ended, an interrupt comes, or `timeout` is over.
  void WaitForTheEnd(absl::Duration timeout);
  void Pause();

  const Options options_;
  absl::Time start_;
  std::string address_;  // of the coordinator; empty until it listens
  v1::GetStatusReply status_;
  absl::Time next_status_ = absl::InfinitePast();
  std::vector<LocalJob::Ended> unjudged_;  // ended members, not yet judged by the phase
  std::optional<absl::Time> deadline_;     // for the coordinator's end
};

}  // namespace capstan

#endif  // DEPLOY_CLI_JOB_JOB_RUNNER_H_
