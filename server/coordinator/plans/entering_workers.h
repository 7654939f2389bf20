#ifndef SERVER_COORDINATOR_PLANS_ENTERING_WORKERS_H_
#define SERVER_COORDINATOR_PLANS_ENTERING_WORKERS_H_

#include <cstdint>
#include <deque>
#include <map>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "proto/coordinator_service.pb.h"
#include "server/coordinator/members/member_registry.h"
#include "server/coordinator/plans/job_plan.h"

namespace capstan {

// Workers in the place of dead ones, until they have a first step. Each server reports its next
// step without an update of that place, and waits there. The first step is the largest of these, so
// that no update is pushed twice. In a place that was held it is the smallest: the worker does the
// lost one's step again, and servers drop what they have. Not thread-safe.
class EnteringWorkers : public JobPlan {
 public:
  // `members` must outlive the plan, which says there who is entering.
  explicit EnteringWorkers(MemberRegistry& members) : members_(members) {}

  // The worker has taken a dead one's place.
  void Await(uint32_t worker);
  // The worker has died.
  void Forget(uint32_t worker);

  // Ignored unless it names an entering incarnation.
  absl::Status Report(const v1::HeartbeatRequest& heartbeat) override;
  void OnServerLost(const LostServer& change, const JobFacts& facts) override;
  // The workers enter for which all live servers have reported.
  bool Settle(const JobFacts& facts, JobEvents& events) override;
  void WriteToStatus(v1::GetStatusReply& status) const override;
  void WriteToState(v1::CoordinatorState& state) const override;
  void Restore(const v1::CoordinatorState& state, const JobFacts& facts) override;

 private:
  using StepOfServer = std::map<uint32_t, Step>;

  MemberRegistry& members_;
  std::map<uint32_t, StepOfServer> next_steps_;    // by worker
  std::deque<v1::PlaceReplacement> replacements_;  // in held places; the latest ones
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_ENTERING_WORKERS_H_
