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
  // A member whose lease has ended.
  struct Expired {
    MemberKey member;
    bool was_doubted = false;  // so its lease has ended early

    friend bool operator==(const Expired& a, const Expired& b) {
      return a.member == b.member && a.was_doubted == b.was_doubted;
    }
  };

  explicit LeaseTable(absl::Duration lease) : lease_(lease) {}

  // The member has registered: its lease runs from `now`, unless it is held. Whatever was doubted,
  // it lives.
  void Begin(MemberKey member, absl::Time now) {
    doubts_.erase(member);
    const auto it = expiry_.find(member);
    if (it == expiry_.end() || it->second != absl::InfiniteFuture()) Renew(member, now);
  }
  // The member's lease runs from `now`.
  void Renew(MemberKey member, absl::Time now) { expiry_[member] = now + lease_; }
  // The member's lease does not run until it is renewed. Whatever was doubted, it lives.
  void Hold(MemberKey member) {
    expiry_[member] = absl::InfiniteFuture();
    doubts_.erase(member);
  }
  // The member's connection has broken: its running lease ends in kGrace, unless it is renewed.
  void DoubtBroken(MemberKey member, absl::Time now) {
    doubts_[member] = true;
    EndBy(member, now + std::min(kGrace, lease_));
  }
  // Another process wants the member's place: the same, or at once if its connection has broken.
  void DoubtClaimed(MemberKey member, absl::Time now) {
    const bool is_broken = doubts_[member];
    EndBy(member, now + (is_broken ? absl::ZeroDuration() : std::min(kGrace, lease_)));
  }
  void Clear() {
    expiry_.clear();
    doubts_.clear();
  }

  // InfiniteFuture when no lease runs.
  absl::Time NextExpiry() const {
    absl::Time next = absl::InfiniteFuture();
    for (const auto& [member, expiry] : expiry_) next = std::min(next, expiry);
    return next;
  }
  // Takes out the members with a lease up to `now`, in order.
  std::vector<Expired> TakeExpired(absl::Time now) {
    std::vector<Expired> expired;
    for (auto it = expiry_.begin(); it != expiry_.end();) {
      if (it->second > now) {
        ++it;
        continue;
      }
      expired.push_back({it->first, doubts_.erase(it->first) > 0});
      it = expiry_.erase(it);
    }
    return expired;
  }

 private:
  // After its connection has broken, a live member usually comes again within this time. One that
  // does not is taken for lost: its process ends, and another one does its step again.
  static constexpr absl::Duration kGrace = absl::Milliseconds(300);

  // A lease that runs ends by then, unless it is renewed.
  void EndBy(MemberKey member, absl::Time end) {
    if (const auto it = expiry_.find(member); it != expiry_.end()) {
      it->second = std::min(it->second, end);
    }
  }

  const absl::Duration lease_;
  std::map<MemberKey, absl::Time> expiry_;
  // Who may have ended, and was not held since. True: its connection has broken.
  std::map<MemberKey, bool> doubts_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_LEASE_TABLE_H_
