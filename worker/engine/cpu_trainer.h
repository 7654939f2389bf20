#ifndef WORKER_ENGINE_CPU_TRAINER_H_
#define WORKER_ENGINE_CPU_TRAINER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/host_buffer.h"
#include "worker/engine/cpu_device_name.h"
#include "worker/engine/engine.h"
#include "worker/engine/host_optimizer.h"
#include "worker/engine/local_trainer.h"
#include "worker/models/training/gathered_batch.h"
#include "worker/models/training/model_on_cpu.h"

namespace capstan {

// Local steps on the calling thread.
class CpuTrainer : public LocalTrainer {
 public:
  // Trains the model of `options` with its local steps. The errors are those of MakeModel,
  // ModelOnCpu::Create and HostOptimizer::Create.
  static absl::StatusOr<std::unique_ptr<LocalTrainer>> Create(const EngineOptions& options);

  const std::string& device_name() const override { return device_name_; }
  const std::vector<v1::TableSpec>& tables() const override { return model_->model().tables(); }
  OwnState* own_state() override {
    LocalOptimizerState& state = optimizer_->state();
    return state.arrays() > 0 ? &state : nullptr;
  }
  absl::Status LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) override;
  absl::StatusOr<BatchResult> Step() override;
  absl::StatusOr<BatchResult> Forward(Values values) override;
  absl::Status Push(TableId table, absl::Span<const float> values,
                    absl::Span<float> difference) override;
  absl::Status Take(TableId table, absl::Span<const float> values) override;

 private:
  CpuTrainer(std::unique_ptr<ModelOnCpu> model, std::unique_ptr<HostOptimizer> optimizer)
      : model_(std::move(model)), optimizer_(std::move(optimizer)) {}
  absl::Status Allocate(bool goes_on);

  const std::string device_name_ = CpuDeviceName();
  const std::unique_ptr<ModelOnCpu> model_;
  const std::unique_ptr<HostOptimizer> optimizer_;
  GatheredBatch batch_;
  // By table:
  std::vector<HostBuffer> values_;
  std::vector<HostBuffer> gradients_;
  std::vector<HostBuffer> pushed_;  // the values at the last push, if steps go on meanwhile
  std::vector<bool> is_pushed_;     // and have not been taken since
  std::vector<absl::Span<const float>> value_spans_;
  std::vector<absl::Span<float>> gradient_spans_;
};

}  // namespace capstan

#endif  // WORKER_ENGINE_CPU_TRAINER_H_
