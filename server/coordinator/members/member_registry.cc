#include "server/coordinator/members/member_registry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/host_port.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/routing/routing_table.h"

namespace capstan {
namespace {

// "3 to 7", or "3".
std::string RanksText(size_t first, size_t end) {
  if (end - first == 1) return absl::StrCat(first);
  return absl::StrCat(first, " to ", end - 1);
}

// "3 of 8 workers (0 to 2)".
std::string PresentText(Role role, size_t present, size_t places) {
  std::string text = absl::StrCat(present, " of ", places, " ", RoleName(role), "s");
  if (present > 0) absl::StrAppend(&text, " (", RanksText(0, present), ")");
  return text;
}

// "workers 3 to 7".
std::string MissingText(Role role, size_t present, size_t places) {
  return absl::StrCat(RoleName(role), places - present == 1 ? " " : "s ",
                      RanksText(present, places));
}

}  // namespace

bool HasFinished(const v1::Progress& progress) {
  return progress.steps_total() > 0 && progress.steps_done() == progress.steps_total();
}

void Member::Update(const v1::HeartbeatRequest& heartbeat) {
  view_version = std::max(view_version, heartbeat.view_version());
  if (heartbeat.has_progress() && heartbeat.progress().steps_done() >= progress.steps_done()) {
    progress = heartbeat.progress();
    progress.set_device(CutText(progress.device()));
    progress.set_transport(CutText(progress.transport()));
  }
  const bool is_server = heartbeat.role() == v1::HeartbeatRequest::SERVER;
  if (is_server && heartbeat.load().seconds() >= load.seconds()) load = heartbeat.load();
}

std::vector<Member>& MemberRegistry::OfRole(Role role) {
  return role == v1::HeartbeatRequest::SERVER ? servers_ : workers_;
}

std::optional<uint32_t> MemberRegistry::FindIncarnation(Role role, Incarnation incarnation) const {
  const std::vector<Member>& members = role == v1::HeartbeatRequest::SERVER ? servers_ : workers_;
  for (uint32_t id = 0; id < members.size(); ++id) {
    if (members[id].incarnation == incarnation) return id;
  }
  return std::nullopt;
}

absl::StatusOr<uint32_t> MemberRegistry::Add(Role role, Incarnation incarnation,
                                             const ServerAddress& address,
                                             const std::string& host) {
  std::vector<Member>& members = OfRole(role);
  const uint32_t places = role == v1::HeartbeatRequest::SERVER ? num_servers_ : num_workers_;
  if (members.size() >= places) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job has its ", places, " ", RoleName(role), "s already; start one ", RoleName(role),
        " less, or raise cluster.num_", RoleName(role), "s and start the job again"));
  }
  Member& member = members.emplace_back();
  member.incarnation = incarnation;
  member.address = address;
  member.host = host;
  return static_cast<uint32_t>(members.size() - 1);
}

std::optional<uint32_t> MemberRegistry::FindDeadWorker(std::optional<uint32_t> rank) const {
  std::optional<uint32_t> first;
  for (uint32_t id = 0; id < workers_.size(); ++id) {
    if (workers_[id].is_live() || id != rank.value_or(id)) continue;
    if (workers_[id].holds_place) return id;
    first = first.value_or(id);
  }
  return first;
}

absl::StatusOr<uint32_t> MemberRegistry::TakePlaceOfDeadWorker(Incarnation incarnation,
                                                               std::optional<uint32_t> rank) {
  if (const std::optional<uint32_t> id = FindDeadWorker(rank)) {
    Member& place = workers_[*id];
    if (place.is_lost()) replaced_workers_.push_back(place.progress);
    replaced_.insert(place.incarnation);
    Member member;
    member.incarnation = incarnation;
    member.entered_late = !place.holds_place;
    member.holds_place = place.holds_place;
    member.lost_at = place.lost_at;
    place = std::move(member);
    return *id;
  }
  if (rank.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("worker ", *rank,
                     " is live: give each worker a rank of its own, or wait for the lease of the "
                     "lost one to run out"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the job has its ", num_workers_,
      " workers already, and all are live: start one worker less, or wait for the lease "
      "of a lost one to run out"));
}

std::optional<uint32_t> MemberRegistry::TakePlaceOfDeadServer(Incarnation incarnation,
                                                              const ServerAddress& address,
                                                              const std::string& host) {
  const auto is_dead = [](const Member& server) { return !server.is_live(); };
  auto place = std::find_if(servers_.begin(), servers_.end(), [&](const Member& server) {
    return is_dead(server) && server.address.grpc == address.grpc;
  });
  if (place == servers_.end()) place = std::find_if(servers_.begin(), servers_.end(), is_dead);
  if (place == servers_.end()) return std::nullopt;
  replaced_.insert(place->incarnation);
  ++servers_replaced_;
  *place = Member();
  place->incarnation = incarnation;
  place->address = address;
  place->host = host;
  return static_cast<uint32_t>(place - servers_.begin());
}

void MemberRegistry::BeginAt(uint32_t worker, Step first_step) {
  workers_.at(worker).first_step = first_step;
  latest_first_step_ = std::max(latest_first_step_, first_step);
}

absl::StatusOr<Member*> MemberRegistry::Find(MemberKey key, Incarnation incarnation) {
  RETURN_IF_ERROR(CheckRole(key.role));
  std::vector<Member>& members = OfRole(key.role);
  if (key.id >= members.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat(MemberName(key),
                     " has not registered; register first, this coordinator may "
                     "have been restarted"));
  }
  Member& member = members[key.id];
  if (member.incarnation != incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(
        MemberName(key), " is another process (incarnation ", member.incarnation.value(), ", not ",
        incarnation.value(), "); stop this one: it belongs to an earlier start or to another job"));
  }
  if (!member.is_live()) {
    return absl::FailedPreconditionError(
        absl::StrCat(MemberName(key), " ", member.end, "; this process must stop"));
  }
  return &member;
}

std::set<std::string> MemberRegistry::Hosts() const {
  std::set<std::string> hosts;
  for (const Member& server : servers_) hosts.insert(server.host);
  for (const Member& worker : workers_) hosts.insert(worker.host);
  return hosts;
}

bool MemberRegistry::Lacks(Role role) const {
  if (role == v1::HeartbeatRequest::SERVER) return servers_.size() < num_servers_;
  return workers_.size() < num_workers_;
}

std::string MemberRegistry::RollCall() const {
  constexpr Role kServer = v1::HeartbeatRequest::SERVER, kWorker = v1::HeartbeatRequest::WORKER;
  std::vector<std::string> missing;
  if (Lacks(kServer)) missing.push_back(MissingText(kServer, servers_.size(), num_servers_));
  if (Lacks(kWorker)) missing.push_back(MissingText(kWorker, workers_.size(), num_workers_));
  return absl::StrCat(PresentText(kServer, servers_.size(), num_servers_), " and ",
                      PresentText(kWorker, workers_.size(), num_workers_), " have registered; ",
                      absl::StrJoin(missing, " and "), " missing");
}

bool MemberRegistry::ServersHaveSeen(uint64_t view_version) const {
  return std::all_of(servers_.begin(), servers_.end(), [view_version](const Member& server) {
    return !server.is_live() || server.view_version >= view_version;
  });
}

size_t MemberRegistry::LiveServerCount() const {
  return static_cast<size_t>(std::count_if(servers_.begin(), servers_.end(),
                                           [](const Member& one) { return one.is_live(); }));
}

bool MemberRegistry::LiveWorkersHaveFinished() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const Member& worker) {
    return worker.is_live() ? HasFinished(worker.progress) : !worker.holds_place;
  });
}

bool MemberRegistry::HasWorkers() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Member& worker) { return worker.is_live() || worker.holds_place; });
}

std::optional<uint32_t> MemberRegistry::LowestLiveWorker() const {
  for (uint32_t id = 0; id < workers_.size(); ++id) {
    if (workers_[id].is_live()) return id;
  }
  return std::nullopt;
}

bool MemberRegistry::HasEnteringWorkers() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Member& worker) { return worker.is_entering; });
}

std::vector<const Member*> MemberRegistry::Computing() const {
  std::vector<const Member*> computing;
  for (const Member& worker : workers_) {
    if (!worker.is_live() || worker.is_entering || HasFinished(worker.progress)) continue;
    computing.push_back(&worker);
  }
  return computing;
}

void MemberRegistry::WriteTo(v1::JobView& view) const {
  view.clear_servers();
  for (uint32_t id = 0; id < servers_.size(); ++id) {
    v1::ServerInfo& info = *view.add_servers();
    info.set_server(id);
    info.set_incarnation(servers_[id].incarnation.value());
    info.set_address(servers_[id].address.grpc);
    info.set_is_live(servers_[id].is_live());
  }
  view.clear_workers();
  for (uint32_t id = 0; id < workers_.size(); ++id) {
    v1::WorkerInfo& info = *view.add_workers();
    info.set_worker(id);
    info.set_incarnation(workers_[id].incarnation.value());
    info.set_is_live(workers_[id].is_live());
    info.set_first_step(workers_[id].first_step.value());
    info.set_is_entering(workers_[id].is_entering);
    info.set_holds_place(workers_[id].holds_place);
    info.set_has_left(workers_[id].has_left);
    info.set_entered_late(workers_[id].entered_late);
  }
}

void MemberRegistry::WriteTo(v1::CoordinatorState& state, bool has_ended) const {
  for (const Member& server : servers_) {
    v1::MemberState& written = *state.add_servers();
    written.set_host(server.host);
    written.set_end(server.end);
  }
  for (const Member& worker : workers_) {
    v1::MemberState& written = *state.add_workers();
    written.set_host(worker.host);
    written.set_end(worker.end);
    written.set_is_needless(worker.is_needless);
    if (!worker.is_live() || has_ended) *written.mutable_progress() = worker.progress;
  }
  for (const Incarnation replaced : replaced_) state.add_replaced(replaced.value());
  state.mutable_replaced_workers()->Add(replaced_workers_.begin(), replaced_workers_.end());
  state.set_servers_replaced(static_cast<uint32_t>(servers_replaced_));
  state.set_latest_first_step(latest_first_step_.value());
}

void MemberRegistry::Restore(const v1::CoordinatorState& state) {
  for (int id = 0; id < state.servers_size(); ++id) {
    const v1::ServerInfo& info = state.view().servers(id);
    Member& server = servers_.emplace_back();
    server.incarnation = Incarnation(info.incarnation());
    server.address = {info.address()};
    server.host = state.servers(id).host();
    server.end = state.servers(id).end();
  }
  for (int id = 0; id < state.workers_size(); ++id) {
    const v1::WorkerInfo& info = state.view().workers(id);
    Member& worker = workers_.emplace_back();
    worker.incarnation = Incarnation(info.incarnation());
    worker.host = state.workers(id).host();
    worker.end = state.workers(id).end();
    worker.progress = state.workers(id).progress();
    worker.first_step = Step(info.first_step());
    worker.is_entering = info.is_entering();
    worker.is_needless = state.workers(id).is_needless();
    worker.has_left = info.has_left();
    worker.entered_late = info.entered_late();
    worker.holds_place = info.holds_place();
  }
  for (const uint64_t replaced : state.replaced()) replaced_.insert(Incarnation(replaced));
  replaced_workers_.assign(state.replaced_workers().begin(), state.replaced_workers().end());
  servers_replaced_ = state.servers_replaced();
  latest_first_step_ = Step(state.latest_first_step());
}

absl::Status CheckRole(Role role) {
  if (role == v1::HeartbeatRequest::SERVER || role == v1::HeartbeatRequest::WORKER) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("role ", static_cast<int>(role), " is not SERVER or WORKER"));
}

absl::Status CheckAddress(absl::string_view address) {
  return ParseHostPort("the address under which workers reach the server", address).status();
}

}  // namespace capstan
