#include "server/coordinator/plans/replica_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/ids.h"
#include "common/base/printable_text.h"
#include "common/job/job_properties.h"
#include "common/routing/placement.h"

namespace capstan {
namespace {

// Each member gets it with each view.
constexpr size_t kMostFaultBytes = 300;

// Until a copy that was given up is made again: the first time, and at most.
constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kMostPause = absl::Minutes(10);

bool IsWhole(const v1::ShardCopy& copy) { return copy.is_whole(); }

}  // namespace

void ReplicaPlan::OnPlacement(const JobFacts& facts) {
  if (facts.job.cluster().replicas() < 2) return;
  const ShardMap map(facts.tables.elements(), SliceBytes(facts.view.scheduler()),
                     facts.job.cluster().shard_count());
  std::vector<ServerId> shards;
  for (const uint32_t server : facts.view.server_of_shard()) shards.emplace_back(server);
  std::vector<std::string> hosts;
  for (const Member& server : facts.members.servers()) hosts.push_back(server.host);
  primaries_.resize(hosts.size());
  for (const ServerId server : PlaceCopies(map.shard_bytes(), shards, hosts)) {
    const auto shard = static_cast<uint32_t>(copies_.size());
    server_of_shard_.push_back(shards[shard].value());
    Primary& primary = primaries_[shards[shard].value()];
    primary.has_slices = primary.has_slices || !map.SlicesOf(ShardId(shard)).empty();
    v1::ShardCopy& copy = copies_.emplace_back();
    copy.set_server(server.value());
    copy.set_number(1);
  }
}

absl::Status ReplicaPlan::Report(const v1::HeartbeatRequest& heartbeat) {
  const uint32_t server = heartbeat.id();
  const bool is_server = heartbeat.role() == v1::HeartbeatRequest::SERVER;
  if (!is_server || !heartbeat.has_copies() || server >= primaries_.size()) return absl::OkStatus();
  const v1::CopyReport& report = heartbeat.copies();
  for (const v1::WholeCopy& whole : report.whole()) {
    v1::ShardCopy* const copy = Find(server, whole.shard(), whole.number());
    if (copy == nullptr || copy->is_whole()) continue;
    copy->set_is_whole(true);
    has_news_ = true;
    if (given_up_.count(whole.shard()) == 0) continue;
    events_.emplace_back(absl::StrCat("shard ", whole.shard(),
                                      " has two equal copies now, on servers ", server, " and ",
                                      copy->server()));
  }
  for (const v1::CopyFault& fault : report.faults()) TakeFault(server, fault);
  // An older report may arrive after a newer one.
  v1::CopyReport& sums = primaries_[server].sums;
  if (report.records() < sums.records()) return absl::OkStatus();
  sums = report;
  sums.clear_whole();
  sums.clear_faults();
  sums.clear_silent();
  for (const v1::SilentCopy& silent : report.silent()) {
    const bool is_known = Find(server, silent.shard(), silent.number()) != nullptr;
    if (is_known && silent.seconds() >= 0) *sums.add_silent() = silent;
  }
  return absl::OkStatus();
}

v1::ShardCopy* ReplicaPlan::Find(uint32_t primary, uint32_t shard, uint64_t number) {
  if (shard >= copies_.size() || server_of_shard_[shard] != primary) return nullptr;
  v1::ShardCopy& copy = copies_[shard];
  return copy.number() == number && copy.fault().empty() ? &copy : nullptr;
}

void ReplicaPlan::TakeFault(uint32_t primary, const v1::CopyFault& fault) {
  v1::ShardCopy* const copy = Find(primary, fault.shard(), fault.number());
  if (copy == nullptr) return;
  std::string text = PrintableText(fault.text().substr(0, kMostFaultBytes));
  if (text.empty()) text = "its server does not say how";
  copy->set_is_whole(false);
  copy->set_fault(text);
  has_news_ = true;
  GivenUp& given_up = given_up_[fault.shard()];
  given_up.pause = std::clamp(2 * given_up.pause, kFirstPause, kMostPause);
  JobEvent& event = events_.emplace_back(
      absl::StrCat("the copy of shard ", fault.shard(), " on server ", copy->server(),
                   " is given up, and server ", primary, " goes on without it: ", text,
                   "; another one is made in ", absl::FormatDuration(given_up.pause)));
  event.is_warning = true;
}

void ReplicaPlan::MakeAgain(const JobFacts& facts) {
  if (facts.has_ended() || facts.has_trained()) return;
  const absl::Time now = facts.clock.Now();
  for (auto& [shard, given_up] : given_up_) {
    v1::ShardCopy& copy = copies_[shard];
    if (copy.fault().empty()) continue;
    if (!given_up.due.has_value()) given_up.due = now + given_up.pause;
    if (now < *given_up.due) continue;
    given_up.due.reset();
    copy.set_number(copy.number() + 1);
    copy.clear_fault();
    has_news_ = true;
  }
}

bool ReplicaPlan::Settle(const JobFacts& facts, JobEvents& events) {
  MakeAgain(facts);
  for (JobEvent& event : events_) events.push_back(std::move(event));
  events_.clear();
  const bool has_news = std::exchange(has_news_, false);
  if (has_news && !has_told_whole_ && std::all_of(copies_.begin(), copies_.end(), IsWhole)) {
    has_told_whole_ = true;
    events.emplace_back(absl::StrCat("all ", copies_.size(), " shards have two equal copies"));
  }
  return has_news;
}

void ReplicaPlan::WriteToView(v1::JobView& view) const {
  view.mutable_copies()->Assign(copies_.begin(), copies_.end());
}

v1::CopyReport ReplicaPlan::Sums() const {
  v1::CopyReport sums;
  uint64_t equal_at = UINT64_MAX;
  for (const Primary& primary : primaries_) {
    const v1::CopyReport& one = primary.sums;
    sums.set_bytes_to_copy(sums.bytes_to_copy() + one.bytes_to_copy());
    sums.set_bytes_copied(sums.bytes_copied() + one.bytes_copied());
    sums.set_records(sums.records() + one.records());
    sums.set_record_bytes(sums.record_bytes() + one.record_bytes());
    sums.set_records_unanswered(sums.records_unanswered() + one.records_unanswered());
    sums.set_held_replies(sums.held_replies() + one.held_replies());
    sums.mutable_silent()->MergeFrom(one.silent());
    if (primary.has_slices) equal_at = std::min(equal_at, one.equal_at_version());
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
    } else if (!copy.fault().empty()) {
      v1::CopyFault& fault = *report.add_faults();
      fault.set_shard(shard);
      fault.set_number(copy.number());
      fault.set_text(copy.fault());
    }
  }
}

}  // namespace capstan
