#ifndef WORKER_ENGINE_LOCAL_STEPS_ENGINE_H_
#define WORKER_ENGINE_LOCAL_STEPS_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/trace/tracer.h"
#include "worker/engine/engine.h"
#include "worker/engine/local_rounds.h"
#include "worker/engine/local_trainer.h"

namespace capstan {

// Each step is a round: many steps of a trainer, which pushes by how much the servers' values are
// above its own. The layers are pushed in fragments, each at its own moment. Used by one thread.
class LocalStepsEngine : public Engine {
 public:
  // `options` are those of the trainer. INVALID_ARGUMENT: there are more fragments than layers.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(std::unique_ptr<LocalTrainer> trainer,
                                                        const EngineOptions& options);

  const std::string& device_name() const override { return trainer_->device_name(); }
  const std::vector<v1::TableSpec>& tables() const override { return trainer_->tables(); }
  ParameterMirror* mirror() override { return nullptr; }
  OwnState* own_state() override { return trainer_->own_state(); }
  std::optional<CopiedBytes> copied_bytes() const override { return trainer_->copied_bytes(); }
  const v1::LocalSteps* local_steps() const override { return &settings_; }

  void BeginTraining(Step first_step, bool sets_initial_values, ParameterStore& store) override;
  void TakeBatchesFrom(BatchLoader load) override { load_ = std::move(load); }
  absl::Status LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) override;
  absl::Status RunStep(Step step, ParameterStore& store) override;
  absl::Status RunForward(ParameterStore& store) override;
  // Summed over the local steps.
  absl::StatusOr<BatchResult> Result() override { return result_; }
  std::optional<size_t> step_samples() const override { return samples_; }
  std::optional<Round> round() const override { return round_; }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  struct Fragment {
    int first_layer = 0;
    int last_layer = 0;
    // The number of local steps after which it takes its new values. None: no exchange is open.
    std::optional<int64_t> due;
  };

  LocalStepsEngine(std::unique_ptr<LocalTrainer> trainer, const EngineOptions& options);
  absl::Status MakeFragments();

  absl::Status RunLocalStep();
  // Takes the new values of each fragment that is due. Also finds out whether the job has failed.
  absl::Status TakeDue(ParameterStore& store);
  absl::Status Take(Fragment& fragment, ParameterStore& store);
  absl::Status Push(Fragment& fragment, Step step, ParameterStore& store);

  const v1::LocalSteps settings_;
  const std::unique_ptr<LocalTrainer> trainer_;
  Tracer* const tracer_;
  const int track_;
  std::vector<std::vector<TableId>> tables_of_layer_;
  std::vector<Fragment> fragments_;  // from the input on
  BatchLoader load_;

  LocalRounds rounds_;
  int64_t next_batch_ = 0;
  // Of the latest round, or forward:
  BatchResult result_;
  size_t samples_ = 0;
  Round round_;
  // Sums of squares of the round's differences, and of the values.
  double difference_square_ = 0;
  double value_square_ = 0;
};

}  // namespace capstan

#endif  // WORKER_ENGINE_LOCAL_STEPS_ENGINE_H_
