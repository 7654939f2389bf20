#ifndef WORKER_MODELS_REPLAY_REPLAY_ENGINE_H_
#define WORKER_MODELS_REPLAY_REPLAY_ENGINE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/trace/tracer.h"
#include "proto/job.pb.h"
#include "worker/engine/engine.h"
#include "worker/engine/layer_trace.h"
#include "worker/models/replay/layer_list.h"

namespace capstan {

// Replays the training of a known network without its arithmetic. Tensors have their true sizes,
// and layers take their time on the clock. A step's time is divided among the layers by their
// multiply-accumulates: a third forward, the rest backward. Samples are ignored; gradients are the
// same at every step. Used by one thread.
class ReplayEngine : public Engine {
 public:
  // The errors are those of LoadLayerList. `clock` and `tracer` outlive the engine; null: nothing
  // is traced.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const v1::ReplaySpec& spec, Clock* clock,
                                                        Tracer* tracer);

  ReplayEngine(const std::vector<LayerTensor>& tensors, uint64_t scale, absl::Duration step_time,
               Clock* clock, Tracer* tracer);

  const std::string& device_name() const override { return device_name_; }
  const std::vector<v1::TableSpec>& tables() const override { return tables_; }
  bool is_replaceable() const override { return true; }
  ParameterMirror* mirror() override { return nullptr; }
  absl::Status LoadBatch(const Dataset&, absl::Span<const uint32_t>) override {
    return absl::OkStatus();
  }
  absl::Status RunStep(Step step, ParameterStore& store) override;
  absl::Status RunForward(ParameterStore& store) override;
  // A loss of 0, and nothing right.
  absl::StatusOr<BatchResult> Result() override { return BatchResult(); }
  absl::Status Finish() override { return absl::OkStatus(); }

  // Takes the time of a step without pulling or pushing anything.
  void ComputeAlone();
  // The gradient of every step.
  static void FillGradient(absl::Span<float> gradient);

 private:
  absl::Status WaitForLayer(int layer, ParameterStore& store);
  // Queues `duration` of work on the replayed device, and sleeps until the device has done it.
  void Compute(absl::Duration duration);
  // Before the first step.
  void Begin(ParameterStore& store);

  const std::string device_name_ = "replay";
  Clock* const clock_;
  std::vector<v1::TableSpec> tables_;
  std::vector<absl::Duration> forward_time_;  // of each layer
  absl::Time free_at_;                        // end of the device's queued work
  bool has_begun_ = false;
  LayerTrace trace_;
};

}  // namespace capstan

#endif  // WORKER_MODELS_REPLAY_REPLAY_ENGINE_H_
