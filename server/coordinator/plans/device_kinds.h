#ifndef SERVER_COORDINATOR_PLANS_DEVICE_KINDS_H_
#define SERVER_COORDINATOR_PLANS_DEVICE_KINDS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/checkpoint.pb.h"
#include "server/coordinator/plans/consistency_plan.h"
#include "server/coordinator/plans/job_plan.h"

namespace capstan {

// The kinds of CPU or GPU that workers compute on. Sums are rounded alike on one kind only. What
// people should know of that is noted once. Not thread-safe.
class DeviceKinds : public JobPlan {
 public:
  // The job goes on from `restored`, if that has workers. `consistency` must outlive this.
  DeviceKinds(const v1::CheckpointManifest& restored, const ConsistencyPlan& consistency);

  // A device without a kind is like any other.
  absl::Status Report(const v1::HeartbeatRequest& heartbeat) override;
  // Members need not hear of it.
  bool Settle(const JobFacts& facts, JobEvents& events) override;

  // All that has been noted.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  const ConsistencyPlan& consistency_;
  const int64_t restored_step_;
  std::set<std::string> restored_kinds_;  // of the workers before; empty: it says nothing any more
  uint32_t first_worker_ = 0;             // the first one with a kind
  std::string first_kind_;                // empty: there is none yet
  uint32_t worker_ = 0;                   // of the last report
  std::string kind_;                      // of the last report; empty: it has been looked at
  bool has_told_difference_ = false;
  std::vector<std::string> notes_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_DEVICE_KINDS_H_
