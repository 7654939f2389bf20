#ifndef SERVER_COORDINATOR_MEMBERS_LEASE_TABLE_H_
#define SERVER_COORDINATOR_MEMBERS_LEASE_TABLE_H_

#include <algorithm>
#include <map>
#include <set>
#include <utility>
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
  // The member was one of an earlier coordinator: its lease runs from `now`. If it is not held
  // soon, once others are, the member is absent.
  void Await(MemberKey member, absl::Time now) {
    Renew(member, now);
    awaited_.insert(member);
  }
  // The member's lease runs from `now`.
  void Renew(MemberKey member, absl::Time now) { SetExpiry(member, now + lease_); }
  // The member's lease does not run until it is renewed. Whatever was doubted, it lives.
  void Hold(MemberKey member, absl::Time now) {
    SetExpiry(member, absl::InfiniteFuture());
    doubts_.erase(member);
    if (awaited_.erase(member) > 0) absent_at_ = std::min(absent_at_, now + kReturnTime);
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
    by_expiry_.clear();
    doubts_.clear();
    awaited_.clear();
  }

  // The awaited members that are absent by `now`. Each is told once.
  std::set<MemberKey> TakeAbsent(absl::Time now) {
    if (now < absent_at_) return {};
    absent_at_ = absl::InfiniteFuture();
    return std::exchange(awaited_, {});
  }
  // The time at which there is something for TakeAbsent or TakeExpired; InfiniteFuture: none.
  absl::Time NextExpiry() const {
    return by_expiry_.empty() ? absent_at_ : std::min(absent_at_, by_expiry_.begin()->first);
  }
  // Takes out the members with a lease up to `now`, in order.
  std::vector<Expired> TakeExpired(absl::Time now) {
    std::vector<Expired> expired;
    while (!by_expiry_.empty() && by_expiry_.begin()->first <= now) {
      const MemberKey member = by_expiry_.begin()->second;
      expired.push_back({member, doubts_.erase(member) > 0});
      by_expiry_.erase(by_expiry_.begin());
      expiry_.erase(member);
    }
    std::sort(expired.begin(), expired.end(),
              [](const Expired& a, const Expired& b) { return a.member < b.member; });
    return expired;
  }

 private:
  // After its connection has broken, a live member usually comes again within this time. One that
  // does not is taken for lost: its process ends, and another one does its step again.
  static constexpr absl::Duration kGrace = absl::Milliseconds(300);
  // After the first member has come to a new coordinator, the others do within this time.
  static constexpr absl::Duration kReturnTime = absl::Seconds(1);

  // A lease that runs ends by then, unless it is renewed.
  void EndBy(MemberKey member, absl::Time end) {
    if (const auto it = expiry_.find(member); it != expiry_.end()) {
      SetExpiry(member, std::min(it->second, end));
    }
  }
  void SetExpiry(MemberKey member, absl::Time end) {
    const auto [it, is_new] = expiry_.try_emplace(member, end);
    if (!is_new) by_expiry_.erase({std::exchange(it->second, end), member});
    by_expiry_.emplace(end, member);
  }

  const absl::Duration lease_;
  std::map<MemberKey, absl::Time> expiry_;
  std::set<std::pair<absl::Time, MemberKey>> by_expiry_;  // the same
  // Who may have ended, and was not held since. True: its connection has broken.
  std::map<MemberKey, bool> doubts_;
  std::set<MemberKey> awaited_;
  absl::Time absent_at_ = absl::InfiniteFuture();
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_LEASE_TABLE_H_
