#include "server/coordinator/plans/entering_workers.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "server/coordinator/members/member_key.h"

namespace capstan {
namespace {

constexpr Role kWorker = v1::HeartbeatRequest::WORKER;

// So many of the latest replacements are told.
constexpr size_t kMostReplacements = 16;

// `steps` are those of all live servers. One without slices reports the largest step for a held
// place.
Step FirstStepOf(const std::map<uint32_t, Step>& steps, bool was_held) {
  Step first_step = steps.begin()->second;
  for (const auto& [server, step] : steps) {
    first_step = was_held ? std::min(first_step, step) : std::max(first_step, step);
  }
  return first_step;
}

v1::PlaceReplacement ReplacementOf(uint32_t worker, Step first_step, absl::Duration time) {
  v1::PlaceReplacement replacement;
  replacement.set_worker(worker);
  replacement.set_step(first_step.value());
  replacement.set_seconds(absl::ToDoubleSeconds(time));
  replacement.set_text(
      absl::StrFormat("%s was lost at step %d and replaced after %.1f s; nothing was done twice",
                      MemberName({kWorker, worker}), first_step.value(), replacement.seconds()));
  return replacement;
}

}  // namespace

void EnteringWorkers::Await(uint32_t worker) {
  members_.OfRole(kWorker).at(worker).is_entering = true;
  next_steps_[worker].clear();
}

void EnteringWorkers::Forget(uint32_t worker) {
  members_.OfRole(kWorker).at(worker).is_entering = false;
  next_steps_.erase(worker);
}

absl::Status EnteringWorkers::Report(const v1::HeartbeatRequest& heartbeat) {
  if (heartbeat.role() != v1::HeartbeatRequest::SERVER) return absl::OkStatus();
  for (const v1::NextStep& next_step : heartbeat.next_steps()) {
    const auto found = next_steps_.find(next_step.worker());
    if (found == next_steps_.end()) continue;
    const Member& worker = members_.workers()[next_step.worker()];
    if (worker.incarnation != Incarnation(next_step.incarnation())) continue;
    found->second[heartbeat.id()] = Step(next_step.step());
  }
  return absl::OkStatus();
}

void EnteringWorkers::OnServerLost(const LostServer&, const JobFacts&) {
  for (auto& [worker, steps] : next_steps_) steps.clear();
}

bool EnteringWorkers::Settle(const JobFacts& facts, JobEvents& events) {
  bool has_entered = false;
  for (auto it = next_steps_.begin(); it != next_steps_.end();) {
    const auto& [worker, steps] = *it;
    if (steps.empty() || steps.size() < members_.LiveServerCount()) {
      ++it;
      continue;
    }
    Member& member = members_.OfRole(kWorker).at(worker);
    const Step first_step = FirstStepOf(steps, member.holds_place);
    members_.BeginAt(worker, first_step);
    member.is_entering = false;
    std::string text =
        absl::StrCat(MemberName({kWorker, worker}), " enters at step ", first_step.value());
    if (std::exchange(member.holds_place, false)) {
      const absl::Duration time = facts.clock.Now() - member.lost_at;
      text = replacements_.emplace_back(ReplacementOf(worker, first_step, time)).text();
      if (replacements_.size() > kMostReplacements) replacements_.pop_front();
    }
    events.emplace_back(std::move(text), first_step.value());
    it = next_steps_.erase(it);
    has_entered = true;
  }
  return has_entered;
}

void EnteringWorkers::WriteToStatus(v1::GetStatusReply& status) const {
  status.mutable_place_replacements()->Add(replacements_.begin(), replacements_.end());
}

void EnteringWorkers::WriteToState(v1::CoordinatorState& state) const {
  state.mutable_place_replacements()->Add(replacements_.begin(), replacements_.end());
}

void EnteringWorkers::Restore(const v1::CoordinatorState& state, const JobFacts& facts) {
  replacements_.assign(state.place_replacements().begin(), state.place_replacements().end());
  for (uint32_t id = 0; id < members_.workers().size(); ++id) {
    if (!members_.workers()[id].is_entering) continue;
    members_.OfRole(kWorker).at(id).lost_at = facts.clock.Now();
    Await(id);
  }
}

}  // namespace capstan
