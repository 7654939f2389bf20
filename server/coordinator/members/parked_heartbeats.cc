#include "server/coordinator/members/parked_heartbeats.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

namespace capstan {

void ParkedHeartbeats::Park(Heartbeat heartbeat) {
  const MemberKey member = heartbeat.member;
  CHECK(parked_.emplace(member, std::move(heartbeat)).second);
}

std::optional<ParkedHeartbeats::Heartbeat> ParkedHeartbeats::Take(MemberKey member) {
  const auto it = parked_.find(member);
  if (it == parked_.end()) return std::nullopt;
  Heartbeat taken = std::move(it->second);
  parked_.erase(it);
  return taken;
}

std::vector<ParkedHeartbeats::Heartbeat> ParkedHeartbeats::TakeAll() {
  return TakeIf([](const Heartbeat&) { return true; });
}

std::vector<ParkedHeartbeats::Heartbeat> ParkedHeartbeats::TakeOlderThan(uint64_t version) {
  return TakeIf(
      [version](const Heartbeat& heartbeat) { return heartbeat.received_version < version; });
}

std::vector<ParkedHeartbeats::Heartbeat> ParkedHeartbeats::TakeDue(absl::Time now) {
  return TakeIf([now](const Heartbeat& heartbeat) { return heartbeat.answer_by <= now; });
}

absl::Time ParkedHeartbeats::NextDue() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [member, heartbeat] : parked_) next = std::min(next, heartbeat.answer_by);
  return next;
}

std::vector<ParkedHeartbeats::Heartbeat> ParkedHeartbeats::TakeIf(
    absl::FunctionRef<bool(const Heartbeat&)> is_taken) {
  std::vector<Heartbeat> taken;
  for (auto it = parked_.begin(); it != parked_.end();) {
    if (is_taken(it->second)) {
      taken.push_back(std::move(it->second));
      it = parked_.erase(it);
    } else {
      ++it;
    }
  }
  return taken;
}

}  // namespace capstan
