#include "server/shard/slice_state.h"

#include <utility>

#include "absl/container/inlined_vector.h"

namespace capstan {

SliceState::SliceState(HostBuffer initial_values, const Optimizer* optimizer)
    : optimizer_(*optimizer), values_(std::move(initial_values)) {
  for (int i = 0; i < optimizer_.state_count(); ++i) optimizer_state_.emplace_back(values_.size());
}

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
