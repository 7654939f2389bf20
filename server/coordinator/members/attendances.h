#ifndef SERVER_COORDINATOR_MEMBERS_ATTENDANCES_H_
#define SERVER_COORDINATOR_MEMBERS_ATTENDANCES_H_

#include <map>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"
#include "server/coordinator/members/member_key.h"

namespace capstan {

// The open calls Attend of members, one for each. What is taken out is to be answered without the
// owner's lock. Not thread-safe.
class Attendances {
 public:
  using Callback = CoordinatorEndpoint::Callback<v1::AttendReply>;

  // Takes out the member's older call; null: it has none.
  Callback Put(MemberKey member, Incarnation incarnation, Callback done) {
    return std::exchange(open_[member], {incarnation, std::move(done)}).done;
  }
  bool Has(MemberKey member, Incarnation incarnation) const {
    const auto it = open_.find(member);
    return it != open_.end() && it->second.incarnation == incarnation;
  }
  // The call of this process; null: it has none.
  Callback Take(MemberKey member, Incarnation incarnation) {
    if (!Has(member, incarnation)) return nullptr;
    Callback done = std::move(open_[member].done);
    open_.erase(member);
    return done;
  }
  std::vector<Callback> TakeAll() {
    std::vector<Callback> all;
    for (auto& [member, attendance] : std::exchange(open_, {})) {
      all.push_back(std::move(attendance.done));
    }
    return all;
  }

 private:
  struct Attendance {
    Incarnation incarnation;
    Callback done;
  };

  std::map<MemberKey, Attendance> open_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_ATTENDANCES_H_
