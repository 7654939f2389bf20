#include "worker/engine/cpu_engine.h"

#include <glog/logging.h>

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/base/status_macros.h"
#include "kernels/cpu/cpu_stream.h"
#include "worker/models/training/make_model.h"

namespace capstan {
namespace {

std::vector<std::string> LayerNames(const ModelOnCpu& model) {
  std::vector<std::string> names;
  for (const auto& layer : model.model().layers()) names.push_back(layer.name);
  return names;
}

}  // namespace

CpuEngine::CpuEngine(std::unique_ptr<ModelOnCpu> model, Tracer* tracer)
    : model_(std::move(model)), trace_(tracer, LayerNames(*model_)) {}

absl::Status CpuEngine::LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) {
  CHECK_LT(loaded_ - used_, kBatches);
  batches_[loaded_++ % kBatches].Gather(dataset, samples);
  return absl::OkStatus();
}

absl::Status CpuEngine::RunStep(Step step, ParameterStore& store) {
  const absl::Cleanup end_trace = [this] { trace_.End(); };
  const Batch batch = batches_[used_ % kBatches].batch();
  RETURN_IF_ERROR(Forward(store));
  trace_.Begin("backward", static_cast<int>(model_->model().layers().size()) - 1);
  return model_->Backward(batch, store.values(), store.gradients(), [&](int layer) {
    trace_.Begin("push", layer);
    store.PushPull(layer, step);
    if (layer > 0) trace_.Begin("backward", layer - 1);
    return absl::OkStatus();
  });
}

absl::Status CpuEngine::RunForward(ParameterStore& store) {
  const absl::Cleanup end_trace = [this] { trace_.End(); };
  return Forward(store);
}

absl::Status CpuEngine::Forward(ParameterStore& store) {
  CHECK_LT(used_, loaded_);
  const Batch batch = batches_[used_++ % kBatches].batch();
  ASSIGN_OR_RETURN(result_, model_->Forward(batch, store.values(),
                                            [&](int layer) { return WaitForLayer(layer, store); }));
  return absl::OkStatus();
}

absl::Status CpuEngine::WaitForLayer(int layer, ParameterStore& store) {
  trace_.Begin("wait", layer);
  RETURN_IF_ERROR(store.WaitForLayer(layer));
  trace_.Begin("forward", layer);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Engine>> MakeCpuEngine(const EngineOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Model<CpuStream>> model,
                   MakeModel<CpuStream>(options.model, options.feature_count, options.class_count));
  ASSIGN_OR_RETURN(std::unique_ptr<ModelOnCpu> on_cpu,
                   ModelOnCpu::Create(std::move(model), options.max_samples));
  return std::make_unique<CpuEngine>(std::move(on_cpu), options.tracer);
}

}  // namespace capstan
