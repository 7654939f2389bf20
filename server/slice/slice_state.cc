#include "server/slice/slice_state.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"

namespace capstan {
namespace {

// In elements. What is copied is still in the core's own cache when it is updated.
constexpr size_t kCopiedBlock = 4096;

bool IsInPlace(const SliceValues::Change& array) { return array.from.data() == array.to.data(); }

// The elements [offset, offset + size), for an update in place.
absl::Span<float> Elements(const SliceValues::Change& array, size_t offset, size_t size) {
  const absl::Span<float> to = array.to.subspan(offset, size);
  if (!IsInPlace(array)) std::copy_n(array.from.data() + offset, size, to.data());
  return to;
}

// The payload's memory, or a copy.
absl::StatusOr<HostBuffer> TakeFloats(Payload& payload) {
  if (std::optional<HostBuffer> taken = payload.TakeFloats()) return *std::move(taken);
  ASSIGN_OR_RETURN(HostBuffer copy, HostBuffer::Create(payload.size_bytes() / sizeof(float)));
  payload.CopyTo(copy.span());
  return copy;
}

}  // namespace

absl::StatusOr<SliceState::Memory> SliceState::Allocate(size_t size, const Optimizer* optimizer) {
  Memory memory;
  ASSIGN_OR_RETURN(memory.values, HostBuffer::Create(size));
  for (int i = 0; optimizer != nullptr && i < optimizer->state_count(); ++i) {
    ASSIGN_OR_RETURN(memory.optimizer_state.emplace_back(), HostBuffer::Create(size));
  }
  return memory;
}

absl::StatusOr<SliceState::Memory> SliceState::Take(SliceSnapshot& snapshot) {
  Memory memory;
  memory.version = snapshot.version;
  memory.optimizer_steps = snapshot.optimizer_steps;
  ASSIGN_OR_RETURN(memory.values, TakeFloats(snapshot.values));
  for (Payload& state : snapshot.optimizer_state) {
    ASSIGN_OR_RETURN(memory.optimizer_state.emplace_back(), TakeFloats(state));
  }
  return memory;
}

SliceState::SliceState(Memory memory, const Optimizer* optimizer)
    : optimizer_(optimizer),
      values_(std::move(memory.values)),
      version_(memory.version),
      optimizer_steps_(memory.optimizer_steps) {
  for (HostBuffer& state : memory.optimizer_state) optimizer_state_.emplace_back(std::move(state));
}

std::vector<Payload> SliceState::ShareOptimizerState() const {
  std::vector<Payload> shared;
  for (const SliceValues& state : optimizer_state_) shared.push_back(state.Share());
  return shared;
}

uint64_t SliceState::optimizer_bytes() const {
  uint64_t bytes = 0;
  for (const SliceValues& state : optimizer_state_) bytes += state.held_bytes();
  return bytes;
}

void SliceState::SetValues(const Payload& values) { values.CopyTo(values_.BeginChange().to); }

void SliceState::LoadOptimizerState(uint32_t array, uint64_t steps, const Payload& values) {
  values.CopyTo(optimizer_state_[array].BeginChange().to);
  optimizer_steps_ = steps;
}

std::optional<Payload> SliceState::ShareUpdate() const {
  if (!update_.has_value()) return std::nullopt;
  return update_->Share();
}

void SliceState::LoadUpdate(const Payload& update) {
  optimizer_state_.clear();
  update_.emplace(HostBuffer(size()));
  update.CopyTo(update_->BeginChange().to);
}

SliceState::Update SliceState::BeginUpdate(uint64_t learning_rate_divisor, const Rates& rates) {
  ++version_;
  ++optimizer_steps_;
  Update update(optimizer_);
  update.application_ = {static_cast<int64_t>(optimizer_steps_), learning_rate_divisor, rates};
  if (optimizer_ == nullptr) {
    // Workers have read the restored state before they push.
    optimizer_state_.clear();
    if (!update_.has_value()) update_.emplace(HostBuffer(size()));
    update.values_ = update_->BeginChange();
    return update;
  }
  update.values_ = values_.BeginChange();
  for (SliceValues& state : optimizer_state_) {
    update.optimizer_state_.push_back(state.BeginChange());
  }
  return update;
}

void SliceState::Update::Apply(size_t offset, absl::Span<const float> gradient) const {
  if (optimizer_ == nullptr) {
    std::copy(gradient.begin(), gradient.end(), values_.to.begin() + offset);
    return;
  }
  const bool is_in_place = IsInPlace(values_) &&
                           std::all_of(optimizer_state_.begin(), optimizer_state_.end(), IsInPlace);
  const size_t most = is_in_place ? gradient.size() : kCopiedBlock;
  for (size_t done = 0; done < gradient.size(); done += most) {
    const absl::Span<const float> block = gradient.subspan(done, most);
    absl::InlinedVector<absl::Span<float>, 2> state;
    for (const SliceValues::Change& array : optimizer_state_) {
      state.push_back(Elements(array, offset + done, block.size()));
    }
    optimizer_->Apply(block, application_, Elements(values_, offset + done, block.size()), state);
  }
}

}  // namespace capstan
