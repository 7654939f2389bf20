// The loss of servers, and their return.
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/end_request.h"
#include "server/coordinator/job_state.h"

namespace capstan {
namespace {

constexpr Role kServer = v1::HeartbeatRequest::SERVER;
constexpr Role kWorker = v1::HeartbeatRequest::WORKER;

bool IsLiveIn(const std::vector<Member>& members, uint32_t id, Incarnation incarnation) {
  return id < members.size() && members[id].is_live() && members[id].incarnation == incarnation;
}

}  // namespace

absl::StatusOr<uint32_t> JobState::RegisterServer(const v1::RegisterServerRequest& request) {
  if (const std::optional<uint32_t> ended = registration_.FindEnded(request)) {
    EndServer(*ended, {"was declared dead because another process has its address",
                       "has ended, as another process has its address", "its address is taken"});
  }
  return Welcome(registration_.AddServer(request, events_));
}

bool JobState::LosesNothingWith(MemberKey key, Incarnation incarnation) const {
  const MemberRegistry& members = facts_.members;
  if (key.role == kServer) {
    return IsLiveIn(members.servers(), key.id, incarnation) && GoesOnWithoutServer(key.id);
  }
  return key.role == kWorker && IsLiveIn(members.workers(), key.id, incarnation) &&
         held_.WouldHold(key.id, facts_);
}

bool JobState::LosesNothingWith(MemberKey key) const {
  const MemberRegistry& members = facts_.members;
  const std::vector<Member>& of_role = key.role == kServer ? members.servers() : members.workers();
  return key.id < of_role.size() && LosesNothingWith(key, of_role[key.id].incarnation);
}

bool JobState::GoesOnWithoutServer(uint32_t server) const {
  if (has_ended()) return false;
  if (output_.is_publishing()) return true;
  return facts_.is_running() && facts_.has_copies() && replicas_.ShardsWithoutCopy(server) == 0;
}

void JobState::LeaveServer(uint32_t server) {
  if (!GoesOnWithoutServer(server)) return;
  const std::string what = absl::StrCat(kAskedToEnd, ", and has left");
  EndServer(server, {what, what, what});
}

void JobState::EndServer(uint32_t server, const ServerEnd& end) {
  const bool goes_on = GoesOnWithoutServer(server);
  facts_.members.OfRole(kServer).at(server).end = end.end;
  if (!goes_on) {
    return Take(LossOfServer(server, end, replicas_.ShardsWithoutCopy(server), facts_,
                             checkpoint_.newest()));
  }
  if (output_.is_publishing()) {
    Take(LossAfterResult(absl::StrCat(MemberName({kServer, server}), " ", end.what), end.reason));
    return Publish();
  }
  const std::map<uint32_t, uint32_t> taken = replicas_.LoseServer(server);
  if (!taken.empty()) BeginEpoch();
  Take(LossOfServerWithCopies(server, end, taken, replicas_.CopiesNotWhole(), facts_));
  uint32_t num_moved = 0;
  for (const auto& [heir, count] : taken) num_moved += count;
  losses_.Add(server, end.what, num_moved);
  const LostServer lost = {server, /*moves_shards=*/!taken.empty()};
  for (JobPlan* plan : plans_) plan->OnServerLost(lost, facts_);
  Settle();
  Publish();
}

}  // namespace capstan
