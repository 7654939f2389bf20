#ifndef WORKER_ENGINE_CUDA_TRAINER_H_
#define WORKER_ENGINE_CUDA_TRAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/device_buffer.h"
#include "kernels/cuda/pinned_pool.h"
#include "worker/engine/batch_feed.h"
#include "worker/engine/engine.h"
#include "worker/engine/local_optimizer_state.h"
#include "worker/engine/local_trainer.h"
#include "worker/models/training/model.h"

namespace capstan {

// Local steps on a GPU, which has the worker's values, their gradients and the optimizer's state.
// Between two exchanges only batches and results are copied. All calls but own_state()'s come from
// one thread, and end when the GPU has done their work.
class CudaTrainer : public LocalTrainer {
 public:
  // Trains the model of `options` with its local steps. The errors are those of MakeModel,
  // LocalOptimizerState::Create and CudaDevice::Open, and RESOURCE_EXHAUSTED without enough memory.
  static absl::StatusOr<std::unique_ptr<LocalTrainer>> Create(int device_number,
                                                              const EngineOptions& options);
  ~CudaTrainer() override;

  const std::string& device_name() const override { return device_->name(); }
  const std::vector<v1::TableSpec>& tables() const override { return model_->tables(); }
  OwnState* own_state() override { return state_->arrays() > 0 ? state_.get() : nullptr; }
  std::optional<Engine::CopiedBytes> copied_bytes() const override {
    return Engine::CopiedBytes{device_->bytes_to_device(), device_->bytes_to_host()};
  }
  absl::Status LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) override;
  absl::StatusOr<BatchResult> Step() override;
  absl::StatusOr<BatchResult> Forward(Values values) override;
  absl::Status Push(TableId table, absl::Span<const float> values,
                    absl::Span<float> difference) override;
  absl::Status Take(TableId table, absl::Span<const float> values) override;

 private:
  struct Table {
    int64_t elements = 0;
    float* values = nullptr;  // on the GPU, as all but `pushed`
    float* gradient = nullptr;
    std::vector<float*> optimizer_arrays;
    int64_t steps = 0;
    bool has_begun = false;     // else the optimizer's state is still that of state_
    std::vector<float> pushed;  // the values at the last push, if steps go on meanwhile
    bool is_pushed = false;     // and have not been taken since
  };

  CudaTrainer(std::unique_ptr<Model<CudaStream>> model, const EngineOptions& options);

  absl::Status Start(int device_number);
  absl::Status AllocateState();
  absl::Status AllocateParameters();
  size_t PinnedBytes() const;
  // Copies the table's values to copy_.
  absl::Status CopyOut(const Table& table);
  // Copies values to the GPU, by way of copy_.
  absl::Status CopyIn(absl::Span<const float> values, float* to);
  // The result of the queued Forward, once the GPU has done everything.
  absl::StatusOr<BatchResult> AwaitResult();
  // Queues a step of the table.
  absl::Status QueueStep(int table);
  // Queues the copies of the optimizer's state to the GPU, before its first step.
  absl::Status BeginSteps(TableId id);

  const EngineOptions options_;
  const v1::OptimizerSpec optimizer_;
  const std::unique_ptr<Model<CudaStream>> model_;
  std::shared_ptr<CudaDevice> device_;
  std::shared_ptr<PinnedPool> pool_;
  std::unique_ptr<LocalOptimizerState> state_;  // its arrays are of pool_
  DeviceBuffer parameter_memory_, workspace_;
  BatchResult* result_ = nullptr;       // on the GPU
  BatchResult* host_result_ = nullptr;  // of pool_
  float* copy_ = nullptr;               // of pool_: of the largest table
  std::vector<Table> tables_;
  std::vector<absl::Span<const float>> values_;  // of each table, on the GPU
  std::vector<absl::Span<float>> gradients_;
  std::unique_ptr<BatchFeed> batches_;
  std::unique_ptr<CudaStream> stream_;
};

}  // namespace capstan

#endif  // WORKER_ENGINE_CUDA_TRAINER_H_
