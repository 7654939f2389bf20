#ifndef SERVER_COORDINATOR_MEMBERS_END_WATCH_H_
#define SERVER_COORDINATOR_MEMBERS_END_WATCH_H_

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "server/coordinator/members/member_key.h"

namespace capstan {

// Who knows that the job has ended. The coordinator stays until all live members know, with the
// other processes of live workers, at the latest until a lease has passed. Not thread-safe.
class EndWatch {
 public:
  explicit EndWatch(absl::Duration lease) : lease_(lease) {}

  // The job has ended. It may be told again.
  void Begin(absl::Time now) { deadline_ = std::min(deadline_, now + lease_); }
  // InfiniteFuture: the job has not ended.
  absl::Time deadline() const { return deadline_; }

  // There is such a process of a worker, whose incarnation this is.
  void NotePart(MemberKey part, Incarnation incarnation) { parts_[part] = incarnation; }
  void NoteTold(MemberKey member) { told_.insert(member); }
  // Nobody has to be told any more. `live` is in order. `is_of`: whether a worker has an
  // incarnation.
  bool IsOver(const std::vector<MemberKey>& live, absl::Time now,
              absl::FunctionRef<bool(MemberKey, Incarnation)> is_of) const {
    if (now >= deadline_) return true;
    if (!std::includes(told_.begin(), told_.end(), live.begin(), live.end())) return false;
    return std::all_of(parts_.begin(), parts_.end(), [&](const auto& part) {
      const MemberKey worker{part.first.role, part.first.id};
      const bool waits =
          std::binary_search(live.begin(), live.end(), worker) && is_of(worker, part.second);
      return !waits || told_.count(part.first) > 0;
    });
  }

 private:
  const absl::Duration lease_;
  absl::Time deadline_ = absl::InfiniteFuture();
  std::set<MemberKey> told_;
  std::map<MemberKey, Incarnation> parts_;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_END_WATCH_H_
