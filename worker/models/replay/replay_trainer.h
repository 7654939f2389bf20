#ifndef WORKER_MODELS_REPLAY_REPLAY_TRAINER_H_
#define WORKER_MODELS_REPLAY_REPLAY_TRAINER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/engine.h"
#include "worker/engine/local_trainer.h"
#include "worker/models/replay/replay_engine.h"

namespace capstan {

// Local steps of a ReplayEngine: they take its time, and each push is the same. There is no local
// copy of the values, and no optimizer.
class ReplayTrainer : public LocalTrainer {
 public:
  // The errors are those of LoadLayerList.
  static absl::StatusOr<std::unique_ptr<LocalTrainer>> Create(const EngineOptions& options);

  const std::string& device_name() const override { return engine_->device_name(); }
  const std::vector<v1::TableSpec>& tables() const override { return engine_->tables(); }
  OwnState* own_state() override { return nullptr; }
  absl::Status LoadBatch(const Dataset&, absl::Span<const uint32_t>) override {
    return absl::OkStatus();
  }
  absl::StatusOr<BatchResult> Step() override;
  absl::StatusOr<BatchResult> Forward(Values) override { return BatchResult(); }
  absl::Status Push(TableId table, absl::Span<const float> values,
                    absl::Span<float> difference) override;
  absl::Status Take(TableId, absl::Span<const float>) override { return absl::OkStatus(); }

 private:
  explicit ReplayTrainer(std::unique_ptr<ReplayEngine> engine) : engine_(std::move(engine)) {}

  const std::unique_ptr<ReplayEngine> engine_;
};

}  // namespace capstan

#endif  // WORKER_MODELS_REPLAY_REPLAY_TRAINER_H_
