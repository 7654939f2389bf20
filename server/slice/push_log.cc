#include "server/slice/push_log.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/cpu/gradients.h"

namespace capstan {

HostBuffer PushLog::TakeBuffer(size_t bytes) {
  const size_t size = (bytes + sizeof(float) - 1) / sizeof(float);
  if (size != std::exchange(buffer_size_, size)) spare_.clear();
  if (spare_.empty()) return HostBuffer(size);
  HostBuffer buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

void PushLog::ReturnBuffer(HostBuffer buffer) {
  // That of an empty push has no memory.
  if (buffer.size() == 0) return;
  if (!buffer.is_shared() && buffer.size() == buffer_size_) spare_.push_back(std::move(buffer));
}

void PushLog::Add(WorkerId worker, CheckedPush push) {
  Kept kept = {std::move(push), HostBuffer()};
  if (kept.push.gradient.has_value()) {
    kept.memory = kept.push.gradient->Keep([this](size_t bytes) { return TakeBuffer(bytes); });
  }
  OfStep& of_step = steps_[kept.push.step];
  of_step.insert_or_assign(worker, std::move(kept));
}

std::optional<Step> PushLog::First() const {
  if (steps_.empty()) return std::nullopt;
  return steps_.begin()->first;
}

void PushLog::TakeOne(Step step, absl::FunctionRef<void(const CheckedPush& push)> use) {
  const auto of_step = steps_.find(step);
  auto taken = of_step->second.extract(of_step->second.begin());
  if (of_step->second.empty()) steps_.erase(of_step);
  use(taken.mapped().push);
  ReturnBuffer(std::move(taken.mapped().memory));
}

void PushLog::TakeAll(Step step, absl::FunctionRef<void(PushesOfStep pushes)> use) {
  OfStep of_step = std::move(steps_.extract(step).mapped());
  std::vector<const CheckedPush*> pushes;
  for (const auto& [worker, kept] : of_step) pushes.push_back(&kept.push);
  use(pushes);
  for (auto& [worker, kept] : of_step) ReturnBuffer(std::move(kept.memory));
}

uint64_t PushLog::size_bytes() const {
  uint64_t bytes = 0;
  for (const HostBuffer& buffer : spare_) bytes += buffer.size_bytes();
  for (const auto& [step, of_step] : steps_) {
    for (const auto& [worker, kept] : of_step) {
      const CheckedPush& push = kept.push;
      if (push.gradient.has_value()) bytes += push.gradient->size_bytes();
      if (push.keys != nullptr) bytes += push.keys->size() * sizeof(uint64_t);
    }
  }
  return bytes;
}

void PushLog::Save(SliceSnapshot& snapshot) const {
  for (const auto& [step, of_step] : steps_) {
    for (const auto& [worker, kept] : of_step) {
      SliceSnapshot::KeptPush& push = snapshot.kept.emplace_back();
      push.step = step;
      push.worker = worker;
      push.base_version = kept.push.base_version;
      push.rates = kept.push.rates;
      push.is_empty = !kept.push.gradient.has_value();
      if (push.is_empty) continue;
      push.keys = kept.push.keys;
      const auto copy = std::make_shared<std::vector<float>>(kept.push.gradient->Decoded());
      push.gradient = Payload(*copy, copy);
    }
  }
}

void PushLog::Load(const SliceSnapshot& snapshot) {
  for (const SliceSnapshot::KeptPush& saved : snapshot.kept) {
    CheckedPush push = {saved.step, saved.base_version, saved.rates};
    if (!saved.is_empty) {
      push.gradient = EncodedGradient(saved.gradient);
      push.keys = saved.keys;
    }
    Add(saved.worker, std::move(push));
  }
}

namespace {

// Adds up all, and divides.
void SumInBlocks(PushesOfStep pushes, size_t size, UseBlock use) {
  const auto count = static_cast<float>(pushes.size());
  alignas(kCacheLineBytes) float block[kDecodedBlock];
  for (size_t offset = 0; offset < size; offset += kDecodedBlock) {
    const absl::Span<float> sum(block, std::min(kDecodedBlock, size - offset));
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (const CheckedPush* const push : pushes) {
      if (push->gradient.has_value()) push->gradient->AddTo(offset, sum);
    }
    for (float& value : sum) value /= count;
    use(offset, sum);
  }
}

// The same sums, faster, of gradients that are there in float32.
void MeanInBlocks(std::vector<const float*> terms, size_t size, UseBlock use) {
  alignas(kCacheLineBytes) float block[kDecodedBlock];
  for (size_t offset = 0; offset < size; offset += kDecodedBlock) {
    const absl::Span<float> mean(block, std::min(kDecodedBlock, size - offset));
    Mean(terms, mean);
    use(offset, mean);
    for (const float*& term : terms) term += mean.size();
  }
}

}  // namespace

void ForEachBlockOfMean(PushesOfStep pushes, size_t size, UseBlock use) {
  if (pushes.size() == 1) return pushes[0]->gradient->ForEachBlock(use);
  std::vector<const float*> terms;
  for (const CheckedPush* const push : pushes) {
    const auto values = push->gradient.has_value() ? push->gradient->InPlace() : std::nullopt;
    if (!values.has_value()) return SumInBlocks(pushes, size, use);
    terms.push_back(values->data());
  }
  MeanInBlocks(std::move(terms), size, use);
}

}  // namespace capstan
