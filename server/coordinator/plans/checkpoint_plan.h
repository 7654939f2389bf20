#ifndef SERVER_COORDINATOR_PLANS_CHECKPOINT_PLAN_H_
#define SERVER_COORDINATOR_PLANS_CHECKPOINT_PLAN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator_service.pb.h"
#include "server/coordinator/members/restore_point.h"
#include "server/coordinator/plans/checkpoint_cycle.h"
#include "server/coordinator/plans/consistency_plan.h"
#include "server/coordinator/plans/job_plan.h"

namespace capstan {

// The checkpoints of a job: drives their cycle by the facts of the job, and makes the manifest of
// each. Not thread-safe.
class CheckpointPlan : public JobPlan {
 public:
  using Work = CheckpointCycle::Work;

  // `restored` and `consistency` must outlive the plan. `manifest_of_job` gives a manifest without
  // what the servers' parts bring (AddParts).
  CheckpointPlan(const v1::CheckpointSpec& spec, const RestorePoint& restored,
                 const ConsistencyPlan& consistency,
                 std::function<v1::CheckpointManifest()> manifest_of_job);

  // As CheckpointCycle's.
  absl::StatusOr<uint64_t> Request() { return cycle_.Request(); }
  std::optional<absl::StatusOr<v1::CheckpointReply>> Reply(uint64_t number) const {
    return cycle_.Reply(number);
  }
  Work TakeWork() { return cycle_.TakeWork(); }
  void EndWork(const absl::StatusOr<std::string>& result, const JobFacts& facts, JobEvents& events);
  // The folder of the last complete one; empty: there is none.
  std::string newest() const;
  // One is under way, or the last one of an ended training is still due.
  bool IsBusy(const JobFacts& facts) const { return cycle_.IsBusy(TrainingOf(facts)); }

  // A server's part of the current checkpoint. INVALID_ARGUMENT: no job gets to its steps.
  absl::Status Report(const v1::HeartbeatRequest& heartbeat) override;
  void OnServerLost(const LostServer& change, const JobFacts& facts) override;
  // Moves the checkpoint on: begins it, chooses its step, or asks for its manifest.
  bool Settle(const JobFacts& facts, JobEvents& events) override;

  // Called after the consistency's: servers hold back for one of the two at a time.
  void WriteToView(v1::JobView& view) const override;
  void WriteToStatus(v1::GetStatusReply& status) const override;
  void WriteToState(v1::CoordinatorState& state) const override { cycle_.WriteTo(state); }
  void Restore(const v1::CoordinatorState& state, const JobFacts&) override {
    cycle_.Restore(state);
  }

 private:
  CheckpointCycle::Training TrainingOf(const JobFacts& facts) const;

  const RestorePoint& restored_;
  const ConsistencyPlan& consistency_;
  const std::function<v1::CheckpointManifest()> manifest_of_job_;
  CheckpointCycle cycle_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_CHECKPOINT_PLAN_H_
