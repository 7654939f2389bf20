#ifndef SERVER_COORDINATOR_MEMBERS_PARKED_HEARTBEATS_H_
#define SERVER_COORDINATOR_MEMBERS_PARKED_HEARTBEATS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"
#include "server/coordinator/members/member_key.h"

namespace capstan {

// Heartbeats that wait for a newer view than their member has received, at most one of each
// member. They are taken out in the order of members. Not thread-safe.
class ParkedHeartbeats {
 public:
  struct Heartbeat {
    MemberKey member;
    uint64_t received_version;
    absl::Time answer_by;
    CoordinatorEndpoint::Callback<v1::HeartbeatReply> done;
  };

  // The member must have none parked.
  void Park(Heartbeat heartbeat);
  bool Has(MemberKey member) const { return parked_.count(member) > 0; }
  std::optional<Heartbeat> Take(MemberKey member);
  std::vector<Heartbeat> TakeAll();
  // Takes the heartbeats whose members have a view older than this version.
  std::vector<Heartbeat> TakeOlderThan(uint64_t version);
  // Takes the heartbeats whose time has come.
  std::vector<Heartbeat> TakeDue(absl::Time now);
  absl::Time NextDue() const;  // InfiniteFuture: there are none

 private:
  std::vector<Heartbeat> Take(std::vector<MemberKey> members);

  std::map<MemberKey, Heartbeat> parked_;
  // Each parked heartbeat, in the order in which news, or time, take it.
  std::set<std::pair<uint64_t, MemberKey>> by_version_;
  std::set<std::pair<absl::Time, MemberKey>> by_time_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_PARKED_HEARTBEATS_H_
