#ifndef SERVER_COORDINATOR_COORDINATOR_H_
#define SERVER_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/metrics/metrics_page.h"
#include "common/model_file/model_file.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/coordinator/alarm.h"
#include "server/coordinator/job_outcome.h"
#include "server/coordinator/job_state.h"
#include "server/coordinator/members/attendances.h"
#include "server/coordinator/members/end_watch.h"
#include "server/coordinator/members/lease_table.h"
#include "server/coordinator/members/member_key.h"
#include "server/coordinator/members/parked_heartbeats.h"
#include "server/coordinator/members/restore_point.h"
#include "server/coordinator/state/state_keeper.h"
#include "server/coordinator/state/state_store.h"
#include "server/coordinator/waiters.h"

namespace capstan {

// Answers every call of the coordinator's service for one job. Keeps the members' leases, and holds
// their heartbeats until there is news. Its owner destroys it when no call is running; parked calls
// are then answered CANCELLED. Thread-safe.
class Coordinator : public CoordinatorEndpoint {
 public:
  struct Options {
    // Required: a valid job.
    v1::JobSpec job;
    // Required: distinguishes this job from others in the data plane.
    uint64_t job_fingerprint = 0;
    // The file for the parameters. Null: the job has no --output, or nobody looks at the file.
    std::unique_ptr<ModelOutput> output;
    // The folder of checkpoints. Null: the job has none, or nobody looks at the files.
    std::unique_ptr<CheckpointStorage> checkpoints;
    // The checkpoint from which the job goes on; none: it begins anew.
    std::optional<RestorePoint> restored;
    // Where the job is kept for another coordinator. Null: nowhere, so it ends with this one.
    std::unique_ptr<StateStore> store;
    // What another coordinator has left there. CheckSavedJob has accepted it. `restored` is its.
    std::optional<SavedJob> saved;
    // The one that has left it may hang, and members still wait for its answers.
    bool takes_over = false;
    // The token of `output` and `checkpoints`.
    uint64_t folder_token = 0;
    // As StateKeeper's. Required with a store.
    std::function<void(absl::AnyInvocable<void()> work)> save_in_background;
    absl::AnyInvocable<void(absl::Status)> on_lost;
    // Runs work on files, which may take long, on another thread. Null: on the calling thread.
    std::function<void(absl::AnyInvocable<void()> work)> run_in_background;
  };

  // `clock` must outlive the coordinator.
  Coordinator(Options options, Clock& clock);
  ~Coordinator() override;

  void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) override;

  // Adds what is known of the job.
  void AddMetrics(MetricsPage& page);
  // The newest status, without the tables; also if it is not kept yet, and members must not hear
  // it.
  v1::GetStatusReply NewestStatus();

  // This member's call Attend has broken, or its heartbeat and no call Attend is open: maybe its
  // process has ended. If nothing would be lost with it, it has only a short time left to send
  // another heartbeat. So has a worker that has sent none since its last answer, if another process
  // asks for its rank.
  void NoteBroken(const v1::AttendRequest& member, bool is_heartbeat = false);

  // Ends the job, for a reason of the coordinator's own process.
  void Fail(absl::string_view reason);

  // Runs `on_end` once, on any thread, when the job has ended and every live member has been told,
  // at the latest one lease after the end. Called once. `on_end` must not destroy the coordinator.
  void OnEnd(absl::AnyInvocable<void(JobOutcome)> on_end);
  // The job is over, and its state is of no use any more. To be called when no call is running.
  absl::Status FinishState() { return keeper_.Finish(); }

 private:
  // An answer to be given without the lock.
  struct Answer {
    MemberKey member;
    uint64_t view_version;  // The member has this view, or receives it.
    v1::HeartbeatReply reply;
    Callback<v1::HeartbeatReply> done;
  };
  struct Answers {
    uint64_t change = 0;  // they rest on the changes up to this one
    std::vector<Answer> heartbeats;
  };

  void Handle(v1::GetJobRequest request, Callback<v1::GetJobReply> done);
  void Handle(v1::RegisterServerRequest request, Callback<v1::RegisterReply> done);
  void Handle(v1::RegisterWorkerRequest request, Callback<v1::RegisterReply> done);
  void Handle(v1::HeartbeatRequest request, Callback<v1::HeartbeatReply> done);
  void Handle(v1::AttendRequest request, Callback<v1::AttendReply> done);
  void Handle(v1::ReportFailureRequest request, Callback<v1::ReportFailureReply> done);
  void Handle(v1::ReportResultRequest request, Callback<v1::ReportResultReply> done);
  void Handle(v1::GetStatusRequest request, Callback<v1::GetStatusReply> done);
  void Handle(v1::SetConsistencyRequest request, Callback<v1::SetConsistencyReply> done);
  void Handle(v1::CheckpointRequest request, Callback<v1::CheckpointReply> done);
  void Handle(v1::ReadClockRequest request, Callback<v1::ReadClockReply> done);

  static absl::Status StoppedError();
  // Gives a reply that rests on the changes up to this one.
  template <typename Reply>
  void Tell(uint64_t change, Callback<Reply> done, absl::StatusOr<Reply> reply);
  StateKeeper::Options KeeperOptions(Options& options, const v1::MembershipSpec& membership);
  // Goes on with what another coordinator has left.
  void GoOn(const SavedJob& saved, bool takes_over);
  // The newest state, to be kept.
  StateKeeper::Snapshot Snapshot();

  // Declares members dead after their lease, and answers heartbeats after their interval.
  void OnAlarm();
  void TakeEndOfLeaseLocked(const LeaseTable::Expired& expired) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Another process asks for the rank of this worker, whose place would be held. It may have ended.
  void SuspectWorkerLocked(uint32_t worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AnswerLocked(ParkedHeartbeats::Heartbeat heartbeat, Answers& answers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The newest view with its tables, for members.
  const std::string& EncodedViewLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Changes the state. Returns the answers that are due then, to be given without the lock.
  Answers Change(absl::FunctionRef<void(JobState&)> change);
  // To be called after each change: answers heartbeats with an older view, and sets the alarm.
  void SettleLocked(Answers& answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Time NextEventLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  v1::GetStatusReply StatusLocked(bool with_tables) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives the answers, once what they rest on is kept. Reports the end of the job if they were the
  // last.
  void Give(Answers answers);
  void GiveHeartbeat(Answer answer, const absl::Status& kept);
  void ReportEnd();
  void AnswerWaiters();
  // Answers the calls Attend of a job that has ended.
  void EndAttendances();
  // Work on the file of --output and on checkpoints, if there is something to do.
  void BeginFileWork();
  void DoFileWork(OutputPlan::Work work);
  void DoCheckpointWork(CheckpointPlan::Work work);
  void LogEvents();

  const uint64_t job_fingerprint_;
  const absl::Duration heartbeat_interval_;
  Clock& clock_;
  const std::unique_ptr<ModelOutput> output_;
  const std::unique_ptr<CheckpointStorage> checkpoints_;
  const uint64_t restored_xxh3_;  // of the manifest
  const std::function<void(absl::AnyInvocable<void()>)> run_in_background_;
  const uint64_t folder_token_;

  Mutex mu_;
  JobState state_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const v1::JobConstants> constants_ ABSL_GUARDED_BY(mu_);  // of the last snapshot
  LeaseTable leases_ ABSL_GUARDED_BY(mu_);
  ParkedHeartbeats parked_ ABSL_GUARDED_BY(mu_);
  std::string encoded_view_ ABSL_GUARDED_BY(mu_);  // of this version
  uint64_t encoded_version_ ABSL_GUARDED_BY(mu_) = 0;
  Attendances attending_ ABSL_GUARDED_BY(mu_);
  Waiters<v1::SetConsistencyReply> change_waiters_ ABSL_GUARDED_BY(mu_);
  Waiters<v1::CheckpointReply> checkpoint_waiters_ ABSL_GUARDED_BY(mu_);
  bool is_stopped_ ABSL_GUARDED_BY(mu_) = false;
  absl::AnyInvocable<void(JobOutcome)> on_end_ ABSL_GUARDED_BY(mu_);
  EndWatch end_ ABSL_GUARDED_BY(mu_);

  StateKeeper keeper_;  // Uses all members above.
  Alarm alarm_;         // Last, because it uses all members above.
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_COORDINATOR_H_
