#ifndef SERVER_COORDINATOR_PLANS_REPLICA_PLAN_H_
#define SERVER_COORDINATOR_PLANS_REPLICA_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/routing/placement.h"
#include "proto/coordinator_service.pb.h"
#include "server/coordinator/members/job_facts.h"
#include "server/coordinator/plans/job_plan.h"

namespace capstan {

// The second copy of each shard in a job with two replicas: on which server it is, and what the
// shard's primary reports of it. When a server is lost, its shards move to their copies, and others
// are made at once if a server has room. A copy that is given up for another reason is made again
// after 100 ms, and each further time after twice the time, up to ten minutes. Not thread-safe.
class ReplicaPlan : public JobPlan {
 public:
  // `facts` must outlive the plan, which changes the servers of shards in its view.
  explicit ReplicaPlan(JobFacts& facts) : facts_(facts) {}

  // Number of the server's shards that would be lost with it: those with slices and without a whole
  // copy.
  uint32_t ShardsWithoutCopy(uint32_t server) const;
  // The server is not live any more, and no shard is lost with it. Moves its shards to their
  // copies, and gives up the copies that it had. Returns how many shards each other server has
  // taken.
  std::map<uint32_t, uint32_t> LoseServer(uint32_t server);
  // Number of shards whose copy is not whole.
  uint32_t CopiesNotWhole() const;

  void OnPlacement(const JobFacts& facts) override;
  // Takes what a primary says of the newest copies of its own shards. The rest may be late, or
  // nonsense, and is left out.
  absl::Status Report(const v1::HeartbeatRequest& heartbeat) override;
  bool Settle(const JobFacts& facts, JobEvents& events) override;

  void WriteToView(v1::JobView& view) const override;
  void WriteToStatus(v1::GetStatusReply& status) const override;
  void Restore(const v1::CoordinatorState& state, const JobFacts& facts) override;

 private:
  // A shard whose copy was given up at least once.
  struct GivenUp {
    // Until the next copy is made. 0: since then no copy was given up but with its server.
    absl::Duration pause;
    std::optional<absl::Time> due;  // none: it was not given up since, or its time is not known yet
  };

  // Null: it is no copy of a shard of `primary`, it is not the newest one, or it was given up.
  v1::ShardCopy* Find(uint32_t primary, uint32_t shard, uint64_t number);
  void TakeFault(uint32_t primary, const v1::CopyFault& fault);
  void TakeSilence(uint32_t primary, const v1::CopyReport& report);
  // The copy is none any more. Returns the pause until another one is made.
  absl::Duration GiveUp(uint32_t shard, const std::string& fault);
  // Orders the copies that are to be made again.
  void MakeAgain(const JobFacts& facts);
  std::vector<ServerRoom> Rooms() const;
  // Where the shard's next copy goes: where it was if that is possible.
  std::optional<uint32_t> ServerForCopy(uint32_t shard, const std::vector<ServerRoom>& rooms) const;
  v1::CopyReport Sums() const;

  uint32_t PrimaryOf(uint32_t shard) const {
    return facts_.view.server_of_shard(static_cast<int>(shard));
  }

  JobFacts& facts_;
  std::vector<v1::ShardCopy> copies_;     // by shard; empty: the job has none
  std::vector<v1::CopyReport> sums_;      // by server: the latest, without the lists but `silent`
  v1::CopyReport sums_of_lost_;           // what stays true of those of lost servers
  std::map<uint32_t, GivenUp> given_up_;  // by shard
  JobEvents events_;                      // not noted yet
  bool has_news_ = false;
  bool were_whole_ = false;  // all of them, once
  bool has_told_whole_ = false;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_REPLICA_PLAN_H_
