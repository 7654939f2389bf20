#include "server/coordinator/lease_table.h"

#include <algorithm>

namespace capstan {

absl::Time LeaseTable::NextExpiry() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [member, expiry] : expiry_) next = std::min(next, expiry);
  return next;
}

std::vector<MemberKey> LeaseTable::TakeExpired(absl::Time now) {
  std::vector<MemberKey> expired;
  for (auto it = expiry_.begin(); it != expiry_.end();) {
    if (it->second > now) {
      ++it;
      continue;
    }
    expired.push_back(it->first);
    it = expiry_.erase(it);
  }
  return expired;
}

}  // namespace capstan
