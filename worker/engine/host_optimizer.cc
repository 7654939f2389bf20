#include "worker/engine/host_optimizer.h"

#include <algorithm>
#include <cstddef>

#include "common/base/status_macros.h"
#include "common/routing/job_view.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<HostOptimizer>> HostOptimizer::Create(
    const v1::OptimizerSpec& spec, absl::Span<const v1::TableSpec> tables, bool goes_on) {
  ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> made, MakeOptimizer(spec));
  ASSIGN_OR_RETURN(std::unique_ptr<LocalOptimizerState> state,
                   LocalOptimizerState::Create(spec, tables, HostBuffer::Create));
  std::unique_ptr<HostOptimizer> optimizer(new HostOptimizer(std::move(made), std::move(state)));
  if (!goes_on) return optimizer;
  for (const v1::TableSpec& table : tables) {
    Present& present = optimizer->present_.emplace_back();
    for (int i = 0; i < optimizer->state().state_count(); ++i) {
      ASSIGN_OR_RETURN(present.arrays.emplace_back(), HostBuffer::Create(ElementCount(table)));
    }
  }
  return optimizer;
}

void HostOptimizer::Step(TableId table, absl::Span<const float> gradient,
                         absl::Span<float> values) {
  LocalOptimizerState::Table& kept = state_->table(table);
  std::vector<absl::Span<float>> arrays;
  Application application;
  if (present_.empty()) {
    for (const auto& array : kept.arrays) arrays.push_back(array->span());
    application.number = ++kept.steps;
  } else {
    Present& present = present_[table.value()];
    const bool begins = !std::exchange(present.has_begun, true);
    if (begins) present.steps = kept.steps;
    for (size_t i = 0; i < present.arrays.size(); ++i) {
      const absl::Span<float> array = arrays.emplace_back(present.arrays[i].span());
      const absl::Span<const float> from = kept.arrays[i]->span();
      if (begins) std::copy(from.begin(), from.end(), array.begin());
    }
    application.number = ++present.steps;
  }
  optimizer_->Apply(gradient, application, values, arrays);
}

void HostOptimizer::NotePush(TableId table) {
  if (present_.empty() || !present_[table.value()].has_begun) return;
  const Present& present = present_[table.value()];
  LocalOptimizerState::Table& kept = state_->table(table);
  kept.steps = present.steps;
  for (size_t i = 0; i < present.arrays.size(); ++i) {
    const absl::Span<const float> from = present.arrays[i].span();
    std::copy(from.begin(), from.end(), kept.arrays[i]->data());
  }
}

}  // namespace capstan
