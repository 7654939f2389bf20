#ifndef SERVER_COORDINATOR_PLANS_REPLICA_PLAN_RIG_H_
#define SERVER_COORDINATOR_PLANS_REPLICA_PLAN_RIG_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/members/example_facts.h"
#include "server/coordinator/plans/replica_plan.h"

namespace capstan {

inline v1::HeartbeatRequest BeatOfServer(uint32_t id) {
  return HeartbeatOf({v1::HeartbeatRequest::SERVER, id});
}

inline v1::HeartbeatRequest Whole(uint32_t server, const std::vector<uint32_t>& shards,
                                  uint64_t number = 1) {
  v1::HeartbeatRequest heartbeat = BeatOfServer(server);
  heartbeat.mutable_copies();
  for (const uint32_t shard : shards) {
    v1::WholeCopy& whole = *heartbeat.mutable_copies()->add_whole();
    whole.set_shard(shard);
    whole.set_number(number);
  }
  return heartbeat;
}

inline v1::HeartbeatRequest Fault(uint32_t server, uint32_t shard, const std::string& text,
                                  uint64_t number = 1) {
  v1::HeartbeatRequest heartbeat = BeatOfServer(server);
  v1::CopyFault& fault = *heartbeat.mutable_copies()->add_faults();
  fault.set_shard(shard);
  fault.set_number(number);
  fault.set_text(text);
  return heartbeat;
}

// Servers on hosts of their own; shard i is on server i % servers. The last shard has no slices.
struct ReplicaRig {
  explicit ReplicaRig(uint32_t replicas = 2, uint32_t shards = 4, uint32_t servers = 3)
      : example(servers, /*num_workers=*/1, Job(replicas, shards)) {
    example.facts.shard_bytes.assign(shards, 32);
    example.facts.shard_bytes.back() = 0;
    example.facts.view.set_epoch(1);
    for (uint32_t shard = 0; shard < shards; ++shard) {
      example.facts.view.add_server_of_shard(shard % servers);
    }
    plan.OnPlacement(example.facts);
  }
  static v1::JobSpec Job(uint32_t replicas, uint32_t shards) {
    v1::JobSpec job;
    job.mutable_cluster()->set_replicas(replicas);
    job.mutable_cluster()->set_shard_count(shards);
    return job;
  }

  // Whether members must hear of it.
  bool Take(const v1::HeartbeatRequest& heartbeat) {
    EXPECT_TRUE(plan.Report(heartbeat).ok());
    return plan.Settle(example.facts, example.events);
  }
  v1::JobView View() const {
    v1::JobView view;
    plan.WriteToView(view);
    return view;
  }
  v1::GetStatusReply Status() const {
    v1::GetStatusReply status;
    plan.WriteToStatus(status);
    return status;
  }
  std::vector<bool> AreWhole() const {
    std::vector<bool> are_whole;
    const v1::JobView view = View();
    for (const v1::ShardCopy& copy : view.copies()) are_whole.push_back(copy.is_whole());
    return are_whole;
  }
  // All copies that the primaries have now.
  void MakeWhole() {
    const v1::JobView view = View();
    for (int shard = 0; shard < view.copies_size(); ++shard) {
      Take(Whole(example.facts.view.server_of_shard(shard), {static_cast<uint32_t>(shard)},
                 view.copies(shard).number()));
    }
  }
  // The server ends, and nothing is lost with it. How many shards the others have taken.
  std::map<uint32_t, uint32_t> Lose(uint32_t server) {
    EXPECT_EQ(plan.ShardsWithoutCopy(server), 0u);
    example.Server(server).end = "it is gone";
    return plan.LoseServer(server);
  }
  // Whether members must hear of what it decides.
  bool Settle() { return plan.Settle(example.facts, example.events); }
  // Another process has the server's place.
  void Replace(uint32_t server) {
    EXPECT_EQ(example.facts.members.TakePlaceOfDeadServer(Incarnation(300 + server), {"new:1"},
                                                          absl::StrCat(300 + server)),
              server);
  }
  std::vector<uint32_t> Primaries() const {
    const auto& servers = example.facts.view.server_of_shard();
    return {servers.begin(), servers.end()};
  }
  std::vector<std::string> Events() const {
    std::vector<std::string> texts;
    for (const JobEvent& event : example.events) texts.push_back(event.text);
    return texts;
  }

  ExampleFacts example;
  ReplicaPlan plan{example.facts};
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_REPLICA_PLAN_RIG_H_
