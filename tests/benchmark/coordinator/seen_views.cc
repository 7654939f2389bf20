#include "tests/benchmark/coordinator/seen_views.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

SeenViews::Seen SeenOf(const v1::JobView& view) {
  SeenViews::Seen seen;
  seen.phase = view.phase();
  seen.servers_lost = static_cast<uint32_t>(
      std::count_if(view.servers().begin(), view.servers().end(),
                    [](const v1::ServerInfo& server) { return !server.is_live(); }));
  seen.copies_are_whole = !view.copies().empty() &&
                          std::all_of(view.copies().begin(), view.copies().end(),
                                      [](const v1::ShardCopy& copy) { return copy.is_whole(); });
  return seen;
}

}  // namespace

SeenViews::SeenViews(size_t num_members, Clock* clock) : clock_(clock), members_(num_members) {}

void SeenViews::OnView(size_t member, const v1::JobView& view) {
  const Seen seen = SeenOf(view);
  MutexLock lock(&mu_);
  members_[member].seen = seen;
  NoteLocked(members_[member]);
}

void SeenViews::OnLost(size_t member, const absl::Status& status) {
  MutexLock lock(&mu_);
  if (members_[member].has_left || !lost_.ok()) return;
  lost_ = absl::Status(status.code(), absl::StrCat("member ", member, ": ", status.message()));
  changed_.NotifyAll();
}

void SeenViews::Leave(size_t member) {
  MutexLock lock(&mu_);
  members_[member].has_left = true;
  NoteLocked(members_[member]);
}

void SeenViews::NoteLocked(Member& member) {
  if (!member.is_awaited || !(member.has_left || condition_(member.seen))) return;
  member.is_awaited = false;
  if (--num_awaited_ > 0) return;
  known_at_ = clock_->Now();
  changed_.NotifyAll();
}

absl::StatusOr<absl::Time> SeenViews::AwaitAll(Condition condition, absl::Duration patience) {
  MutexLock lock(&mu_);
  const absl::Time deadline = clock_->Now() + patience;
  condition_ = std::move(condition);
  known_at_ = clock_->Now();
  num_awaited_ = 0;
  for (Member& member : members_) {
    member.is_awaited = !member.has_left && !condition_(member.seen);
    num_awaited_ += member.is_awaited;
  }
  while (num_awaited_ > 0 && lost_.ok() && clock_->Now() < deadline) {
    clock_->WaitUntil(mu_, changed_, deadline);
  }
  if (!lost_.ok()) return lost_;
  if (num_awaited_ == 0) return known_at_;
  return absl::DeadlineExceededError(absl::StrCat(
      num_awaited_, " of ", members_.size(), " members have not seen it after ",
      absl::FormatDuration(patience), "; try fewer --members, or a machine with more cores"));
}

}  // namespace capstan
