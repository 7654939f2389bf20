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

// Takes a local job from the start of its first process to the end of its last one, and shows its
// progress. Borrows everything. Not thread-safe.
class JobRunner {
 public:
  struct Options {
    // The job to run. Required.
    LocalJob* job = nullptr;
    // Asks the coordinator at this address. Required.
    std::function<absl::StatusOr<v1::GetStatusReply>(const std::string& address)> get_status;
    // True once for each time that the person at the terminal asked to stop. Required.
    std::function<bool()> take_interrupt;
    // Required.
    ProgressDisplay* display = nullptr;
    // Required.
    Clock* clock = nullptr;
    // Between two looks at the processes, and two questions to the coordinator before all members
    // have registered.
    absl::Duration poll_interval = absl::Milliseconds(20);
    // Between two questions to the coordinator from then on.
    absl::Duration status_interval = absl::Milliseconds(20);
    // For the last processes, after the job has succeeded; then they are killed.
    absl::Duration end_timeout = absl::Seconds(10);
    // For all processes, after the job has failed or was interrupted; then they are killed.
    absl::Duration failure_timeout = absl::Seconds(3);
  };

  explicit JobRunner(Options options) : options_(std::move(options)) {}

  // Returns when all processes have ended: OK when the job succeeded, CANCELLED after an interrupt,
  // else why it failed.
  absl::Status Run();

 private:
  absl::Status Watch();
  // True when the coordinator has ended well.
  absl::StatusOr<bool> LookAtProcesses();
  // Looks for the coordinator's address, starts members, or asks for progress, whichever is next.
  absl::Status Advance();
  // Whether the coordinator knew all members that were started when it was last asked.
  bool HaveRegistered() const;
  absl::Status JudgeMember(const LocalJob::Ended& member);
  // False when the coordinator did not answer.
  bool UpdateStatus();
  absl::Status CheckDeadline() const;
  void StartEndTimeout();
  // Ends what still runs after `timeout`.
  void WaitForTheEnd(absl::Duration timeout);
  void Pause();

  const Options options_;
  absl::Time start_;
  std::string address_;  // of the coordinator; empty until it listens
  v1::GetStatusReply status_;
  absl::Time next_status_ = absl::InfinitePast();
  std::vector<LocalJob::Ended> unjudged_;  // members that ended while the phase was not known
  std::optional<absl::Time> deadline_;     // for the coordinator's end
};

}  // namespace capstan

#endif  // DEPLOY_CLI_JOB_JOB_RUNNER_H_
