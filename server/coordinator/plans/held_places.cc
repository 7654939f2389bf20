#include "server/coordinator/plans/held_places.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/job/job_properties.h"
#include "server/coordinator/members/member_key.h"

namespace capstan {
namespace {

constexpr Role kWorker = v1::HeartbeatRequest::WORKER;

bool IsBsp(const v1::ConsistencySpec& consistency) {
  return consistency.mode() == v1::ConsistencySpec::BSP;
}

// Whether all steps of the job are steps of BSP.
bool IsAlwaysBsp(const v1::JobView& view) {
  return std::all_of(
      view.consistency().begin(), view.consistency().end(),
      [](const v1::ConsistencyPeriod& period) { return IsBsp(period.consistency()); });
}

// Why another process cannot do a worker's step again; empty: it can.
std::string RefusalOf(const v1::JobSpec& job, const JobFacts& facts) {
  if (HasPushCodec(job.codec())) return "pushes by a codec leave residuals that only it had";
  if (HasTopkPull(job.codec())) return "its copy of the values, for a topk of pulls, is gone";
  if (job.data().path() == kStandardInputPath) return "its samples, from standard input, are gone";
  if (facts.tables.local_steps().has_value()) return "its local steps of the round are gone";
  for (const v1::TableSpec& table : facts.tables.specs()) {
    if (table.replies_mean()) return "the programs run the optimizer, and its state is not kept";
  }
  return facts.tables.own_arrays() > 0 ? "the state that its engine keeps is gone" : "";
}

}  // namespace

void HeldPlaces::OnPlacement(const JobFacts& facts) {
  if (!IsBsp(job_.consistency()) || job_.stay()) return;
  if (job_.membership().replace_seconds() == 0) return;
  refusal_ = RefusalOf(job_, facts);
  if (refusal_.empty() && !are_replaceable_) {
    refusal_ = "a program did not say that its steps can be done again (replaceable)";
  }
  holds_places_ = refusal_.empty();
}

bool HeldPlaces::HasOpenStep(uint32_t worker) const {
  const Member& member = members_.workers()[worker];
  return !member.is_needless && !HasFinished(member.progress);
}

bool HeldPlaces::WouldHold(uint32_t worker, const JobFacts& facts) const {
  // Once a change of the consistency has begun, a later step may be none of BSP.
  const bool changes = facts.view.consistency_change() != 0;
  return holds_places_ && facts.view.phase() == v1::TRAINING && IsAlwaysBsp(facts.view) &&
         !changes && HasOpenStep(worker);
}

bool HeldPlaces::Hold(const Loss& loss, const JobFacts& facts) {
  Member& member = members_.OfRole(kWorker).at(loss.worker);
  // A worker that was entering has a held place so far.
  member.holds_place = WouldHold(loss.worker, facts);
  if (!member.holds_place) return false;
  KeepPlace(loss, facts.clock.Now());
  return true;
}

void HeldPlaces::KeepPlace(const Loss& loss, absl::Time now) {
  members_.OfRole(kWorker).at(loss.worker).lost_at = now;
  losses_[loss.worker] = {loss, now + absl::Seconds(job_.membership().replace_seconds())};
}

void HeldPlaces::WriteToState(v1::CoordinatorState& state) const {
  state.set_are_replaceable(are_replaceable_);
}

void HeldPlaces::Restore(const v1::CoordinatorState& state, const JobFacts& facts) {
  are_replaceable_ = state.are_replaceable();
  if (facts.is_placed()) OnPlacement(facts);
  for (uint32_t id = 0; id < members_.workers().size(); ++id) {
    const Member& worker = members_.workers()[id];
    if (worker.is_live() || !worker.holds_place) continue;
    KeepPlace({id, absl::StrCat(MemberName({kWorker, id}), " ", worker.end), worker.end},
              facts.clock.Now());
  }
}

void HeldPlaces::WriteToView(v1::JobView& view) const {
  view.set_holds_places(holds_places_ && IsAlwaysBsp(view));
  view.set_place_refusal(holds_places_ && !IsAlwaysBsp(view)
                             ? "the consistency has changed since the start"
                             : refusal_);
}

absl::Status HeldPlaces::CheckNoneIsHeld() const {
  if (losses_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      MemberName({kWorker, losses_.begin()->first}),
      " was lost, and its place is held for another process (--replace_seconds); change the "
      "consistency once it has been taken"));
}

absl::Time HeldPlaces::deadline() const {
  absl::Time deadline = absl::InfiniteFuture();
  for (const auto& [worker, held] : losses_) deadline = std::min(deadline, held.until);
  return deadline;
}

std::vector<HeldPlaces::Loss> HeldPlaces::TakeExpired(absl::Time now) {
  std::vector<Loss> expired;
  for (auto it = losses_.begin(); it != losses_.end();) {
    if (it->second.until > now) {
      ++it;
      continue;
    }
    members_.OfRole(kWorker).at(it->first).holds_place = false;
    expired.push_back(it->second.loss);
    it = losses_.erase(it);
  }
  return expired;
}

}  // namespace capstan
