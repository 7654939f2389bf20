#include "server/coordinator/entering_workers.h"

#include <algorithm>

namespace capstan {

void EnteringWorkers::Begin(uint32_t worker, Incarnation incarnation) {
  entering_[worker] = {incarnation, {}};
}

void EnteringWorkers::Report(uint32_t server, const v1::NextStep& next_step) {
  const auto it = entering_.find(next_step.worker());
  if (it == entering_.end()) return;
  if (it->second.incarnation != Incarnation(next_step.incarnation())) return;
  it->second.next_steps[server] = Step(next_step.step());
}

std::vector<std::pair<uint32_t, Step>> EnteringWorkers::TakeReady(size_t num_servers) {
  std::vector<std::pair<uint32_t, Step>> ready;
  for (auto it = entering_.begin(); it != entering_.end();) {
    if (it->second.next_steps.size() < num_servers) {
      ++it;
      continue;
    }
    Step first_step;
    for (const auto& [server, step] : it->second.next_steps) {
      first_step = std::max(first_step, step);
    }
    ready.emplace_back(it->first, first_step);
    it = entering_.erase(it);
  }
  return ready;
}

}  // namespace capstan
