#include "tests/simulation/coordinator_check.h"

#include <algorithm>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

// Of the process that registers; 0: it is another request.
uint64_t RegisteringIncarnation(const CoordinatorRequest& request) {
  if (const auto* server = std::get_if<v1::RegisterServerRequest>(&request)) {
    return server->incarnation();
  }
  const auto* worker = std::get_if<v1::RegisterWorkerRequest>(&request);
  return worker == nullptr ? 0 : worker->incarnation();
}

bool IsEnd(v1::Phase phase) { return phase == v1::DONE || phase == v1::FAILED; }

// "7 of term 2"
std::string VersionText(uint64_t version) {
  constexpr uint64_t kFirst = uint64_t{1} << 40;
  return absl::StrCat(version % kFirst, " of term ", version / kFirst);
}

// Workers tell the number of their steps while they register, and nobody needs it before a newer
// view.
std::string ContentOf(v1::JobView view) {
  view.clear_steps_total();
  return view.SerializeAsString();
}

}  // namespace

class CoordinatorCheck::Watched : public CoordinatorEndpoint {
 public:
  Watched(CoordinatorCheck* check, uint64_t term, CoordinatorEndpoint* coordinator)
      : check_(*check), term_(term), coordinator_(*coordinator) {}

  void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) override {
    const uint64_t incarnation = RegisteringIncarnation(request);
    coordinator_.Call(std::move(request),
                      [this, incarnation, newest = check_.newest_term(),
                       done = std::move(done)](absl::StatusOr<CoordinatorReply> reply) mutable {
                        check_.NoteReply(term_, newest, incarnation, reply);
                        done(std::move(reply));
                      });
  }

 private:
  CoordinatorCheck& check_;
  const uint64_t term_;
  CoordinatorEndpoint& coordinator_;
};

std::unique_ptr<CoordinatorEndpoint> CoordinatorCheck::Watch(uint64_t term,
                                                             CoordinatorEndpoint* coordinator) {
  return std::make_unique<Watched>(this, term, coordinator);
}

void CoordinatorCheck::BeginTerm(uint64_t term, const SavedJob* saved) {
  Base& base = bases_[term];
  if (saved != nullptr) {
    const v1::CoordinatorState& state = saved->state;
    base.version = state.view().version();
    base.phase = state.view().phase();
    for (const auto& server : state.view().servers())
      base.incarnations.insert(server.incarnation());
    for (const auto& worker : state.view().workers())
      base.incarnations.insert(worker.incarnation());
    base.incarnations.insert(state.replaced().begin(), state.replaced().end());
  }
  for (const auto& [earlier, told] : told_) {
    if (earlier < term) CheckKept(earlier, told, term, base);
  }
}

void CoordinatorCheck::CheckKept(uint64_t term) {
  for (const auto& [later, base] : bases_) {
    if (later > term) CheckKept(term, told_[term], later, base);
  }
}

void CoordinatorCheck::CheckKept(uint64_t term, const Told& told, uint64_t later,
                                 const Base& base) {
  const std::string what = absl::StrCat("kept before told: term ", term, " has told ");
  const std::string begins = absl::StrCat(", term ", later, " begins with ");
  if (told.version > base.version) {
    NoteFault(absl::StrCat(what, "view ", VersionText(told.version), begins, "view ",
                           VersionText(base.version)));
  }
  for (const uint64_t incarnation : told.incarnations) {
    if (base.incarnations.count(incarnation) > 0) continue;
    NoteFault(absl::StrCat(what, "process ", incarnation, " that it is a member", begins,
                           "nothing of it"));
  }
  if (IsEnd(told.end) && base.phase != told.end) {
    NoteFault(absl::StrCat(what, v1::Phase_Name(told.end), begins, v1::Phase_Name(base.phase)));
  }
}

void CoordinatorCheck::NoteReply(uint64_t term, uint64_t newest, uint64_t incarnation,
                                 const absl::StatusOr<CoordinatorReply>& reply) {
  if (!reply.ok()) {
    const absl::Status& status = reply.status();
    const bool is_order = !absl::IsUnavailable(status) && !absl::IsCancelled(status);
    if (is_order && newest > term) {
      NoteFault(absl::StrCat("orders of the latest term: term ", newest,
                             " had begun before a request came to term ", term, ", which says ",
                             status.ToString()));
    }
    return;
  }
  if (const auto* beat = std::get_if<v1::HeartbeatReply>(&*reply)) {
    if (!beat->view().empty()) NoteView(term, ViewOf(*beat).value());
  } else if (const auto* registered = std::get_if<v1::RegisterReply>(&*reply)) {
    if (registered->is_early()) return;
    told_[term].incarnations.insert(incarnation);
    CheckKept(term);
  }
}

void CoordinatorCheck::NoteView(uint64_t term, const v1::JobView& view) {
  std::string content = ContentOf(view);
  const auto [known, is_first] = views_.emplace(view.version(), content);
  if (!is_first) {
    if (known->second != content) {
      NoteFault(absl::StrCat("one view a version: view ", VersionText(view.version()),
                             " has two contents"));
    }
    return CheckKept(term);
  }
  Told& told = told_[term];
  if (IsEnd(told.end) && view.version() > told.version && view.phase() != told.end) {
    NoteFault(absl::StrCat("kept before told: phase ", v1::Phase_Name(view.phase()), " after ",
                           v1::Phase_Name(told.end)));
  }
  if (IsEnd(view.phase())) told.end = view.phase();
  told.version = std::max(told.version, view.version());
  CheckPeriods(view);
  CheckPlacement(view);
  CheckKept(term);
}

void CoordinatorCheck::CheckPeriods(const v1::JobView& view) {
  std::vector<std::string> periods;
  for (const auto& period : view.consistency()) periods.push_back(period.SerializeAsString());
  const size_t common = std::min(periods.size(), periods_.size());
  const bool is_later = view.version() >= periods_version_;
  const bool is_wrong =
      is_later ? periods.size() < periods_.size() : periods.size() > periods_.size();
  if (is_wrong || !std::equal(periods.begin(), periods.begin() + static_cast<ptrdiff_t>(common),
                              periods_.begin())) {
    NoteFault(absl::StrCat("periods stay: view ", VersionText(view.version()),
                           " has other periods of consistency than view ",
                           VersionText(periods_version_)));
  }
  if (!is_later) return;
  periods_ = std::move(periods);
  periods_version_ = view.version();
}

void CoordinatorCheck::CheckPlacement(const v1::JobView& view) {
  if (view.epoch() == 0) return;
  const std::vector<uint32_t> servers(view.server_of_shard().begin(), view.server_of_shard().end());
  if (server_of_shard_.emplace(view.epoch(), servers).first->second != servers) {
    NoteFault(absl::StrCat("one placement an epoch: epoch ", view.epoch(), " in view ",
                           VersionText(view.version()), " has another one than before"));
  }
  for (int shard = 0; shard < view.copies_size(); ++shard) {
    const v1::ShardCopy& copy = view.copies(shard);
    const auto key = std::make_pair(static_cast<uint32_t>(shard), copy.number());
    if (server_of_copy_.emplace(key, copy.server()).first->second != copy.server()) {
      NoteFault(absl::StrCat("one placement an epoch: copy ", copy.number(), " of shard ", shard,
                             " in view ", VersionText(view.version()), " is on another server"));
    }
  }
}

void CoordinatorCheck::NoteHeartbeat(const v1::HeartbeatRequest& heartbeat) {
  auto& [received, acted] = versions_of_member_[{heartbeat.incarnation(), heartbeat.part()}];
  if (heartbeat.received_version() < received || heartbeat.view_version() < acted) {
    NoteFault(absl::StrCat(
        "no lower view: process ", heartbeat.incarnation(), " has gone from view ",
        VersionText(std::max(received, acted)), " to view ",
        VersionText(std::min(heartbeat.received_version(), heartbeat.view_version()))));
  }
  received = std::max(received, heartbeat.received_version());
  acted = std::max(acted, heartbeat.view_version());
}

void CoordinatorCheck::NoteOutcome(absl::string_view reason) {
  outcomes_.emplace(reason);
  if (outcomes_.size() > 1) {
    NoteFault(absl::StrCat("one end: the job has ended by \"", *outcomes_.begin(), "\" and by \"",
                           *outcomes_.rbegin(), "\""));
  }
}

}  // namespace capstan
