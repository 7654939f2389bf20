#ifndef SERVER_COORDINATOR_LEASE_TABLE_H_
#define SERVER_COORDINATOR_LEASE_TABLE_H_

#include <map>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/member_key.h"

namespace capstan {

// Until when each member is believed to be alive. Not thread-safe.
class LeaseTable {
 public:
  explicit LeaseTable(absl::Duration lease) : lease_(lease) {}

  // The member's lease runs from `now`.
  void Renew(MemberKey member, absl::Time now) { expiry_[member] = now + lease_; }
  // The member's lease does not run until it is renewed.
  void Hold(MemberKey member) { expiry_[member] = absl::InfiniteFuture(); }
  void Clear() { expiry_.clear(); }

  // InfiniteFuture when no lease runs.
  absl::Time NextExpiry() const;
  // Takes out the members whose lease has run out at `now`, in order.
  std::vector<MemberKey> TakeExpired(absl::Time now);

 private:
  const absl::Duration lease_;
  std::map<MemberKey, absl::Time> expiry_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_LEASE_TABLE_H_
