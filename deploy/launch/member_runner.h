#ifndef DEPLOY_LAUNCH_MEMBER_RUNNER_H_
#define DEPLOY_LAUNCH_MEMBER_RUNNER_H_

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

// Runs the servers and workers that a job has on this machine, while another machine coordinates.
// It stays until the job ends, also if nothing is left here. Borrows everything. Not thread-safe.
class MemberRunner {
 public:
  struct Options {
    // The members of this machine. None has started. Required.
    LocalJob* job = nullptr;
    // The coordinator's host:port. Required.
    std::string coordinator;
    // Asks it. Required.
    std::function<absl::StatusOr<v1::GetStatusReply>()> get_status;
    // Who replaces a lost member; only_replaces or only_servers. Null: nobody.
    RestartPlan* restarts = nullptr;
    // Tells it that a program of the user's has ended before the job had all its members. Capstan's
    // own processes tell it themselves. Required with such programs.
    std::function<absl::Status(v1::HeartbeatRequest::Role role, const std::string& reason)>
        report_early_failure;
    // True once for each interrupt from the terminal. Required.
    std::function<bool()> take_interrupt;
    // Required.
    ProgressDisplay* display = nullptr;
    // Required.
    Clock* clock = nullptr;
    // Interval of looks at the processes.
    absl::Duration poll_interval = absl::Milliseconds(50);
    // Interval of questions to the coordinator. It is asked at once when a process has ended.
    absl::Duration status_interval = absl::Milliseconds(500);
    // After the job's end, the processes have this long to end. Then they are killed. But after
    // success, programs of the user's may take as long as they like.
    absl::Duration end_timeout = absl::Seconds(10);
    // A server that is lost to the job has this long to end by itself. Then it is killed.
    absl::Duration server_patience = absl::Seconds(3);
  };

  explicit MemberRunner(Options options)
      : options_(std::move(options)),
        replacement_(options_.job, options_.restarts, options_.display, options_.server_patience) {}

  // Returns when all processes have ended: OK when the job succeeded, CANCELLED after an interrupt,
  // else the reason of the failure.
  absl::Status Run();

 private:
  absl::Status StartMembers();
  // Follows the job to its end.
  absl::Status Watch();
  // Looks at the processes and asks for the job's progress, if it is time.
  absl::Status Look();
  // Remembers how members have ended, and tells of losses.
  absl::Status Judge(const LocalJob::Ended& member);
  absl::Status JudgeLoss(const LocalJob::Ended& member);
  // Whether others may have copies of this lost server's shards.
  bool IsSurvivable(const LocalJob::Ended& member) const;
  // Asks for the job's progress.
  void UpdateStatus();
  // The result, if it is known.
  std::optional<absl::Status> Result() const;

  const Options options_;
  MemberReplacement replacement_;
  absl::Time start_;
  v1::GetStatusReply status_;  // the last answer
  absl::Time next_status_ = absl::InfinitePast();
  bool answers_ = true;        // the coordinator, when it was last asked
  bool has_good_end_ = false;  // of a member
  std::string first_loss_;     // how a member was lost; empty: none was
  // Members that have ended, to be judged once the coordinator answers again, and of servers with
  // copies once it knows of the loss.
  std::vector<LocalJob::Ended> unjudged_;
  absl::Status late_end_;               // of a program that has failed after the job was done
  std::optional<absl::Time> deadline_;  // for the members' end
};

// Waits until a coordinator answers `get_status`, at most for `patience`, and returns the answer.
// `tell` gets a line if it has to wait. CANCELLED after an interrupt. The last error when nobody
// has answered; an error other than UNAVAILABLE and DEADLINE_EXCEEDED is returned at once.
absl::StatusOr<v1::GetStatusReply> AwaitCoordinator(
    const std::string& address,
    const std::function<absl::StatusOr<v1::GetStatusReply>()>& get_status,
    const std::function<bool()>& take_interrupt,
    const std::function<void(const std::string&)>& tell, absl::Duration patience, Clock* clock);

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_MEMBER_RUNNER_H_
