#ifndef SERVER_COORDINATOR_PLANS_CONSISTENCY_PLAN_H_
#define SERVER_COORDINATOR_PLANS_CONSISTENCY_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/routing/table_check.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "server/coordinator/plans/job_plan.h"

namespace capstan {

// The consistency of a job: a list of periods, each from a step on, and at most one pending change.
// To find a change's first step, every live server reports a step and holds back everything from it
// on. The change begins at the largest of these steps: nobody has seen it yet, and nobody gets
// there before the change is settled. Not thread-safe.
class ConsistencyPlan : public JobPlan {
 public:
  // The job's own, from step 0 on. Or, if the job goes on from a checkpoint, the checkpoint's; and
  // the job's own, if it differs, from the first step on that nobody has done.
  explicit ConsistencyPlan(const v1::ConsistencySpec& consistency,
                           const v1::CheckpointManifest& restored = {});

  // Begins a change of the fields set in the request, for a job with these tables. Returns the
  // change's number. A request may come twice: if the result counts already or is pending, that
  // one's number is returned. FAILED_PRECONDITION: another change is pending. INVALID_ARGUMENT: the
  // result is not valid, or the request sets nothing or a field that is fixed while the job runs.
  absl::StatusOr<uint64_t> Begin(const v1::SetConsistencyRequest& request,
                                 const TableSpecs& tables);

  // The step from which on a server holds back. Ignored unless it belongs to the pending change.
  // INVALID_ARGUMENT: no job gets to this step.
  absl::Status Report(const v1::HeartbeatRequest& heartbeat) override;
  void OnServerLost(const LostServer&, const JobFacts&) override { held_from_.clear(); }
  // Gives the pending change its first step once all live servers have reported.
  bool Settle(const JobFacts& facts, JobEvents& events) override;

  bool is_pending() const { return pending_.has_value(); }
  // The period of a change; null while it is pending.
  const v1::ConsistencyPeriod* Find(uint64_t change) const;
  const v1::ConsistencyPeriod& latest() const { return periods_.back(); }
  void WriteToView(v1::JobView& view) const override;
  void WriteToState(v1::CoordinatorState& state) const override;
  void Restore(const v1::CoordinatorState& state, const JobFacts& facts) override;

 private:
  // A change has the number of its later period.
  uint64_t pending_number() const { return periods_.size(); }

  std::vector<v1::ConsistencyPeriod> periods_;  // at least one
  std::optional<v1::ConsistencySpec> pending_;
  std::map<uint32_t, Step> held_from_;  // of each server, for the pending change
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_CONSISTENCY_PLAN_H_
