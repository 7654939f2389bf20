#include "server/shard/step_accumulator.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/gradients.h"

namespace capstan {
namespace {

size_t EncodedSize(const Codec* codec, size_t slice_size) {
  return codec == nullptr ? slice_size * sizeof(float) : codec->EncodedBytes(slice_size);
}

// Adds the elements from `offset` on to `sum`.
void AddBlock(const StepAccumulator::Kept& kept, size_t slice_size, size_t offset,
              absl::Span<float> sum) {
  if (kept.codec != nullptr) {
    const size_t bytes = kept.codec->EncodedBytes(slice_size);
    return kept.codec->DecodeAdd(kept.gradient.bytes().first(bytes), slice_size, offset, sum);
  }
  const float* const values = kept.gradient.data() + offset;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
}

}  // namespace

HostBuffer StepAccumulator::TakeBuffer(const Codec* codec) {
  const size_t size = (EncodedSize(codec, slice_size_) + sizeof(float) - 1) / sizeof(float);
  if (size != std::exchange(buffer_size_, size)) spare_.clear();
  if (spare_.empty()) return HostBuffer(size);
  HostBuffer buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

void StepAccumulator::ReturnBuffer(HostBuffer buffer) {
  // That of an empty push has no memory.
  if (buffer.size() == 0) return;
  if (!buffer.is_shared() && buffer.size() == buffer_size_) spare_.push_back(std::move(buffer));
}

void StepAccumulator::Add(Step step, WorkerId worker, Kept push) {
  steps_[step][worker] = std::move(push);
}

const StepAccumulator::Kept* StepAccumulator::FirstGradient(Step step) const {
  const auto of_step = steps_.find(step);
  if (of_step == steps_.end()) return nullptr;
  for (const auto& [worker, kept] : of_step->second) {
    if (!kept.is_empty()) return &kept;
  }
  return nullptr;
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

void StepAccumulator::ForEachBlock(const Kept& kept, UseBlock use) const {
  if (kept.codec == nullptr) return use(0, kept.gradient.span());
  const size_t bytes = kept.codec->EncodedBytes(slice_size_);
  ForEachDecodedBlock(*kept.codec, kept.gradient.bytes().first(bytes), slice_size_, use);
}

void StepAccumulator::TakeMean(Step step, UseBlock use) {
  OfStep of_step = std::move(steps_.extract(step).mapped());
  if (of_step.size() == 1) {
    ForEachBlock(of_step.begin()->second, use);
  } else if (std::all_of(of_step.begin(), of_step.end(), [](const auto& kept_of_worker) {
               return kept_of_worker.second.codec == nullptr && !kept_of_worker.second.is_empty();
             })) {
    MeanOfFloats(of_step, use);
  } else {
    MeanOfAny(of_step, use);
  }
  for (auto& [worker, kept] : of_step) ReturnBuffer(std::move(kept.gradient));
}

void StepAccumulator::MeanOfFloats(const OfStep& pushes, UseBlock use) const {
  std::vector<const float*> terms;
  for (const auto& [worker, kept] : pushes) terms.push_back(kept.gradient.data());
  alignas(kCacheLineBytes) float block[kDecodedBlock];
  for (size_t offset = 0; offset < slice_size_; offset += kDecodedBlock) {
    const absl::Span<float> mean(block, std::min(kDecodedBlock, slice_size_ - offset));
    Mean(terms, mean);
    use(offset, mean);
    for (const float*& term : terms) term += mean.size();
  }
}

void StepAccumulator::MeanOfAny(const OfStep& pushes, UseBlock use) const {
  const auto count = static_cast<float>(pushes.size());
  alignas(kCacheLineBytes) float block[kDecodedBlock];
  for (size_t offset = 0; offset < slice_size_; offset += kDecodedBlock) {
    const absl::Span<float> sum(block, std::min(kDecodedBlock, slice_size_ - offset));
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (const auto& [worker, kept] : pushes) {
      if (!kept.is_empty()) AddBlock(kept, slice_size_, offset, sum);
    }
    for (float& value : sum) value /= count;
    use(offset, sum);
  }
}

uint64_t StepAccumulator::size_bytes() const {
  uint64_t bytes = 0;
  for (const HostBuffer& buffer : spare_) bytes += buffer.size_bytes();
  ForEach([&bytes](Step, WorkerId, const Kept& kept) { bytes += kept.gradient.size_bytes(); });
  return bytes;
}

}  // namespace capstan
