#ifndef WORKER_ENGINE_CPU_ENGINE_H_
#define WORKER_ENGINE_CPU_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/trace/tracer.h"
#include "worker/engine/cpu_device_name.h"
#include "worker/engine/engine.h"
#include "worker/engine/layer_trace.h"
#include "worker/models/training/gathered_batch.h"
#include "worker/models/training/model_on_cpu.h"

namespace capstan {

// Computes on the calling thread, in the store's own memory. A call's work is done on return. Used
// by one thread.
class CpuEngine : public Engine {
 public:
  // `tracer` outlives the engine; null: nothing is traced.
  CpuEngine(std::unique_ptr<ModelOnCpu> model, Tracer* tracer);

  const std::string& device_name() const override { return device_name_; }
  const std::vector<v1::TableSpec>& tables() const override { return model_->model().tables(); }
  bool is_replaceable() const override { return true; }
  ParameterMirror* mirror() override { return nullptr; }

  absl::Status LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) override;
  absl::Status RunStep(Step step, ParameterStore& store) override;
  absl::Status RunForward(ParameterStore& store) override;
  absl::StatusOr<BatchResult> Result() override { return result_; }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  static constexpr int64_t kBatches = 2;

  absl::Status Forward(ParameterStore& store);
  absl::Status WaitForLayer(int layer, ParameterStore& store);

  const std::string device_name_ = CpuDeviceName();
  const std::unique_ptr<ModelOnCpu> model_;
  GatheredBatch batches_[kBatches];
  int64_t loaded_ = 0;
  int64_t used_ = 0;
  BatchResult result_;
  LayerTrace trace_;
};

// Makes an engine with the model of `options`. The errors are those of MakeModel and
// ModelOnCpu::Create.
absl::StatusOr<std::unique_ptr<Engine>> MakeCpuEngine(const EngineOptions& options);

}  // namespace capstan

#endif  // WORKER_ENGINE_CPU_ENGINE_H_
