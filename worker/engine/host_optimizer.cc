#include "worker/engine/host_optimizer.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
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

absl::StatusOr<std::unique_ptr<HostOptimizer>> HostOptimizer::Create(
    const v1::OptimizerSpec& spec, absl::Span<const v1::TableSpec> tables, bool goes_on) {
  ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> made, MakeOptimizer(spec));
  std::unique_ptr<HostOptimizer> optimizer(new HostOptimizer(spec, std::move(made), goes_on));
  for (const v1::TableSpec& table : tables) {
    RETURN_IF_ERROR(optimizer->AddTable(ElementCount(table)));
  }
  return optimizer;
}

HostOptimizer::HostOptimizer(const v1::OptimizerSpec& spec, std::unique_ptr<Optimizer> optimizer,
                             bool goes_on)
    : optimizer_(std::move(optimizer)), counts_steps_(CountsSteps(spec)), goes_on_(goes_on) {
  static_assert(kMostOwnArrays >= 3 + 1);  // no optimizer has more, and the steps
}

absl::Status HostOptimizer::AddTable(uint64_t elements) {
  Table& table = *tables_.emplace_back(std::make_unique<Table>());
  for (State* const state : {&table.now, &table.pushed}) {
    if (state == &table.pushed && !goes_on_) continue;
    for (int i = 0; i < optimizer_->state_count(); ++i) {
      ASSIGN_OR_RETURN(HostBuffer array, HostBuffer::Create(elements));
      state->arrays.push_back(std::make_shared<HostBuffer>(std::move(array)));
    }
  }
  return absl::OkStatus();
}

void HostOptimizer::Step(TableId table, absl::Span<const float> gradient,
                         absl::Span<float> values) {
  State& state = tables_[table.value()]->now;
  std::vector<absl::Span<float>> arrays;
  for (const auto& array : state.arrays) arrays.push_back(array->span());
  Application application;
  application.number = ++state.steps;
  optimizer_->Apply(gradient, application, values, arrays);
}

void HostOptimizer::NotePush(TableId table) {
  if (!goes_on_) return;
  const State& now = tables_[table.value()]->now;
  State& pushed = tables_[table.value()]->pushed;
  pushed.steps = now.steps.load();
  for (size_t i = 0; i < now.arrays.size(); ++i) {
    const absl::Span<const float> from = now.arrays[i]->span();
    std::copy(from.begin(), from.end(), pushed.arrays[i]->data());
  }
}

uint32_t HostOptimizer::arrays() const {
  return static_cast<uint32_t>(optimizer_->state_count()) + (counts_steps_ ? 1 : 0);
}

void HostOptimizer::UseSlices(absl::Span<const Slicing> slicings) {
  slicings_.assign(slicings.begin(), slicings.end());
}

Payload HostOptimizer::Save(SliceKey key) {
  const Table& table = *tables_[key.table.value()];
  const State& state = goes_on_ ? table.pushed : table.now;
  const SliceRange range = slicings_[key.table.value()].Range(key.slice);
  Payload saved;
  for (const auto& array : state.arrays) {
    saved.Append(
        Payload(absl::Span<const float>(array->span()).subspan(range.offset, range.size), array));
  }
  if (!counts_steps_) return saved;
  // Arrays are all that a state has. A float has each number up to 2^24; later ones do not matter.
  const auto steps = std::make_shared<std::vector<float>>(
      range.size, static_cast<float>(std::min<int64_t>(state.steps, 1 << 24)));
  saved.Append(Payload(absl::MakeConstSpan(*steps), steps));
  return saved;
}

void HostOptimizer::Load(SliceKey key, absl::Span<const float> saved) {
  Table& table = *tables_[key.table.value()];
  const SliceRange range = slicings_[key.table.value()].Range(key.slice);
  for (State* const state : {&table.now, &table.pushed}) {
    for (size_t i = 0; i < state->arrays.size(); ++i) {
      const absl::Span<const float> part = saved.subspan(i * range.size, range.size);
      std::copy(part.begin(), part.end(), state->arrays[i]->data() + range.offset);
    }
    if (counts_steps_) state->steps = static_cast<int64_t>(saved.back());
  }
}

}  // namespace capstan
