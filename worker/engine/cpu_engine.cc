#include "worker/engine/cpu_engine.h"

#include <glog/logging.h>

#include "common/base/status_macros.h"

namespace capstan {

absl::Status CpuEngine::LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) {
  CHECK_LT(loaded_ - used_, kBatches);
  batches_[loaded_++ % kBatches].Gather(dataset, samples);
  return absl::OkStatus();
}

absl::Status CpuEngine::RunStep(Step step, ParameterStore& store) {
  const Batch batch = batches_[used_ % kBatches].batch();
  RETURN_IF_ERROR(RunForward(store));
  return model_->Backward(batch, store.values(), store.gradients(), [&store, step](int layer) {
    store.PushPull(layer, step);
    return absl::OkStatus();
  });
}

absl::Status CpuEngine::RunForward(ParameterStore& store) {
  CHECK_LT(used_, loaded_);
  const Batch batch = batches_[used_++ % kBatches].batch();
  ASSIGN_OR_RETURN(result_, model_->Forward(batch, store.values(), [&store](int layer) {
    return store.WaitForLayer(layer);
  }));
  return absl::OkStatus();
}

}  // namespace capstan
