#ifndef SERVER_COORDINATOR_PLANS_SERVER_LOSSES_H_
#define SERVER_COORDINATOR_PLANS_SERVER_LOSSES_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/time/time.h"
#include "proto/coordinator_service.pb.h"
#include "server/coordinator/members/job_facts.h"
#include "server/coordinator/plans/job_plan.h"
#include "server/coordinator/plans/replica_plan.h"

namespace capstan {

// The servers without which a job went on, for people: the latest ones, and when their shards had
// two equal copies again. Not thread-safe.
class ServerLosses : public JobPlan {
 public:
  // Both must outlive the plan.
  ServerLosses(const JobFacts& facts, const ReplicaPlan& replicas)
      : facts_(facts), replicas_(replicas) {}

  // The server has just been lost, as `what` says.
  void Add(uint32_t server, const std::string& what, uint32_t shards_moved);

  // Called after that of the replicas. Members need not hear of it.
  bool Settle(const JobFacts& facts, JobEvents& events) override;
  void WriteToStatus(v1::GetStatusReply& status) const override;
  void WriteToState(v1::CoordinatorState& state) const override;
  void Restore(const v1::CoordinatorState& state, const JobFacts& facts) override;

 private:
  struct Loss {
    absl::Time time;
    v1::ServerLoss loss;
  };

  // As of now, into its server_losses.
  template <typename Message>
  void WriteLosses(Message& message) const;

  const JobFacts& facts_;
  const ReplicaPlan& replicas_;
  std::deque<Loss> losses_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_SERVER_LOSSES_H_
