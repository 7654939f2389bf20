#ifndef TESTS_BENCHMARK_STRAGGLER_PADDED_ENGINE_H_
#define TESTS_BENCHMARK_STRAGGLER_PADDED_ENGINE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "tests/cluster/wrapped_engine.h"
#include "worker/engine/engine.h"

namespace capstan {

// One step of one worker.
struct StepRecord {
  absl::Time end;
  double loss = 0;  // of its batch
};

// Makes each step of another engine longer. It waits until the values are there, then on the clock,
// and only then computes and sends gradients. Used by one thread.
class PaddedEngine : public WrappedEngine {
 public:
  // `compute_time` is the wait of a step. `clock` and `records` outlive the engine.
  PaddedEngine(std::unique_ptr<Engine> engine, Clock* clock,
               absl::AnyInvocable<absl::Duration(Step)> compute_time,
               std::vector<StepRecord>* records)
      : WrappedEngine(std::move(engine)),
        clock_(clock),
        compute_time_(std::move(compute_time)),
        records_(records) {}

  absl::Status LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) override {
    batch_size_ = static_cast<double>(samples.size());
    return WrappedEngine::LoadBatch(dataset, samples);
  }
  absl::Status RunStep(Step step, ParameterStore& store) override {
    step_batch_size_ = batch_size_;
    RETURN_IF_ERROR(store.WaitForAll());
    SleepUntil(*clock_, clock_->Now() + compute_time_(step));
    is_step_ = true;
    return WrappedEngine::RunStep(step, store);
  }
  absl::Status RunForward(ParameterStore& store) override {
    is_step_ = false;
    return WrappedEngine::RunForward(store);
  }
  absl::StatusOr<BatchResult> Result() override {
    ASSIGN_OR_RETURN(const BatchResult result, WrappedEngine::Result());
    if (is_step_) records_->push_back({clock_->Now(), result.loss_sum / step_batch_size_});
    return result;
  }

 private:
  Clock* const clock_;
  absl::AnyInvocable<absl::Duration(Step)> compute_time_;
  std::vector<StepRecord>* const records_;
  bool is_step_ = false;        // not an evaluation
  double batch_size_ = 0;       // of the batch loaded last
  double step_batch_size_ = 0;  // of the latest step
};

}  // namespace capstan

#endif  // TESTS_BENCHMARK_STRAGGLER_PADDED_ENGINE_H_
