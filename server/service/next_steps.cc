#include "server/service/next_steps.h"

#include <atomic>
#include <memory>

namespace capstan {

void NextSteps::Follow(const v1::JobView& view, ShardHost& host, std::function<void()> on_found) {
  const Epoch epoch(view.epoch());
  std::map<Process, v1::NextStep> fresh;
  {
    MutexLock lock(&mu_);
    if (epoch_ != epoch) steps_.clear();
    epoch_ = epoch;
    std::map<Process, std::optional<v1::NextStep>> known;
    known.swap(steps_);
    for (const v1::WorkerInfo& worker : view.workers()) {
      if (!worker.is_live() || !worker.is_entering()) continue;
      const Process process{Incarnation(worker.incarnation()), worker.holds_place()};
      const auto found = known.find(process);
      if (found == known.end()) fresh[process].set_worker(worker.worker());
      steps_[process] = found == known.end() ? std::nullopt : found->second;
    }
  }
  if (fresh.empty()) return;
  for (auto& [process, next] : fresh) {
    const WorkerId worker(next.worker());
    next.set_incarnation(process.first.value());
    next.set_step((process.second ? host.OpenStep(worker) : host.NextStep(worker)).value());
  }
  const auto has_returned = std::make_shared<std::atomic<bool>>(false);
  host.AfterCopies(
      [this, epoch, fresh = std::move(fresh), has_returned, on_found = std::move(on_found)] {
        {
          MutexLock lock(&mu_);
          if (epoch_ != epoch) return;
          for (const auto& [process, next] : fresh) {
            if (const auto known = steps_.find(process); known != steps_.end())
              known->second = next;
          }
        }
        if (*has_returned) on_found();
      });
  *has_returned = true;
}

void NextSteps::Write(v1::HeartbeatRequest* heartbeat) const {
  MutexLock lock(&mu_);
  for (const auto& [process, next] : steps_) {
    if (next.has_value()) *heartbeat->add_next_steps() = *next;
  }
}

}  // namespace capstan
