#include "deploy/launch/member_replacement.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

namespace capstan {

absl::Status MemberReplacement::ReplaceWorker(const LocalJob::Ended& lost, const v1::JobView& view,
                                              const std::string& coordinator) {
  display_.Notice(absl::StrCat(lost.ToString(), "; another takes its place"));
  if (lost.rank.has_value() && *lost.rank < view.workers_size()) {
    gone_.insert(view.workers(*lost.rank).incarnation());
  }
  return job_.Replace(lost, coordinator);
}

absl::Status MemberReplacement::FollowServerLoss(const LocalJob::Ended& lost,
                                                 const v1::GetStatusReply& status,
                                                 const std::string& coordinator) {
  silent_servers_.erase(lost.address);
  const std::string refusal = restarts_ == nullptr
                                  ? "--restart=never"
                                  : restarts_->AfterLostServer(status, !lost.address.empty());
  const std::string text =
      absl::StrCat(lost.ToString(), lost.address.empty() ? "; it had no shards so far"
                                                         : "; other servers have its shards");
  if (!refusal.empty()) {
    display_.Notice(absl::StrCat(text, ", and no other one is started: ", refusal));
    return absl::OkStatus();
  }
  display_.Notice(absl::StrCat(text, ", and another one is started in its place"));
  return job_.Replace(lost, coordinator);
}

void MemberReplacement::EndSilentMembers(const v1::JobView& view, absl::Time now) {
  if (restarts_ != nullptr && restarts_->replaces_workers()) EndSilentWorkers(view);
  if (MaySurviveServerLoss(view)) EndSilentServers(view, now);
}

void MemberReplacement::EndSilentWorkers(const v1::JobView& view) {
  if (!RestartPlan::AreHeld(view)) return;
  for (const v1::WorkerInfo& worker : view.workers()) {
    const bool is_lost = worker.holds_place() && !worker.is_live() && !worker.has_left();
    const std::optional<std::string> name = job_.RunningWorker(static_cast<int>(worker.worker()));
    if (!is_lost || !name.has_value() || !gone_.insert(worker.incarnation()).second) continue;
    display_.Notice(absl::StrCat(*name, " is lost to the job, but runs: it is killed"));
    job_.KillWorker(static_cast<int>(worker.worker()));
  }
}

void MemberReplacement::EndSilentServers(const v1::JobView& view, absl::Time now) {
  for (const v1::ServerInfo& server : view.servers()) {
    const std::optional<std::string> name =
        server.is_live() ? std::nullopt : job_.RunningServer(server.address());
    if (!name.has_value()) continue;
    absl::Time& end =
        silent_servers_.emplace(server.address(), now + server_patience_).first->second;
    if (now < end) continue;
    // It is told once.
    end = absl::InfiniteFuture();
    display_.Notice(absl::StrCat(*name, " is lost to the job, but runs: it is killed"));
    job_.KillServer(server.address());
  }
}

bool MaySurviveServerLoss(const v1::JobView& view) {
  const bool is_running =
      view.phase() == v1::TRAINING || view.phase() == v1::EVALUATING || view.phase() == v1::SAVING;
  return is_running && view.copies_size() > 0;
}

bool IsLossKnown(const LocalJob::Ended& server, const v1::JobView& view) {
  return std::none_of(view.servers().begin(), view.servers().end(), [&](const v1::ServerInfo& one) {
    return one.is_live() && one.address() == server.address;
  });
}

}  // namespace capstan
