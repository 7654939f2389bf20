#ifndef SERVER_COORDINATOR_JOB_STATE_H_
#define SERVER_COORDINATOR_JOB_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/job_outcome.h"
#include "server/coordinator/members/job_event.h"
#include "server/coordinator/members/job_facts.h"
#include "server/coordinator/members/member_key.h"
#include "server/coordinator/members/member_loss.h"
#include "server/coordinator/members/registration.h"
#include "server/coordinator/members/restore_point.h"
#include "server/coordinator/plans/auto_codec_plan.h"
#include "server/coordinator/plans/checkpoint_plan.h"
#include "server/coordinator/plans/consistency_plan.h"
#include "server/coordinator/plans/device_kinds.h"
#include "server/coordinator/plans/entering_workers.h"
#include "server/coordinator/plans/held_places.h"
#include "server/coordinator/plans/job_plan.h"
#include "server/coordinator/plans/link_plan.h"
#include "server/coordinator/plans/output_plan.h"
#include "server/coordinator/plans/replica_plan.h"
#include "server/coordinator/plans/schedule_plan.h"
#include "server/coordinator/plans/server_losses.h"
#include "server/coordinator/saved_job.h"

namespace capstan {

// The phases of a job: the effect of each event on them and on the members' view. Each plan decides
// one thing of the job. Has no callbacks, and reads the clock only to measure the training. Not
// thread-safe.
class JobState {
 public:
  // `job` is valid. `clock` must outlive the state. Without `restored`, the job begins anew. The
  // term is that of the coordinator; 0: it keeps nothing.
  JobState(v1::JobSpec job, const Clock& clock, std::optional<RestorePoint> restored = {},
           uint64_t term = 0);

  // Goes on where another coordinator has stopped. CheckSavedJob has accepted it. To be called
  // first.
  void GoOn(const SavedJob& saved);
  // What another coordinator needs to go on, without what is of this coordinator's process. It has
  // changed if `change()` has grown; the constants, if `has_tables` has changed.
  v1::CoordinatorState State() const { return StateOfJob(facts_, plans_); }
  v1::JobConstants Constants() const { return ConstantsOfJob(facts_); }
  bool has_tables() const { return !facts_.tables.specs().empty(); }
  uint64_t change() const { return change_; }

  // The member's id. Errors are those of Registration. A live server whose address a new one has is
  // lost.
  absl::StatusOr<uint32_t> RegisterServer(const v1::RegisterServerRequest& request);
  absl::StatusOr<uint32_t> RegisterWorker(const v1::RegisterWorkerRequest& request);
  // The smaller id that must be registered before this worker's rank; none: it is its turn.
  std::optional<uint32_t> RegistersBefore(const v1::RegisterWorkerRequest& request) const {
    return registration_.Before(request);
  }

  // Each returns MemberRegistry::Find's errors. A heartbeat from the future is INVALID_ARGUMENT; a
  // result from anybody but the evaluator is FAILED_PRECONDITION.
  absl::Status CheckMember(MemberKey member, Incarnation incarnation);
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

  // A registered member has been silent for the lease; or its connection has broken, and it has not
  // come again.
  void DeclareDead(MemberKey member, bool is_broken = false);
  // Whether the member is live and of this incarnation, and nothing would be lost with it: a worker
  // whose place would be held, or a server whose shards have whole copies.
  bool LosesNothingWith(MemberKey member, Incarnation incarnation) const;
  // The same for the process that has the member's place.
  bool LosesNothingWith(MemberKey member) const;
  // Fails the job when it has waited too long for its members to register.
  void CheckRegistration() {
    if (facts_.clock.Now() >= registration_deadline()) Fail(registration_.MissingText());
  }
  // The time of that; InfiniteFuture if it never happens.
  absl::Time registration_deadline() const { return registration_.deadline(); }
  // Goes on without the workers whose places have been held long enough.
  void GiveUpPlaces();
  // The time of that; InfiniteFuture if it never happens.
  absl::Time place_deadline() const { return held_.deadline(); }
  // Does nothing if the job has ended.
  void Fail(absl::string_view reason);

  // The next work on the file of --output; null: there is none now. It may take long, and needs no
  // lock. Its result goes to EndFileWork, even if the job has ended meanwhile.
  OutputPlan::Work TakeFileWork() { return output_.TakeWork(); }
  void EndFileWork(const absl::Status& result);

  const JobFacts& facts() const { return facts_; }
  // Without the tables.
  const v1::JobView& view() const { return facts_.view; }
  bool has_ended() const { return facts_.has_ended(); }
  // The events since the last call, a line each, for the log.
  JobEvents TakeEvents() { return std::exchange(events_, {}); }
  v1::GetStatusReply Status(bool with_tables = true) const;
  // The job has ended.
  JobOutcome Outcome() const;

 private:
  absl::StatusOr<uint32_t> Welcome(const absl::StatusOr<Registration::Place>& place);
  // Fails the job if the worker's number of steps does not fit.
  void TakeSteps(uint32_t worker, const v1::Progress& progress);
  // A worker leaves, as in v1::HeartbeatRequest::is_leaving, or because it `came_after_end`, as in
  // v1::ReportFailureRequest.
  void Leave(uint32_t worker, bool came_after_end = false);
  // A server was asked to end: it leaves if the job goes on without it, or stays.
  void LeaveServer(uint32_t server);
  // A server is no member any more: its shards move, or the job fails.
  void EndServer(uint32_t server, const ServerEnd& end);
  bool GoesOnWithoutServer(uint32_t server) const;
  // A worker that computes is no member any more: its place is held, or the others go on, or the
  // job fails.
  void LoseWorker(const HeldPlaces::Loss& loss);
  // The same, without holding its place.
  void GiveUpWorker(const HeldPlaces::Loss& loss);
  // Fails the job, or notes that it goes on.
  void Take(const MemberLoss& loss);

  // Settles all plans, and enters the next phase if that has become possible. False if there is no
  // news for members.
  bool Settle();
  // The latter alone.
  bool Advance();
  void Place();
  // The next view has another placement than the present one.
  void BeginEpoch();
  void EnterPhase(v1::Phase phase);
  // Makes the current state a new view.
  void Publish();

  JobFacts facts_;
  JobEvents events_;
  Registration registration_;
  EnteringWorkers entering_;
  HeldPlaces held_;
  ConsistencyPlan consistency_;
  DeviceKinds devices_;
  OutputPlan output_;
  ReplicaPlan replicas_;
  ServerLosses losses_;
  LinkPlan links_;
  SchedulePlan schedule_;
  AutoCodecPlan auto_codecs_;
  CheckpointPlan checkpoint_;
  // In the order in which they are called: a plan comes behind those whose decision it looks at.
  // Devices before consistency, output before links, consistency before checkpoints, replicas
  // before losses.
  const std::vector<JobPlan*> plans_;
  uint64_t death_version_ = 0;  // the first view without the last worker that was lost
  uint64_t change_ = 0;         // as change()
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_JOB_STATE_H_
