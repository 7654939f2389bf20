#include "server/coordinator/plans/replica_plan.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/ids.h"
#include "common/base/printable_text.h"
#include "common/routing/placement.h"

namespace capstan {
namespace {

// Each member gets it with each view.
constexpr size_t kMostFaultBytes = 300;

// Until a copy that was given up is made again: the first time, and at most.
constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kMostPause = absl::Minutes(10);

bool IsWhole(const v1::ShardCopy& copy) { return copy.is_whole(); }

// "1 shard", "12 shards".
std::string ShardsText(size_t count) {
  return absl::StrCat(count, count == 1 ? " shard" : " shards");
}

}  // namespace

void ReplicaPlan::OnPlacement(const JobFacts& facts) {
  if (!facts.has_copies()) return;
  std::vector<ServerId> shards;
  for (const uint32_t server : facts.view.server_of_shard()) shards.emplace_back(server);
  std::vector<std::string> hosts;
  for (const Member& server : facts.members.servers()) hosts.push_back(server.host);
  sums_.resize(hosts.size());
  for (const ServerId server : PlaceCopies(facts.shard_bytes, shards, hosts)) {
    v1::ShardCopy& copy = copies_.emplace_back();
    copy.set_server(server.value());
    copy.set_number(1);
  }
}

uint32_t ReplicaPlan::ShardsWithoutCopy(uint32_t server) const {
  uint32_t count = 0;
  for (uint32_t shard = 0; shard < facts_.shard_bytes.size(); ++shard) {
    if (PrimaryOf(shard) != server || facts_.shard_bytes[shard] == 0) continue;
    count += copies_.empty() || !copies_[shard].is_whole();
  }
  return count;
}

std::map<uint32_t, uint32_t> ReplicaPlan::LoseServer(uint32_t server) {
  const std::vector<Member>& servers = facts_.members.servers();
  const auto live =
      std::find_if(servers.begin(), servers.end(), [](const Member& one) { return one.is_live(); });
  CHECK(live != servers.end());
  const auto first_live = static_cast<uint32_t>(live - servers.begin());
  std::map<uint32_t, uint32_t> taken;
  for (uint32_t shard = 0; shard < copies_.size(); ++shard) {
    v1::ShardCopy& copy = copies_[shard];
    if (PrimaryOf(shard) == server) {
      // A shard without slices needs no copy.
      const uint32_t heir = facts_.members.IsLiveServer(copy.server()) ? copy.server() : first_live;
      facts_.view.set_server_of_shard(static_cast<int>(shard), heir);
      ++taken[heir];
    } else if (copy.server() != server) {
      continue;
    }
    copy.set_is_whole(false);
    copy.set_fault(absl::StrCat("server ", server, " is lost"));
    given_up_[shard] = GivenUp();
  }
  sums_of_lost_.set_records(sums_of_lost_.records() + sums_[server].records());
  sums_of_lost_.set_record_bytes(sums_of_lost_.record_bytes() + sums_[server].record_bytes());
  sums_[server].Clear();
  has_told_whole_ = false;
  has_news_ = true;
  return taken;
}

uint32_t ReplicaPlan::CopiesNotWhole() const {
  return static_cast<uint32_t>(copies_.size() -
                               std::count_if(copies_.begin(), copies_.end(), IsWhole));
}

absl::Status ReplicaPlan::Report(const v1::HeartbeatRequest& heartbeat) {
  const uint32_t server = heartbeat.id();
  const bool is_server = heartbeat.role() == v1::HeartbeatRequest::SERVER;
  if (!is_server || !heartbeat.has_copies() || server >= sums_.size()) return absl::OkStatus();
  const v1::CopyReport& report = heartbeat.copies();
  for (const v1::WholeCopy& whole : report.whole()) {
    v1::ShardCopy* const copy = Find(server, whole.shard(), whole.number());
    if (copy == nullptr || copy->is_whole()) continue;
    copy->set_is_whole(true);
    has_news_ = true;
    const auto given_up = given_up_.find(whole.shard());
    if (given_up == given_up_.end() || given_up->second.pause == absl::ZeroDuration()) continue;
    events_.emplace_back(absl::StrCat("shard ", whole.shard(),
                                      " has two equal copies now, on servers ", server, " and ",
                                      copy->server()));
  }
  for (const v1::CopyFault& fault : report.faults()) TakeFault(server, fault);
  // An older report may arrive after a newer one.
  v1::CopyReport& sums = sums_[server];
  if (report.records() < sums.records()) return absl::OkStatus();
  sums = report;
  sums.clear_whole();
  sums.clear_faults();
  sums.clear_silent();
  TakeSilence(server, report);
  for (const v1::SilentCopy& silent : report.silent()) {
    const bool is_known = Find(server, silent.shard(), silent.number()) != nullptr;
    if (is_known && silent.seconds() >= 0) *sums.add_silent() = silent;
  }
  return absl::OkStatus();
}

v1::ShardCopy* ReplicaPlan::Find(uint32_t primary, uint32_t shard, uint64_t number) {
  if (shard >= copies_.size() || PrimaryOf(shard) != primary) return nullptr;
  v1::ShardCopy& copy = copies_[shard];
  return copy.number() == number && copy.fault().empty() ? &copy : nullptr;
}

void ReplicaPlan::TakeFault(uint32_t primary, const v1::CopyFault& fault) {
  v1::ShardCopy* const copy = Find(primary, fault.shard(), fault.number());
  if (copy == nullptr) return;
  std::string text = PrintableText(fault.text().substr(0, kMostFaultBytes));
  if (text.empty()) text = "its server does not say how";
  const absl::Duration pause = GiveUp(fault.shard(), text);
  JobEvent& event = events_.emplace_back(
      absl::StrCat("the copy of shard ", fault.shard(), " on server ", copy->server(),
                   " is given up, and server ", primary, " goes on without it: ", text,
                   "; another one is made in ", absl::FormatDuration(pause)));
  event.is_warning = true;
}

void ReplicaPlan::TakeSilence(uint32_t primary, const v1::CopyReport& report) {
  const double lease = facts_.job.membership().lease_seconds();
  std::map<uint32_t, size_t> given_up;  // the number of shards, by the copy's server
  for (const v1::SilentCopy& silent : report.silent()) {
    const v1::ShardCopy* const copy = Find(primary, silent.shard(), silent.number());
    if (copy == nullptr || !(silent.seconds() >= lease)) continue;
    ++given_up[copy->server()];
    GiveUp(silent.shard(),
           absl::StrCat("server ", copy->server(), " has acknowledged nothing for ", lease, " s"));
  }
  for (const auto& [server, count] : given_up) {
    JobEvent& event = events_.emplace_back(absl::StrCat(
        "server ", server, " has acknowledged nothing for ", lease, " s: the copies there of ",
        ShardsText(count), " of server ", primary, " are given up, and others are made"));
    event.is_warning = true;
  }
}

absl::Duration ReplicaPlan::GiveUp(uint32_t shard, const std::string& fault) {
  copies_[shard].set_is_whole(false);
  copies_[shard].set_fault(fault);
  has_news_ = true;
  GivenUp& given_up = given_up_[shard];
  given_up.pause = std::clamp(2 * given_up.pause, kFirstPause, kMostPause);
  return given_up.pause;
}

void ReplicaPlan::MakeAgain(const JobFacts& facts) {
  const bool is_needed = !facts.has_ended() && facts.view.phase() != v1::SAVING;
  if (!is_needed || facts.members.LiveServerCount() < 2) return;
  const absl::Time now = facts.clock.Now();
  std::vector<ServerRoom> rooms;
  for (auto& [shard, given_up] : given_up_) {
    v1::ShardCopy& copy = copies_[shard];
    if (copy.fault().empty()) continue;
    if (!given_up.due.has_value()) given_up.due = now + given_up.pause;
    if (now < *given_up.due) continue;
    if (rooms.empty()) rooms = Rooms();
    const std::optional<uint32_t> server = ServerForCopy(shard, rooms);
    if (!server.has_value()) continue;
    rooms[*server].bytes += facts.shard_bytes[shard];
    given_up.due.reset();
    copy.set_server(*server);
    copy.set_number(copy.number() + 1);
    copy.clear_fault();
    has_news_ = true;
  }
}

std::vector<ServerRoom> ReplicaPlan::Rooms() const {
  std::vector<ServerRoom> rooms;
  for (const Member& server : facts_.members.servers()) {
    rooms.push_back({server.host, server.is_live(), /*bytes=*/0});
  }
  for (uint32_t shard = 0; shard < copies_.size(); ++shard) {
    rooms[PrimaryOf(shard)].bytes += facts_.shard_bytes[shard];
    const v1::ShardCopy& copy = copies_[shard];
    if (copy.fault().empty()) rooms[copy.server()].bytes += facts_.shard_bytes[shard];
  }
  return rooms;
}

std::optional<uint32_t> ReplicaPlan::ServerForCopy(uint32_t shard,
                                                   const std::vector<ServerRoom>& rooms) const {
  const uint32_t before = copies_[shard].server();
  if (rooms[before].is_live && before != PrimaryOf(shard)) return before;
  const std::optional<ServerId> server = PlaceCopy(ServerId(PrimaryOf(shard)), rooms);
  if (!server.has_value()) return std::nullopt;
  return server->value();
}

bool ReplicaPlan::Settle(const JobFacts& facts, JobEvents& events) {
  MakeAgain(facts);
  for (JobEvent& event : events_) events.push_back(std::move(event));
  events_.clear();
  const bool has_news = std::exchange(has_news_, false);
  if (has_news && !has_told_whole_ && CopiesNotWhole() == 0) {
    has_told_whole_ = true;
    events.emplace_back(absl::StrCat("all ", copies_.size(), " shards have two equal copies",
                                     std::exchange(were_whole_, true) ? " again" : ""));
  }
  return has_news;
}

void ReplicaPlan::WriteToView(v1::JobView& view) const {
  view.mutable_copies()->Assign(copies_.begin(), copies_.end());
}

void ReplicaPlan::Restore(const v1::CoordinatorState& state, const JobFacts& facts) {
  const auto& copies = state.view().copies();
  copies_.assign(copies.begin(), copies.end());
  if (!copies_.empty()) sums_.resize(facts.members.servers().size());
  for (uint32_t shard = 0; shard < copies_.size(); ++shard) {
    if (!copies_[shard].fault().empty()) given_up_[shard] = GivenUp();
  }
  were_whole_ = true;
  has_told_whole_ = CopiesNotWhole() == 0;
}

v1::CopyReport ReplicaPlan::Sums() const {
  std::vector<bool> has_slices(sums_.size());
  for (uint32_t shard = 0; shard < copies_.size(); ++shard) {
    if (facts_.shard_bytes[shard] > 0) has_slices[PrimaryOf(shard)] = true;
  }
  v1::CopyReport sums = sums_of_lost_;
  uint64_t equal_at = UINT64_MAX;
  for (uint32_t server = 0; server < sums_.size(); ++server) {
    const v1::CopyReport& one = sums_[server];
    sums.set_bytes_to_copy(sums.bytes_to_copy() + one.bytes_to_copy());
    sums.set_bytes_copied(sums.bytes_copied() + one.bytes_copied());
    sums.set_records(sums.records() + one.records());
    sums.set_record_bytes(sums.record_bytes() + one.record_bytes());
    sums.set_records_unanswered(sums.records_unanswered() + one.records_unanswered());
    sums.set_held_replies(sums.held_replies() + one.held_replies());
    sums.mutable_silent()->MergeFrom(one.silent());
    if (has_slices[server]) equal_at = std::min(equal_at, one.equal_at_version());
  }
  sums.set_equal_at_version(equal_at == UINT64_MAX ? 0 : equal_at);
  return sums;
}

void ReplicaPlan::WriteToStatus(v1::GetStatusReply& status) const {
  if (copies_.empty()) return;
  v1::CopyReport& report = *status.mutable_copies();
  report = Sums();
  for (uint32_t shard = 0; shard < copies_.size(); ++shard) {
    const v1::ShardCopy& copy = copies_[shard];
    if (copy.is_whole()) {
      v1::WholeCopy& whole = *report.add_whole();
      whole.set_shard(shard);
      whole.set_number(copy.number());
    } else if (!copy.fault().empty() && given_up_.at(shard).pause > absl::ZeroDuration()) {
      v1::CopyFault& fault = *report.add_faults();
      fault.set_shard(shard);
      fault.set_number(copy.number());
      fault.set_text(copy.fault());
    }
  }
}

}  // namespace capstan
