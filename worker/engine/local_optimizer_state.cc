#include "worker/engine/local_optimizer_state.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "common/base/status_macros.h"
#include "common/job/optimizer_check.h"
#include "common/optimizer/rules.h"
#include "common/routing/job_view.h"
#include "common/routing/table_check.h"

namespace capstan {
namespace {

bool CountsSteps(const v1::OptimizerSpec& spec) {
  const bool is_dampened = spec.type() == v1::OptimizerSpec::MOMENTUM && spec.dampening() > 0;
  return spec.type() == v1::OptimizerSpec::ADAM || spec.type() == v1::OptimizerSpec::ADAMW ||
         is_dampened;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalOptimizerState>> LocalOptimizerState::Create(
    const v1::OptimizerSpec& spec, absl::Span<const v1::TableSpec> tables, Allocate allocate) {
  RETURN_IF_ERROR(CheckDenseOptimizer(spec));
  std::unique_ptr<LocalOptimizerState> state(new LocalOptimizerState(spec));
  for (const v1::TableSpec& table : tables) {
    Table& added = *state->tables_.emplace_back(std::make_unique<Table>());
    for (int i = 0; i < state->state_count_; ++i) {
      ASSIGN_OR_RETURN(HostBuffer array, allocate(ElementCount(table)));
      added.arrays.push_back(std::make_shared<HostBuffer>(std::move(array)));
    }
  }
  return state;
}

LocalOptimizerState::LocalOptimizerState(const v1::OptimizerSpec& spec)
    : state_count_(std::visit([](const auto& rule) { return rule.kStateCount; },
                              RuleOf(spec, Application()))),
      counts_steps_(CountsSteps(spec)) {
  static_assert(kMostOwnArrays >= 3 + 1);  // no optimizer has more, and the steps
}

uint32_t LocalOptimizerState::arrays() const {
  return static_cast<uint32_t>(state_count_) + (counts_steps_ ? 1 : 0);
}

void LocalOptimizerState::UseSlices(absl::Span<const Slicing> slicings) {
  slicings_.assign(slicings.begin(), slicings.end());
}

Payload LocalOptimizerState::Save(SliceKey key) {
  const Table& table = *tables_[key.table.value()];
  const SliceRange range = slicings_[key.table.value()].Range(key.slice);
  Payload saved;
  for (const auto& array : table.arrays) {
    saved.Append(
        Payload(absl::Span<const float>(array->span()).subspan(range.offset, range.size), array));
  }
  if (!counts_steps_) return saved;
  // Arrays are all that a state has. A float has each number up to 2^24; later ones do not matter.
  const auto steps = std::make_shared<std::vector<float>>(
      range.size, static_cast<float>(std::min<int64_t>(table.steps, 1 << 24)));
  saved.Append(Payload(absl::MakeConstSpan(*steps), steps));
  return saved;
}

void LocalOptimizerState::Load(SliceKey key, absl::Span<const float> saved) {
  Table& table = *tables_[key.table.value()];
  const SliceRange range = slicings_[key.table.value()].Range(key.slice);
  for (size_t i = 0; i < table.arrays.size(); ++i) {
    const absl::Span<const float> part = saved.subspan(i * range.size, range.size);
    std::copy(part.begin(), part.end(), table.arrays[i]->data() + range.offset);
  }
  if (counts_steps_) table.steps = static_cast<int64_t>(saved.back());
}

}  // namespace capstan
