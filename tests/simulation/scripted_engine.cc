#include "tests/simulation/scripted_engine.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/history/test_values.h"
#include "common/tensor/slicing.h"

namespace capstan {

ScriptedEngine::ScriptedEngine(Options options) : options_(std::move(options)) {
  for (const v1::TableSpec& table : options_.tables) {
    layer_count_ = std::max(layer_count_, static_cast<int>(table.layer()) + 1);
  }
}

absl::Status ScriptedEngine::LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) {
  const absl::Span<const float> features = dataset.Row(samples.at(0));
  loaded_.push_back({WorkerId(static_cast<uint32_t>(features.at(0))),
                     Step(static_cast<int64_t>(features.at(1)))});
  return absl::OkStatus();
}

absl::Status ScriptedEngine::RunStep(Step step, ParameterStore& store) {
  const Turn turn = loaded_.at(0);
  loaded_.pop_front();
  if (options_.has_test_values) CHECK_EQ(turn.step, step) << "the batch of another step";
  const absl::Duration compute_time = options_.compute_time();
  const absl::Duration forward_time = compute_time / 3;
  RETURN_IF_ERROR(Forward(forward_time, store));
  for (int layer = layer_count_ - 1; layer >= 0; --layer) {
    SleepUntil(*options_.clock,
               options_.clock->Now() + (compute_time - forward_time) / layer_count_);
    if (options_.has_test_values) WriteGradients(layer, turn, store);
    store.PushPull(layer, step);
  }
  return absl::OkStatus();
}

absl::Status ScriptedEngine::RunForward(ParameterStore& store) {
  loaded_.pop_front();
  return Forward(absl::ZeroDuration(), store);
}

absl::Status ScriptedEngine::Forward(absl::Duration time, ParameterStore& store) {
  for (int layer = 0; layer < layer_count_; ++layer) {
    RETURN_IF_ERROR(store.WaitForLayer(layer));
    SleepUntil(*options_.clock, options_.clock->Now() + time / layer_count_);
  }
  return absl::OkStatus();
}

void ScriptedEngine::WriteGradients(int layer, const Turn& turn, ParameterStore& store) const {
  const size_t element = TestElement(turn.worker, turn.step, options_.steps);
  for (size_t table = 0; table < options_.tables.size(); ++table) {
    if (static_cast<int>(options_.tables[table].layer()) != layer) continue;
    const absl::Span<float> gradient = store.gradients()[table];
    const Slicing slicing(gradient.size(), options_.slice_bytes);
    for (uint32_t slice = 0; slice < slicing.slice_count(); ++slice) {
      float* const values = gradient.data() + slicing.Range(SliceIndex(slice)).offset;
      if (turn.step > Step(0)) values[element - 1] = 0;
      values[element] = -kTestUpdate;  // SGD subtracts it.
    }
  }
}

}  // namespace capstan
