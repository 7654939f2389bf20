#ifndef SERVER_COORDINATOR_MEMBERS_LEASE_TABLE_H_
#define SERVER_COORDINATOR_MEMBERS_LEASE_TABLE_H_

#include <algorithm>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/members/member_key.h"

namespace capstan {

// The members' leases: each member is believed to be alive until its own ends. Not thread-safe.
class LeaseTable {
 public:
  explicit LeaseTable(absl::Duration lease) : lease_(lease) {}

  // The member's lease runs from `now`.
  void Renew(MemberKey member, absl::Time now) { expiry_[member] = now + lease_; }
  // The running lease of the member ends by then, unless it is renewed.
  void EndBy(MemberKey member, absl::Time end) {
    if (const auto it = expiry_.find(member); it != expiry_.end()) {
      it->second = std::min(it->second, end);
    }
  }
  // The member's lease does not run until it is renewed.
  void Hold(MemberKey member) { expiry_[member] = absl::InfiniteFuture(); }
  void Clear() { expiry_.clear(); }

  // InfiniteFuture when no lease runs.
  absl::Time NextExpiry() const {
    absl::Time next = absl::InfiniteFuture();
    for (const auto& [member, expiry] : expiry_) next = std::min(next, expiry);
    return next;
  }
  // Takes out the members with a lease up to `now`, in order.
  std::vector<MemberKey> TakeExpired(absl::Time now) {
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

 private:
  const absl::Duration lease_;
  std::map<MemberKey, absl::Time> expiry_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_LEASE_TABLE_H_
