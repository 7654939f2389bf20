#ifndef SERVER_COORDINATOR_JOB_STATE_H_
#define SERVER_COORDINATOR_JOB_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/routing/table_check.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/auto_codec_plan.h"
#include "server/coordinator/checkpoint_plan.h"
#include "server/coordinator/consistency_plan.h"
#include "server/coordinator/device_kinds.h"
#include "server/coordinator/entering_workers.h"
#include "server/coordinator/job_outcome.h"
#include "server/coordinator/link_plan.h"
#include "server/coordinator/member_key.h"
#include "server/coordinator/member_registry.h"
#include "server/coordinator/output_plan.h"
#include "server/coordinator/schedule_plan.h"

namespace capstan {

// One line of the coordinator's log. May have text of a peer that is not printable.
struct JobEvent {
  // Implicit: most events are a text alone.
  JobEvent(std::string text) : text(std::move(text)) {}
  JobEvent(std::string text, std::optional<int64_t> step, std::string reason = "")
      : text(std::move(text)), step(step), reason(std::move(reason)) {}

  std::string text;
  std::optional<int64_t> step;  // if the text names one
  std::string reason;           // of a failure, as in the text; empty: none
};

// The phases of a job: the effect of each event on them and on the members' view. Has no callbacks,
// and reads the clock only to measure the training. Not thread-safe.
class JobState {
 public:
  // The checkpoint from which a job goes on.
  struct RestorePoint {
    std::string path;
    v1::CheckpointManifest manifest;  // fits the job
  };

  // `job` is valid. `clock` must outlive the state. Without `restored`, the job begins anew.
  JobState(v1::JobSpec job, const Clock& clock, std::optional<RestorePoint> restored = {});

  // The member's id. INVALID_ARGUMENT: the address or the tables are bad. FAILED_PRECONDITION: all
  // places are taken, or the job or this member has ended. RESOURCE_EXHAUSTED: a worker may take a
  // dead one's place, but all are live.
  absl::StatusOr<uint32_t> RegisterServer(const v1::RegisterServerRequest& request);
  // The smaller id that must be registered before this worker's rank; none: it is its turn.
  std::optional<uint32_t> RegistersBefore(const v1::RegisterWorkerRequest& request) const;
  absl::StatusOr<uint32_t> RegisterWorker(const v1::RegisterWorkerRequest& request);

  // Each returns MemberRegistry::Find's errors. A heartbeat from the future is INVALID_ARGUMENT; a
  // result from anybody but the evaluator is FAILED_PRECONDITION.
  absl::Status Heartbeat(const v1::HeartbeatRequest& request);
  absl::Status ReportFailure(const v1::ReportFailureRequest& request);
  absl::Status ReportResult(const v1::ReportResultRequest& request);

  // As ConsistencyPlan::Begin; FAILED_PRECONDITION also when the job does not train.
  absl::StatusOr<uint64_t> BeginConsistencyChange(const v1::SetConsistencyRequest& request);
  // The answer to a request for that change; none while it is pending. FAILED_PRECONDITION: the job
  // has ended before.
  std::optional<absl::StatusOr<v1::SetConsistencyReply>> ConsistencyReply(uint64_t change) const;

  // Asks for a checkpoint, and returns its number. FAILED_PRECONDITION: the job has no folder for
  // checkpoints, or does not train.
  absl::StatusOr<uint64_t> RequestCheckpoint();
  // The answer to that request; none while it is under way. FAILED_PRECONDITION: the job has ended
  // before.
  std::optional<absl::StatusOr<v1::CheckpointReply>> CheckpointReply(uint64_t number) const;
  // The next work on checkpoints, and its result, as TakeFileWork and EndFileWork.
  CheckpointPlan::Work TakeCheckpointWork() { return checkpoint_.TakeWork(); }
  void EndCheckpointWork(const absl::StatusOr<std::string>& result);

  // A registered member has been silent for the lease.
  void DeclareDead(MemberKey member);
  // Fails the job when it has waited too long for its members to register.
  void CheckRegistration();
  // The time of that; InfiniteFuture if it never happens.
  absl::Time registration_deadline() const;
  // Does nothing if the job has ended.
  void Fail(absl::string_view reason);

  // The next work on the file of --output; null: there is none now. It may take long, and needs no
  // lock. Its result goes to EndFileWork, even if the job has ended meanwhile.
  OutputPlan::Work TakeFileWork() { return output_.TakeWork(); }
  void EndFileWork(const absl::Status& result);

  const v1::JobSpec& job() const { return job_; }
  // The checkpoint from which the job goes on; empty: it begins anew.
  const std::string& restored_path() const { return restored_.path; }
  // Without the tables.
  const v1::JobView& view() const { return view_; }
  v1::JobView ViewWithTables() const;
  bool has_ended() const { return view_.phase() == v1::DONE || view_.phase() == v1::FAILED; }
  std::vector<MemberKey> LiveMembers() const;
  // The events since the last call, a line each, for the log.
  std::vector<JobEvent> TakeEvents() { return std::exchange(events_, {}); }
  v1::GetStatusReply Status(bool with_tables = true) const;
  // Declared dead or left so far, also those replaced.
  int WorkersLost() const;
  // The job has ended.
  JobOutcome Outcome() const;

 private:
  // Whether the workers have done their steps. The job has not ended.
  bool has_trained() const {
    return view_.phase() == v1::EVALUATING || view_.phase() == v1::SAVING;
  }
  absl::StatusOr<uint32_t> Register(Role role, Incarnation incarnation,
                                    const ServerAddress& address, const std::string& host,
                                    bool may_enter_late,
                                    std::optional<uint32_t> rank = std::nullopt);
  // Whether a process that is no member yet may have this rank.
  // The first worker's tables become the job's; those of others must be the same.
  absl::Status TakeTables(const v1::RegisterWorkerRequest& request);
  absl::Status CheckRank(uint32_t rank) const;
  // A worker takes a dead one's place, and enters when it knows its first step.
  absl::StatusOr<uint32_t> Replace(Incarnation incarnation, std::optional<uint32_t> rank);
  absl::Status ReportEarlyFailure(const v1::ReportFailureRequest& request);
  // No worker gets beyond this step, unless it begins later. 0: it is not known yet.
  int64_t LastStep() const;
  // A worker leaves, as in v1::HeartbeatRequest::is_leaving.
  void Leave(uint32_t worker);
  // A worker that computes is no member any more: the others go on, or the job fails. `what` says
  // why in a line, and `reason` in short.
  void LoseWorker(uint32_t worker, const std::string& what, const std::string& reason);
  // Lets workers enter once all servers have reported their next step; false if there are none.
  bool EnterWorkers();
  // Settles the pending change once all servers have reported; false if there is none.
  bool SettleConsistency();
  // Begins the schedule's next period once this one is measured; false if there is none.
  bool SettleSchedule();
  // Makes the choice for auto codecs once the workers have done enough steps; false if there is
  // none.
  bool SettleAutoCodecs();
  // The progress of the workers that compute.
  std::vector<const v1::Progress*> Computing() const;
  // Moves the checkpoint on: begins it, chooses its step, or asks for its manifest. False if there
  // is nothing to do.
  bool SettleCheckpoint();
  CheckpointPlan::Training Training() const;
  // The manifest of the checkpoint with these parts of servers. Or why it is not complete.
  absl::StatusOr<v1::CheckpointManifest> Manifest(
      const std::map<uint32_t, v1::CheckpointPart>& parts) const;
  void AddWorkers(const std::map<uint32_t, v1::WorkerSteps>& steps,
                  v1::CheckpointManifest& manifest) const;
  absl::Duration TrainingTime() const;
  // The worker's progress, with that before the checkpoint from which the job goes on.
  v1::Progress ProgressOf(uint32_t worker) const;
  // Whether it is chosen how values are cut and sent. Else asks the workers for their links.
  bool HasSettledLinks();
  // Says what people should know of the device that a worker has reported.
  void NoteDevice(uint32_t worker, const v1::Progress& progress);
  // Fails the job if the worker's number of steps is not the first worker's.
  void CheckStepsTotal(const v1::HeartbeatRequest& request);
  // Enters the next phase if that has become possible; else returns false.
  bool Advance();
  // Begins the job's last phases, unless the last checkpoint is still being written.
  bool Finish();
  void Place();
  void EnterPhase(v1::Phase phase);
  // Makes the current state a new view.
  void Publish();

  const v1::JobSpec job_;
  const RestorePoint restored_;  // the path is empty if the job begins anew
  const Clock& clock_;
  MemberRegistry members_;
  const absl::Time registration_deadline_;
  EnteringWorkers entering_;
  ConsistencyPlan consistency_;
  LinkPlan links_;
  AutoCodecPlan auto_codecs_;
  SchedulePlan schedule_;
  OutputPlan output_;
  CheckpointPlan checkpoint_;
  DeviceKinds devices_;
  v1::JobView view_;         // without the tables, which may be many
  TableSpecs tables_;        // The first worker's.
  uint32_t own_arrays_ = 0;  // The first worker's.
  std::vector<uint64_t> table_elements_;
  std::vector<uint64_t> bytes_of_server_;
  uint64_t placing_version_ = 0;  // the first view with the placement
  uint64_t saving_version_ = 0;   // the first view of SAVING, until the servers have seen it
  uint64_t death_version_ = 0;    // the first view without the last worker that was lost
  bool has_other_bits_;           // as in v1::CheckpointManifest
  absl::Time training_began_;
  absl::Duration training_time_;  // with that before the checkpoint
  int64_t steps_total_ = 0;       // of each worker, or of a round; 0 until the first report
  Step latest_first_step_;        // of a worker
  std::optional<v1::ReportResultRequest> result_;
  std::vector<JobEvent> events_;
  std::string last_refusal_;  // of a worker whose tables did not fit; empty: none
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_JOB_STATE_H_
