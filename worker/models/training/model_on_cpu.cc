#include "worker/models/training/model_on_cpu.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/memory_cutter.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<ModelOnCpu>> ModelOnCpu::Create(
    std::unique_ptr<Model<CpuStream>> model, int64_t max_samples) {
  const size_t bytes = model->WorkspaceBytes(max_samples, CpuStream());
  absl::StatusOr<HostBuffer> workspace =
      HostBuffer::Create((bytes + MemoryCutter::kAlignment) / sizeof(float));
  if (!workspace.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("activations of ", max_samples, " samples: ", workspace.status().message(),
                     "; use a smaller batch or model, or a machine with more memory"));
  }
  return std::unique_ptr<ModelOnCpu>(
      new ModelOnCpu(std::move(model), *std::move(workspace), max_samples));
}

ModelOnCpu::ModelOnCpu(std::unique_ptr<Model<CpuStream>> model, HostBuffer workspace,
                       int64_t max_samples)
    : model_(std::move(model)), workspace_(std::move(workspace)) {
  void* aligned = workspace_.data();
  size_t space = workspace_.size_bytes();
  std::align(MemoryCutter::kAlignment, 0, aligned, space);
  model_->UseWorkspace(aligned, max_samples, stream_);
}

absl::StatusOr<BatchResult> ModelOnCpu::Forward(
    const Batch& batch, Parameters parameters,
    absl::FunctionRef<absl::Status(int layer)> wait_for_layer) {
  BatchResult result;
  RETURN_IF_ERROR(model_->Forward(batch, parameters, wait_for_layer, &result, stream_));
  return result;
}

absl::Status ModelOnCpu::Backward(const Batch& batch, Parameters parameters, Gradients gradients,
                                  absl::FunctionRef<absl::Status(int layer)> gradient_ready) {
  return model_->Backward(batch, parameters, gradients, gradient_ready, stream_);
}

}  // namespace capstan
