#ifndef SERVER_COORDINATOR_PLANS_REPLICA_PLAN_H_
#define SERVER_COORDINATOR_PLANS_REPLICA_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/coordinator_service.pb.h"
#include "server/coordinator/plans/job_plan.h"

namespace capstan {

// The second copy of each shard in a job with two replicas: on which server it is, and what the
// shard's primary reports of it. A copy that is given up, since it differs or has no room, is made
// again after 100 ms, and each further time after twice the time, up to ten minutes. Does nothing
// in other jobs. Not thread-safe.
class ReplicaPlan : public JobPlan {
 public:
  void OnPlacement(const JobFacts& facts) override;
  // Takes what a primary says of the newest copies of its own shards. The rest may be late, or
  // nonsense, and is left out.
  absl::Status Report(const v1::HeartbeatRequest& heartbeat) override;
  bool Settle(const JobFacts& facts, JobEvents& events) override;

  void WriteToView(v1::JobView& view) const override;
  void WriteToStatus(v1::GetStatusReply& status) const override;

 private:
  struct Primary {
    bool has_slices = false;  // in any of its shards
    v1::CopyReport sums;      // the latest ones, without the lists but `silent`
  };
  // A shard whose copy was given up at least once.
  struct GivenUp {
    absl::Duration pause;           // until the next copy is made
    std::optional<absl::Time> due;  // none: it was not given up since, or its time is not known yet
  };

  // Null: it is no copy of a shard of `primary`, it is not the newest one, or it was given up.
  v1::ShardCopy* Find(uint32_t primary, uint32_t shard, uint64_t number);
  void TakeFault(uint32_t primary, const v1::CopyFault& fault);
  // Orders the copies that are to be made again.
  void MakeAgain(const JobFacts& facts);
  v1::CopyReport Sums() const;

  std::vector<uint32_t> server_of_shard_;  // the primary
  std::vector<v1::ShardCopy> copies_;      // in the same order; empty: the job has none
  std::vector<Primary> primaries_;         // by server
  std::map<uint32_t, GivenUp> given_up_;   // by shard
  JobEvents events_;                       // not noted yet
  bool has_news_ = false;
  bool has_told_whole_ = false;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_REPLICA_PLAN_H_
