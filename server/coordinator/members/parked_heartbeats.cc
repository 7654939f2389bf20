#include "server/coordinator/members/parked_heartbeats.h"

#include <glog/logging.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace capstan {

void ParkedHeartbeats::Park(Heartbeat heartbeat) {
  const MemberKey member = heartbeat.member;
  by_version_.emplace(heartbeat.received_version, member);
  by_time_.emplace(heartbeat.answer_by, member);
  CHECK(parked_.emplace(member, std::move(heartbeat)).second);
}

std::optional<ParkedHeartbeats::Heartbeat> ParkedHeartbeats::Take(MemberKey member) {
  const auto it = parked_.find(member);
  if (it == parked_.end()) return std::nullopt;
  Heartbeat taken = std::move(it->second);
  parked_.erase(it);
  by_version_.erase({taken.received_version, member});
  by_time_.erase({taken.answer_by, member});
  return taken;
}

std::vector<ParkedHeartbeats::Heartbeat> ParkedHeartbeats::TakeAll() {
  return TakeOlderThan(std::numeric_limits<uint64_t>::max());
}

std::vector<ParkedHeartbeats::Heartbeat> ParkedHeartbeats::TakeOlderThan(uint64_t version) {
  std::vector<MemberKey> members;
  for (auto it = by_version_.begin(); it != by_version_.end() && it->first < version; ++it) {
    members.push_back(it->second);
  }
  return Take(std::move(members));
}

std::vector<ParkedHeartbeats::Heartbeat> ParkedHeartbeats::TakeDue(absl::Time now) {
  std::vector<MemberKey> members;
  for (auto it = by_time_.begin(); it != by_time_.end() && it->first <= now; ++it) {
    members.push_back(it->second);
  }
  return Take(std::move(members));
}

absl::Time ParkedHeartbeats::NextDue() const {
  return by_time_.empty() ? absl::InfiniteFuture() : by_time_.begin()->first;
}

std::vector<ParkedHeartbeats::Heartbeat> ParkedHeartbeats::Take(std::vector<MemberKey> members) {
  std::sort(members.begin(), members.end());
  std::vector<Heartbeat> taken;
  taken.reserve(members.size());
  for (const MemberKey member : members) taken.push_back(*Take(member));
  return taken;
}

}  // namespace capstan
