#ifndef WORKER_REPLAY_REPLAY_ENGINE_H_
#define WORKER_REPLAY_REPLAY_ENGINE_H_

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
#include "worker/replay/layer_list.h"

namespace capstan {

// The training of a known network without its arithmetic: tensors of its sizes, and layers that
// take their time on the clock. A step's time goes to the layers by their multiply-accumulates, a
// third of it forward and the rest backward. Samples are not looked at; gradients are the same at
// every step. Used by one thread.
class ReplayEngine : public Engine {
 public:
  // INVALID_ARGUMENT: `spec` is not valid, or the errors of LoadLayerList. `clock` and `tracer`,
  // null when nothing is traced, outlive the engine.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const v1::ReplaySpec& spec, Clock* clock,
                                                        Tracer* tracer);

  ReplayEngine(const std::vector<LayerTensor>& tensors, uint64_t scale, absl::Duration step_time,
               Clock* clock, Tracer* tracer);

  const std::string& device_name() const override { return device_name_; }
  const std::vector<v1::TableSpec>& tables() const override { return tables_; }
  ParameterMirror* mirror() override { return nullptr; }
  absl::Status LoadBatch(const Dataset&, absl::Span<const uint32_t>) override {
    return absl::OkStatus();
  }
  absl::Status RunStep(Step step, ParameterStore& store) override;
  absl::Status RunForward(ParameterStore& store) override;
  // A loss of 0, and nothing right.
  absl::StatusOr<BatchResult> Result() override { return BatchResult(); }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  absl::Status WaitForLayer(int layer, ParameterStore& store);
  // The device is busy for `duration` after what it has been given before.
  void Compute(absl::Duration duration);
  // Before the first step.
  void Begin(ParameterStore& store);

  const std::string device_name_ = "replay";
  Clock* const clock_;
  std::vector<v1::TableSpec> tables_;
  std::vector<absl::Duration> forward_time_;  // of each layer
  absl::Time free_at_;                        // when the device has done all it was given
  bool has_begun_ = false;
  LayerTrace trace_;
};

}  // namespace capstan

#endif  // WORKER_REPLAY_REPLAY_ENGINE_H_
