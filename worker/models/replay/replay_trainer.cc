#include "worker/models/replay/replay_trainer.h"

#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "worker/models/replay/layer_list.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<LocalTrainer>> ReplayTrainer::Create(const EngineOptions& options) {
  const v1::ReplaySpec& spec = options.model.replay();
  ASSIGN_OR_RETURN(const std::vector<LayerTensor> tensors, LoadLayerList(spec.layers()));
  auto engine = std::make_unique<ReplayEngine>(tensors, spec.scale(),
                                               absl::Seconds(spec.compute_seconds()), options.clock,
                                               /*tracer=*/nullptr);
  return std::unique_ptr<LocalTrainer>(new ReplayTrainer(std::move(engine)));
}

absl::StatusOr<BatchResult> ReplayTrainer::Step() {
  engine_->ComputeAlone();
  return BatchResult();
}

absl::Status ReplayTrainer::Push(TableId /*table*/, absl::Span<const float> /*values*/,
                                 absl::Span<float> difference) {
  ReplayEngine::FillGradient(difference);
  return absl::OkStatus();
}

}  // namespace capstan
