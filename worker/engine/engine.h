#ifndef WORKER_ENGINE_ENGINE_H_
#define WORKER_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/trace/tracer.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "worker/client/own_state.h"
#include "worker/client/parameter_mirror.h"
#include "worker/client/parameter_store.h"
#include "worker/dataset/dataset.h"
#include "worker/models/training/model.h"

namespace capstan {

// Computes the steps of one worker on one device: holds the model, loads batches, pushes gradients.
// Calls may only queue work. A device's error is returned by the same or a later call. Used by one
// thread.
class Engine {
 public:
  virtual ~Engine() = default;

  // With its kind in parentheses, as v1::Progress::device: "cuda:0 (NVIDIA H200)".
  virtual const std::string& device_name() const = 0;
  // The model's.
  virtual const std::vector<v1::TableSpec>& tables() const = 0;
  // Another process of the worker exchanges this table: it has no elements in this one's store.
  virtual bool IsElsewhere(TableId /*table*/) const { return false; }
  // The mirror of every store passed to the calls below; null for none.
  virtual ParameterMirror* mirror() = 0;
  // Bytes copied between host and GPU so far; none: it computes on the host. Thread-safe.
  struct CopiedBytes {
    uint64_t to_gpu = 0;
    uint64_t to_host = 0;
  };
  virtual std::optional<CopiedBytes> copied_bytes() const { return std::nullopt; }
  // What it keeps from step to step beside the parameters; null: nothing.
  virtual OwnState* own_state() { return nullptr; }
  // Whether what it computes depends on the worker's id, the step and the parameters alone, so that
  // another process can do a step of this one again.
  virtual bool is_replaceable() const { return false; }
  // Each of its steps is a round of these; null: it has no local steps.
  virtual const v1::LocalSteps* local_steps() const { return nullptr; }
  // Whether it is a program that may have such a state of its own, in bytes.
  virtual bool has_program_state() const { return false; }

  // The worker has taken another one's place. Comes before BeginTraining.
  virtual void EnterLate() {}
  // Comes before all steps. With `sets_initial_values` the engine puts the initial values of tables
  // with initial_from_worker into `store` and pushes them.
  virtual void BeginTraining(Step /*first_step*/, bool /*sets_initial_values*/,
                             ParameterStore& /*store*/) {}

  // Loads the batch of this number, from 0, by LoadBatch.
  using BatchLoader = std::function<absl::Status(int64_t number)>;
  // One with local steps loads the batches of its steps itself, by `load`. Comes before all steps.
  virtual void TakeBatchesFrom(BatchLoader /*load*/) {}
  // Loads a batch of these samples: at least one, at most EngineOptions::max_samples. Each RunStep
  // or RunForward uses one batch, in order. At most two batches may wait.
  virtual absl::Status LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) = 0;

  // Forward and backward through the loaded batch. Waits for the values of one layer at a time.
  // Pushes each layer's gradient of `step` as soon as it exists; the layer is open in the store
  // before this returns.
  virtual absl::Status RunStep(Step step, ParameterStore& store) = 0;

  // Forward only, with the values in `store`.
  virtual absl::Status RunForward(ParameterStore& store) = 0;

  // Blocks until the result of the latest RunStep or RunForward is known. Called once after each.
  virtual absl::StatusOr<BatchResult> Result() = 0;

  // Every worker has this number of steps: one of them has told. Any thread.
  virtual void LimitSteps(int64_t /*steps*/) {}
  // All steps are done. Blocks until a program does without the store. One that is asked to end may
  // do so at once, unless the servers need what it has not sent yet.
  virtual absl::Status AwaitEnd(ParameterStore& /*store*/) { return absl::OkStatus(); }
  // The latest RunStep has pushed nothing: the worker has no further step, or is asked to end.
  virtual bool has_ended() const { return false; }
  // The worker entered late, and the others had done all their steps before its first one. The
  // engine has failed for this reason.
  virtual bool came_after_end() const { return false; }
  // The worker is asked to end before `next`, and all its exchanges have been answered. Tells what
  // another process needs that goes on in its place from there.
  virtual absl::Status EndBefore(Step /*next*/, ParameterStore& /*store*/) {
    return absl::OkStatus();
  }
  // The number of samples of the latest RunStep; none: those of its batch.
  virtual std::optional<size_t> step_samples() const { return std::nullopt; }

  // What the latest RunStep was, if it was a round; none: it is not known.
  struct Round {
    int64_t local_steps = 0;
    double drift = 0;  // as v1::Progress::drift
  };
  virtual std::optional<Round> round() const { return std::nullopt; }

  // Drops gradients not yet pushed. Blocks until the engine has stopped using the store.
  virtual absl::Status Finish() = 0;
};

struct EngineOptions {
  v1::ModelSpec model;
  int feature_count = 0;     // Required: of a sample
  int class_count = 0;       // Required
  int64_t max_samples = 0;   // Required: of a batch
  Clock* clock = nullptr;    // Required; outlives the engine
  Tracer* tracer = nullptr;  // optional; outlives the engine
  // Each step is a round of these; none: a step is one batch.
  std::optional<v1::LocalStepsSpec> local_steps;
};

// Makes engines on one device.
using EngineFactory =
    std::function<absl::StatusOr<std::unique_ptr<Engine>>(const EngineOptions& options)>;

}  // namespace capstan

#endif  // WORKER_ENGINE_ENGINE_H_
