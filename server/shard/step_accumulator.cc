#include "server/shard/step_accumulator.h"

#include <utility>

namespace capstan {
namespace {

void AddTo(absl::Span<float> sum, absl::Span<const float> addend) {
  float* __restrict to = sum.data();
  const float* __restrict from = addend.data();
  for (size_t i = 0; i < sum.size(); ++i) to[i] += from[i];
}

void Divide(absl::Span<float> values, float divisor) {
  for (float& value : values) value /= divisor;
}

}  // namespace

HostBuffer StepAccumulator::TakeBuffer() {
  if (spare_.empty()) return HostBuffer(slice_size_);
  HostBuffer buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

void StepAccumulator::Add(Step step, WorkerId worker, HostBuffer gradient) {
  steps_[step][worker] = std::move(gradient);
}

std::optional<Step> StepAccumulator::First() const {
  if (steps_.empty()) return std::nullopt;
  return steps_.begin()->first;
}

HostBuffer StepAccumulator::TakeOne(Step step) {
  const auto of_step = steps_.find(step);
  HostBuffer gradient = std::move(of_step->second.extract(of_step->second.begin()).mapped());
  if (of_step->second.empty()) steps_.erase(of_step);
  return gradient;
}

HostBuffer StepAccumulator::TakeMean(Step step) {
  auto gradients = std::move(steps_.extract(step).mapped());
  auto it = gradients.begin();
  HostBuffer sum = std::move(it->second);
  while (++it != gradients.end()) {
    AddTo(sum.span(), it->second.span());
    ReturnBuffer(std::move(it->second));
  }
  if (gradients.size() > 1) Divide(sum.span(), static_cast<float>(gradients.size()));
  return sum;
}

}  // namespace capstan
