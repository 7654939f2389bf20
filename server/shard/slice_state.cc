#include "server/shard/slice_state.h"

#include <utility>

#include "absl/container/inlined_vector.h"
#include "common/base/status_macros.h"

namespace capstan {

absl::StatusOr<SliceState::Memory> SliceState::Allocate(size_t size, const Optimizer& optimizer) {
  Memory memory;
  ASSIGN_OR_RETURN(memory.values, HostBuffer::Create(size));
  for (int i = 0; i < optimizer.state_count(); ++i) {
    ASSIGN_OR_RETURN(memory.optimizer_state.emplace_back(), HostBuffer::Create(size));
  }
  return memory;
}

SliceState::SliceState(Memory memory, const Optimizer* optimizer)
    : optimizer_(*optimizer),
      values_(std::move(memory.values)),
      optimizer_state_(std::move(memory.optimizer_state)) {}

SliceState::Update SliceState::BeginUpdate(uint64_t learning_rate_divisor) {
  ++version_;
  return Update(this, {static_cast<int64_t>(version_), learning_rate_divisor}, values_.Mutable());
}

void SliceState::Update::Apply(size_t offset, absl::Span<const float> gradient) const {
  absl::InlinedVector<absl::Span<float>, 2> state;
  for (HostBuffer& array : state_.optimizer_state_) {
    state.push_back(array.span().subspan(offset, gradient.size()));
  }
  state_.optimizer_.Apply(gradient, application_, values_.subspan(offset, gradient.size()), state);
}

}  // namespace capstan
