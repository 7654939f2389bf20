#include "server/slice/push_log.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/cpu/gradients.h"

namespace capstan {

HostBuffer PushLog::TakeBuffer(size_t bytes) {
  const size_t size = (bytes + sizeof(float) - 1) / sizeof(float);
  if (pool_ != nullptr) {
    std::shared_ptr<uint8_t> memory = pool_->Take(size * sizeof(float));
    float* const floats = reinterpret_cast<float*>(memory.get());
    return {floats, size, std::move(memory)};
  }
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

void PushLog::Add(WorkerId worker, CheckedPush push, bool is_orphan) {
  push.worker = worker;
  Kept kept = {std::move(push), HostBuffer(), is_orphan};
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

void PushLog::TakeOne(
    Step step,
    absl::FunctionRef<void(const CheckedPush& push, const std::shared_ptr<const void>& memory)>
        use) {
  const auto of_step = steps_.find(step);
  const auto taken =
      std::make_shared<Kept>(std::move(of_step->second.extract(of_step->second.begin()).mapped()));
  if (of_step->second.empty()) steps_.erase(of_step);
  use(taken->push, taken);
  if (taken.use_count() == 1) ReturnBuffer(std::move(taken->memory));
}

void PushLog::TakeAll(
    Step step,
    absl::FunctionRef<void(PushesOfStep pushes, const std::shared_ptr<const void>& memory)> use) {
  const auto of_step = std::make_shared<OfStep>(std::move(steps_.extract(step).mapped()));
  std::vector<const CheckedPush*> pushes;
  for (const auto& [worker, kept] : *of_step) pushes.push_back(&kept.push);
  use(pushes, of_step);
  if (of_step.use_count() > 1) return;  // Somebody keeps them.
  for (auto& [worker, kept] : *of_step) ReturnBuffer(std::move(kept.memory));
}

void PushLog::Orphan(WorkerId worker, absl::FunctionRef<void(const CheckedPush& push)> use) {
  for (auto& [step, of_step] : steps_) {
    const auto kept = of_step.find(worker);
    if (kept == of_step.end() || std::exchange(kept->second.is_orphan, true)) continue;
    use(kept->second.push);
  }
}

std::optional<Step> PushLog::FirstOf(WorkerId worker) const {
  for (const auto& [step, of_step] : steps_) {
    const auto kept = of_step.find(worker);
    if (kept != of_step.end() && !kept->second.is_orphan) return step;
  }
  return std::nullopt;
}

void PushLog::DropUntil(Step step) {
  while (!steps_.empty() && steps_.begin()->first <= step) steps_.erase(steps_.begin());
}

void PushLog::Drop(Step step, WorkerId worker) {
  const auto of_step = steps_.find(step);
  if (of_step == steps_.end()) return;
  of_step->second.erase(worker);
  if (of_step->second.empty()) steps_.erase(of_step);
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

void PushLog::Save(SliceSnapshot& snapshot, bool orphans_only) const {
  for (const auto& [step, of_step] : steps_) {
    for (const auto& [worker, kept] : of_step) {
      if (orphans_only && !kept.is_orphan) continue;
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
    CheckedPush push = {saved.step, saved.worker, saved.base_version, saved.rates};
    if (!saved.is_empty) {
      push.gradient = EncodedGradient(saved.gradient);
      push.keys = saved.keys;
    }
    Add(saved.worker, std::move(push), /*is_orphan=*/true);
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
