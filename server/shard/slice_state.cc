#include "server/shard/slice_state.h"

#include <optional>
#include <utility>

#include "common/base/status_macros.h"

namespace capstan {
namespace {

// The payload's memory, or a copy.
absl::StatusOr<HostBuffer> TakeFloats(Payload& payload) {
  if (std::optional<HostBuffer> taken = payload.TakeFloats()) return *std::move(taken);
  ASSIGN_OR_RETURN(HostBuffer copy, HostBuffer::Create(payload.size_bytes() / sizeof(float)));
  payload.CopyTo(copy.span());
  return copy;
}

}  // namespace

absl::StatusOr<SliceState::Memory> SliceState::Allocate(size_t size, const Optimizer& optimizer) {
  Memory memory;
  ASSIGN_OR_RETURN(memory.values, HostBuffer::Create(size));
  for (int i = 0; i < optimizer.state_count(); ++i) {
    ASSIGN_OR_RETURN(memory.optimizer_state.emplace_back(), HostBuffer::Create(size));
  }
  return memory;
}

absl::StatusOr<SliceState::Memory> SliceState::Take(SliceSnapshot& snapshot) {
  Memory memory;
  memory.version = snapshot.version;
  ASSIGN_OR_RETURN(memory.values, TakeFloats(snapshot.values));
  for (Payload& state : snapshot.optimizer_state) {
    ASSIGN_OR_RETURN(memory.optimizer_state.emplace_back(), TakeFloats(state));
  }
  return memory;
}

SliceState::SliceState(Memory memory, const Optimizer* optimizer)
    : optimizer_(*optimizer), values_(std::move(memory.values)), version_(memory.version) {
  for (HostBuffer& state : memory.optimizer_state) optimizer_state_.emplace_back(std::move(state));
}

std::vector<Payload> SliceState::ShareOptimizerState() const {
  std::vector<Payload> shared;
  for (const SliceValues& state : optimizer_state_) shared.push_back(state.Share());
  return shared;
}

SliceState::Update SliceState::BeginUpdate(uint64_t learning_rate_divisor) {
  ++version_;
  Update update(optimizer_);
  update.application_ = {static_cast<int64_t>(version_), learning_rate_divisor};
  update.values_ = values_.Mutable();
  for (SliceValues& state : optimizer_state_) update.optimizer_state_.push_back(state.Mutable());
  return update;
}

void SliceState::Update::Apply(size_t offset, absl::Span<const float> gradient) const {
  absl::InlinedVector<absl::Span<float>, 2> state;
  for (const absl::Span<float> array : optimizer_state_) {
    state.push_back(array.subspan(offset, gradient.size()));
  }
  optimizer_.Apply(gradient, application_, values_.subspan(offset, gradient.size()), state);
}

}  // namespace capstan
