#include "deploy/launch/worker_replacement.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "deploy/launch/restart_plan.h"

namespace capstan {

absl::Status WorkerReplacement::Replace(const LocalJob::Ended& lost, const v1::JobView& view,
                                        const std::string& coordinator) {
  display_.Notice(absl::StrCat(lost.ToString(), "; another takes its place"));
  if (lost.rank.has_value() && *lost.rank < view.workers_size()) {
    gone_.insert(view.workers(*lost.rank).incarnation());
  }
  return job_.ReplaceWorker(lost, coordinator);
}

void WorkerReplacement::EndSilentWorkers(const v1::JobView& view) {
  if (!RestartPlan::AreHeld(view)) return;
  for (const v1::WorkerInfo& worker : view.workers()) {
    const bool is_lost = worker.holds_place() && !worker.is_live() && !worker.has_left();
    const std::optional<std::string> name = job_.RunningWorker(static_cast<int>(worker.worker()));
    if (!is_lost || !name.has_value() || !gone_.insert(worker.incarnation()).second) continue;
    display_.Notice(absl::StrCat(*name, " is lost to the job, but runs: it is killed"));
    job_.KillWorker(static_cast<int>(worker.worker()));
  }
}

}  // namespace capstan
