#include "worker/models/replay/replay_engine.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

// Backward is two matrix products for each of forward's.
constexpr int kBackwardPerForward = 2;

// A shorter wait has found the values already there.
constexpr absl::Duration kAtOnce = absl::Microseconds(20);

// Work is queued on a device about this long ahead.
constexpr absl::Duration kLargestLag = absl::Milliseconds(10);

// A layer with the first tensor "conv1_1.w" is called "conv1_1".
std::vector<std::string> LayerNames(const std::vector<LayerTensor>& tensors) {
  std::vector<std::string> names;
  for (const LayerTensor& tensor : tensors) {
    if (tensor.layer < static_cast<int>(names.size())) continue;
    names.push_back(tensor.name.substr(0, tensor.name.rfind('.')));
  }
  return names;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> ReplayEngine::Create(const v1::ReplaySpec& spec,
                                                             Clock* clock, Tracer* tracer) {
  ASSIGN_OR_RETURN(const std::vector<LayerTensor> tensors, LoadLayerList(spec.layers()));
  return std::make_unique<ReplayEngine>(tensors, spec.scale(),
                                        absl::Seconds(spec.compute_seconds()), clock, tracer);
}

ReplayEngine::ReplayEngine(const std::vector<LayerTensor>& tensors, uint64_t scale,
                           absl::Duration step_time, Clock* clock, Tracer* tracer)
    : clock_(clock), forward_time_(tensors.back().layer + 1), trace_(tracer, LayerNames(tensors)) {
  double total = 0;
  for (const LayerTensor& tensor : tensors) total += tensor.million_macs;
  for (const LayerTensor& tensor : tensors) {
    v1::TableSpec& table = tables_.emplace_back();
    table.set_name(tensor.name);
    table.add_shape(std::max<uint64_t>(1, tensor.elements / scale));
    table.set_layer(static_cast<uint32_t>(tensor.layer));
    forward_time_[tensor.layer] +=
        step_time * (tensor.million_macs / total / (1 + kBackwardPerForward));
  }
}

absl::Status ReplayEngine::RunStep(Step step, ParameterStore& store) {
  if (!std::exchange(has_begun_, true)) Begin(store);
  const absl::Cleanup end_trace = [this] { trace_.End(); };
  const int layer_count = static_cast<int>(forward_time_.size());
  for (int layer = 0; layer < layer_count; ++layer) {
    trace_.Begin("wait", layer);
    RETURN_IF_ERROR(WaitForLayer(layer, store));
    trace_.Begin("forward", layer);
    Compute(forward_time_[layer]);
  }
  for (int layer = layer_count - 1; layer >= 0; --layer) {
    trace_.Begin("backward", layer);
    Compute(kBackwardPerForward * forward_time_[layer]);
    trace_.Begin("push", layer);
    store.PushPull(layer, step);
  }
  return absl::OkStatus();
}

absl::Status ReplayEngine::RunForward(ParameterStore& store) { return store.WaitForAll(); }

absl::Status ReplayEngine::WaitForLayer(int layer, ParameterStore& store) {
  const absl::Time begin = clock_->Now();
  RETURN_IF_ERROR(store.WaitForLayer(layer));
  const absl::Time end = clock_->Now();
  if (end - begin > kAtOnce) free_at_ = std::max(free_at_, end);
  return absl::OkStatus();
}

void ReplayEngine::Compute(absl::Duration duration) {
  // This thread may wake up late. The device is not late, so delays of the thread do not add up.
  free_at_ = std::max(free_at_, clock_->Now() - kLargestLag) + duration;
  SleepUntil(*clock_, free_at_);
}

void ReplayEngine::Begin(ParameterStore& store) {
  free_at_ = clock_->Now();
  for (const absl::Span<float> gradient : store.gradients()) FillGradient(gradient);
}

void ReplayEngine::ComputeAlone() {
  absl::Duration time;
  for (const absl::Duration forward : forward_time_) time += (1 + kBackwardPerForward) * forward;
  if (!std::exchange(has_begun_, true)) free_at_ = clock_->Now();
  Compute(time);
}

void ReplayEngine::FillGradient(absl::Span<float> gradient) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = (static_cast<float>(i % 17) - 8) * 1e-3f;
  }
}

}  // namespace capstan
