#include "server/consistency/step_vector.h"

#include <algorithm>
#include <optional>

namespace capstan {

void StepVector::Add(absl::Span<const WorkerId> workers) {
  for (const WorkerId worker : workers) {
    Worker& entry = workers_[worker];
    entry.completed = std::max(entry.completed, min_step_);
    entry.is_live = true;
    entry.first_step.reset();
  }
  UpdateMinStep();
}

void StepVector::Enter(WorkerId worker, Step first_step) {
  Worker& entry = workers_.at(worker);
  entry.completed = std::max(entry.completed, first_step);
  entry.first_step = first_step;
  UpdateMinStep();
}

void StepVector::Remove(WorkerId worker) {
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return;
  it->second.is_live = false;
  it->second.first_step.reset();
  UpdateMinStep();
}

bool StepVector::Advance(WorkerId worker, Step step) {
  Worker& entry = workers_[worker];
  if (step < entry.completed) return false;
  entry.completed = step + 1;
  UpdateMinStep();
  return true;
}

void StepVector::EndFirstStep(WorkerId worker, Step step) {
  if (BeginsWith(worker, step)) workers_[worker].first_step.reset();
}

uint64_t StepVector::live_count() const {
  return std::count_if(workers_.begin(), workers_.end(),
                       [](const auto& worker) { return worker.second.is_live; });
}

std::vector<StepVector::Entry> StepVector::entries() const {
  std::vector<Entry> entries;
  for (const auto& [id, worker] : workers_)
    entries.push_back({id, worker.completed, worker.is_live, worker.first_step});
  return entries;
}

void StepVector::Restore(absl::Span<const Entry> entries, Step min_step) {
  for (const Entry& entry : entries) workers_[entry.worker] = {entry.completed, entry.is_live};
  min_step_ = min_step;
}

void StepVector::Follow(absl::Span<const Entry> entries, Step min_step) {
  workers_.clear();
  for (const Entry& entry : entries) {
    workers_[entry.worker] = {entry.completed, entry.is_live, entry.first_step};
  }
  min_step_ = min_step;
}

void StepVector::Follow(WorkerId worker, Step completed, Step min_step) {
  workers_[worker].completed = completed;
  min_step_ = min_step;
}

void StepVector::UpdateMinStep() {
  std::optional<Step> smallest;
  for (const auto& [worker, entry] : workers_) {
    if (!entry.is_live) continue;
    smallest = smallest.has_value() ? std::min(*smallest, entry.completed) : entry.completed;
  }
  if (smallest.has_value()) min_step_ = std::max(min_step_, *smallest);
}

}  // namespace capstan
