// The loss of members, and the return of servers.
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

void JobState::DeclareDead(MemberKey key, bool is_broken) {
  Member& member = facts_.members.OfRole(key.role).at(key.id);
  if (has_ended() || !member.is_live()) return;
  const std::string silence = absl::StrCat(facts_.job.membership().lease_seconds(), " s");
  member.end = is_broken ? "was declared dead because its connection had broken"
                         : absl::StrCat("was declared dead because it was silent for ", silence,
                                        "; raise membership.lease_seconds if it was only slow");
  const std::string reason =
      is_broken ? "its connection has broken" : absl::StrCat("silent for ", silence, " (lease)");
  const std::string happened = absl::StrCat(is_broken ? "has ended, or " : "has been ", reason);
  if (key.role == kServer) return EndServer(key.id, {member.end, happened, reason});
  const std::string what = absl::StrCat(MemberName(key), " ", happened);
  if (!facts_.result.has_value()) return LoseWorker({key.id, what, reason});
  Take(LossAfterResult(what, reason));
  Publish();
}

void JobState::Leave(uint32_t worker, bool came_after_end) {
  if (has_ended() || facts_.has_trained()) return;
  Member& member = facts_.members.OfRole(kWorker).at(worker);
  member.has_left = true;
  member.is_needless = came_after_end || (facts_.job.stay() && HasFinished(member.progress));
  const char* const why = came_after_end       ? "came when the others had done all steps"
                          : member.is_needless ? "has done its steps"
                                               : kAskedToEnd;
  member.end = absl::StrCat(why, ", and has left");
  LoseWorker({worker, absl::StrCat(MemberName({kWorker, worker}), " ", member.end), member.end});
}

void JobState::LoseWorker(const HeldPlaces::Loss& loss) {
  entering_.Forget(loss.worker);
  if (!held_.Hold(loss, facts_)) return GiveUpWorker(loss);
  events_.emplace_back(
      absl::StrCat(loss.what, "; its place is held for ", facts_.job.membership().replace_seconds(),
                   " s (--replace_seconds)"),
      facts_.members.workers()[loss.worker].progress.steps_done(), loss.reason);
  Publish();
}

void JobState::GiveUpPlaces() {
  for (HeldPlaces::Loss& loss : held_.TakeExpired(facts_.clock.Now())) {
    absl::StrAppend(&loss.what, "; nobody has taken its place in ",
                    facts_.job.membership().replace_seconds(), " s (--replace_seconds)");
    if (!has_ended()) GiveUpWorker(loss);
  }
}

void JobState::GiveUpWorker(const HeldPlaces::Loss& lost) {
  std::string what = lost.what;
  const bool has_open_step = view().phase() == v1::TRAINING && held_.HasOpenStep(lost.worker);
  if (has_open_step && !held_.refusal().empty()) {
    absl::StrAppend(&what, "; no other process could do its step again: ", held_.refusal());
  }
  const MemberLoss loss = LossOfWorker(lost.worker, what, lost.reason, facts_);
  Take(loss);
  if (loss.fails_job) return;
  death_version_ = view().version() + 1;
  if (view().phase() == v1::EVALUATING) {
    facts_.view.set_evaluator(*facts_.members.LowestLiveWorker());
  }
  Advance();
  Publish();
}

void JobState::Take(const MemberLoss& loss) {
  if (loss.fails_job) return Fail(loss.event.text);
  facts_.has_other_bits = facts_.has_other_bits || loss.changes_bits;
  events_.push_back(loss.event);
}

}  // namespace capstan
