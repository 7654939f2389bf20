#include "server/shard/step_accumulator.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/gradients.h"

namespace capstan {
namespace {

// In elements. The mean's block and a gradient's block fit into the core's own cache together.
constexpr size_t kBlock = 4096;

}  // namespace

HostBuffer StepAccumulator::TakeBuffer() {
  if (spare_.empty()) return HostBuffer(slice_size_);
  HostBuffer buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

void StepAccumulator::Add(Step step, WorkerId worker, HostBuffer gradient,
                          std::optional<uint64_t> base_version) {
  steps_[step][worker] = {std::move(gradient), base_version};
}

std::optional<Step> StepAccumulator::First() const {
  if (steps_.empty()) return std::nullopt;
  return steps_.begin()->first;
}

StepAccumulator::Kept StepAccumulator::TakeOne(Step step) {
  const auto of_step = steps_.find(step);
  Kept kept = std::move(of_step->second.extract(of_step->second.begin()).mapped());
  if (of_step->second.empty()) steps_.erase(of_step);
  return kept;
}

void StepAccumulator::ForEach(
    absl::FunctionRef<void(Step step, WorkerId worker, const Kept& kept)> use) const {
  for (const auto& [step, of_step] : steps_) {
    for (const auto& [worker, kept] : of_step) use(step, worker, kept);
  }
}

void StepAccumulator::TakeMean(
    Step step, absl::FunctionRef<void(size_t offset, absl::Span<const float> mean)> use) {
  auto of_step = std::move(steps_.extract(step).mapped());
  std::vector<const float*> gradients;
  for (const auto& [worker, kept] : of_step) gradients.push_back(kept.gradient.data());
  if (gradients.size() == 1) {
    use(0, {gradients[0], slice_size_});
  } else {
    alignas(64) float block[kBlock];
    for (size_t offset = 0; offset < slice_size_; offset += kBlock) {
      const absl::Span<float> mean(block, std::min(kBlock, slice_size_ - offset));
      Mean(gradients, mean);
      use(offset, mean);
      for (const float*& gradient : gradients) gradient += mean.size();
    }
  }
  for (auto& [worker, kept] : of_step) ReturnBuffer(std::move(kept.gradient));
}

}  // namespace capstan
