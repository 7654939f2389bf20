#ifndef SERVER_COORDINATOR_MEMBERS_END_WATCH_H_
#define SERVER_COORDINATOR_MEMBERS_END_WATCH_H_

#include <algorithm>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/members/member_key.h"

namespace capstan {

// Who knows that the job has ended. The coordinator stays until all live members know, at the
// latest until a lease has passed. Not thread-safe.
class EndWatch {
 public:
  explicit EndWatch(absl::Duration lease) : lease_(lease) {}

  // The job has ended. It may be told again.
  void Begin(absl::Time now) { deadline_ = std::min(deadline_, now + lease_); }
  // InfiniteFuture: the job has not ended.
  absl::Time deadline() const { return deadline_; }

  void NoteTold(MemberKey member) { told_.insert(member); }
  // Nobody has to be told any more. `live` is in order.
  bool IsOver(const std::vector<MemberKey>& live, absl::Time now) const {
    return now >= deadline_ || std::includes(told_.begin(), told_.end(), live.begin(), live.end());
  }

 private:
  const absl::Duration lease_;
  absl::Time deadline_ = absl::InfiniteFuture();
  std::set<MemberKey> told_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_END_WATCH_H_
