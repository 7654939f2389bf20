#ifndef SERVER_COORDINATOR_MEMBERS_EXAMPLE_FACTS_H_
#define SERVER_COORDINATOR_MEMBERS_EXAMPLE_FACTS_H_

#include <glog/logging.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fake_clock.h"
#include "common/base/ids.h"
#include "server/coordinator/members/job_event.h"
#include "server/coordinator/members/job_facts.h"
#include "server/coordinator/members/member_key.h"

namespace capstan {

// For tests: the facts of a job in phase TRAINING, whose members have all registered. Servers have
// the incarnations 100, 101, ..., workers 200, 201, ...; each is on a host of its own.
struct ExampleFacts {
  explicit ExampleFacts(uint32_t num_servers = 1, uint32_t num_workers = 1, v1::JobSpec job = {},
                        RestorePoint restored = {})
      : facts(WithMembers(std::move(job), num_servers, num_workers), clock, std::move(restored)) {
    for (uint32_t id = 0; id < num_servers; ++id) Add(v1::HeartbeatRequest::SERVER, 100 + id);
    for (uint32_t id = 0; id < num_workers; ++id) Add(v1::HeartbeatRequest::WORKER, 200 + id);
    facts.view.set_phase(v1::TRAINING);
  }

  static v1::JobSpec WithMembers(v1::JobSpec job, uint32_t num_servers, uint32_t num_workers) {
    job.mutable_cluster()->set_num_servers(num_servers);
    job.mutable_cluster()->set_num_workers(num_workers);
    return job;
  }
  void Add(Role role, uint64_t incarnation) {
    CHECK(facts.members.Add(role, Incarnation(incarnation), {"host:1"}, absl::StrCat(incarnation))
              .ok());
  }
  Member& Server(uint32_t id) { return facts.members.OfRole(v1::HeartbeatRequest::SERVER).at(id); }
  Member& Worker(uint32_t id) { return facts.members.OfRole(v1::HeartbeatRequest::WORKER).at(id); }
  void TakeTables(const std::vector<v1::TableSpec>& tables, uint64_t slice_bytes = 1 << 20) {
    v1::RegisterWorkerRequest first;
    first.mutable_tables()->Add(tables.begin(), tables.end());
    CHECK(facts.tables.Take(first, /*is_first=*/true, slice_bytes).ok());
  }
  // Dense tables "0", "1", ...
  void TakeTables(const std::vector<uint64_t>& elements) {
    std::vector<v1::TableSpec> tables(elements.size());
    for (size_t i = 0; i < elements.size(); ++i) {
      tables[i].set_name(absl::StrCat(i));
      tables[i].add_shape(elements[i]);
    }
    TakeTables(tables);
  }

  FakeClock clock;
  JobFacts facts;
  JobEvents events;
};

// A heartbeat of one of them.
inline v1::HeartbeatRequest HeartbeatOf(MemberKey member) {
  v1::HeartbeatRequest heartbeat;
  heartbeat.set_role(member.role);
  heartbeat.set_id(member.id);
  heartbeat.set_incarnation((member.role == v1::HeartbeatRequest::SERVER ? 100 : 200) + member.id);
  return heartbeat;
}

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_EXAMPLE_FACTS_H_
