#ifndef WORKER_MODELS_TRAINING_MODEL_ON_CPU_H_
#define WORKER_MODELS_TRAINING_MODEL_ON_CPU_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tensor/host_buffer.h"
#include "kernels/cpu/cpu_stream.h"
#include "worker/models/training/model.h"

namespace capstan {

// A model with its workspace in host memory, computed by the calling thread. Not thread-safe.
class ModelOnCpu {
 public:
  using Parameters = Model<CpuStream>::Parameters;
  using Gradients = Model<CpuStream>::Gradients;

  // For batches of up to `max_samples`. RESOURCE_EXHAUSTED when the activations do not fit.
  static absl::StatusOr<std::unique_ptr<ModelOnCpu>> Create(std::unique_ptr<Model<CpuStream>> model,
                                                            int64_t max_samples);

  const Model<CpuStream>& model() const { return *model_; }

  // As in Model. All work is done on return.
  absl::StatusOr<BatchResult> Forward(const Batch& batch, Parameters parameters,
                                      absl::FunctionRef<absl::Status(int layer)> wait_for_layer);
  absl::Status Backward(const Batch& batch, Parameters parameters, Gradients gradients,
                        absl::FunctionRef<absl::Status(int layer)> gradient_ready);

 private:
  ModelOnCpu(std::unique_ptr<Model<CpuStream>> model, HostBuffer workspace, int64_t max_samples);

  CpuStream stream_;
  const std::unique_ptr<Model<CpuStream>> model_;
  HostBuffer workspace_;
};

}  // namespace capstan

#endif  // WORKER_MODELS_TRAINING_MODEL_ON_CPU_H_
