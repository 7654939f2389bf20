#ifndef WORKER_RUNTIME_TRAINING_LOOP_H_
#define WORKER_RUNTIME_TRAINING_LOOP_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/trace/tracer.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/parameter_store.h"
#include "worker/dataset/batch_sampler.h"
#include "worker/dataset/dataset.h"
#include "worker/engine/engine.h"
#include "worker/models/training/model.h"
#include "worker/runtime/schedule_follower.h"

namespace capstan {

// Runs the steps of one worker: pull, compute, push. While the engine computes a step, the next
// batch is loaded. Run by one thread; any thread may call progress().
class TrainingLoop {
 public:
  struct Options {
    Clock* clock = nullptr;  // All of these are required and outlive the loop.
    Engine* engine = nullptr;
    ParameterStore* store = nullptr;
    BatchSampler* sampler = nullptr;  // null: the engine brings its own data
    const Dataset* train = nullptr;
    WorkerId worker;
    Step first_step = Step(0);  // earlier steps are another process's
    // Of each worker, including the earlier ones. 0: the engine tells when they end.
    int64_t steps = 0;
    bool is_restored = false;  // the job goes on from a checkpoint
    Tracer* tracer = nullptr;  // optional; outlives the loop
    // Null if the schedule is fixed. Outlives the loop.
    ScheduleFollower* schedule = nullptr;
    // Optional: comes before each step.
    std::function<void(Step)> begin_step;
    // Asked before each step: whether to stop.
    std::function<bool()> must_stop = [] { return false; };
  };

  explicit TrainingLoop(const Options& options);

  // Runs all steps from the first one on, or until it must stop. Afterwards all exchanges of these
  // steps have been answered, and the store holds the values of the last replies. Stops with the
  // first error of an exchange.
  absl::Status Run();

  // Run has done the steps, and they are all of the job.
  bool has_finished() const;
  int64_t steps_done() const;

  // A step is done when all its exchanges have been answered. Steps before the first one are done.
  // If no step is left for this worker, 0 steps are done until Run has ended.
  v1::Progress progress() const;

  // The parts of the time of all steps that are done. No part ever falls. Any thread.
  struct StepParts {
    absl::Duration compute;
    absl::Duration wait;
    absl::Duration send;
  };
  StepParts step_parts() const;

 private:
  // Losses are averaged over this many steps.
  static constexpr size_t kLossWindow = 50;
  // The first loss is the mean of this many steps: enough for a mean, too few to learn much.
  static constexpr size_t kFirstSteps = 10;
  // The median time of a step is taken over this many steps.
  static constexpr size_t kTimeWindow = 200;
  // Connections and caches warm up in the first steps. Later steps replace their times.
  static constexpr int64_t kWarmUpSteps = 3;

  absl::Status RunSteps();
  // There may be such a step.
  bool HasStep(Step step) const;
  // The engine has no further step. FAILED_PRECONDITION: it has done none.
  absl::Status EndAt(int64_t steps);
  // The engine takes its batches within steps.
  bool LoadsInSteps() const;
  // The step's batch, if the engine does not load it itself.
  absl::Status LoadBatch(Step step);
  absl::Status LoadBatchOf(Step step);
  absl::Status RunStep(Step step);
  void RecordStepsDone(int64_t steps_done, absl::Time now);
  void RecordStepTimeLocked(int64_t steps_done, absl::Duration step_time)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RecordLoss(const BatchResult& result, size_t batch_size);
  void RecordRound(const Engine::Round& round);
  double RecentLossLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const int track_;        // of the trace
  size_t batch_size_ = 0;  // of the last loaded batch

  mutable Mutex mu_;
  std::deque<std::pair<double, size_t>> recent_ ABSL_GUARDED_BY(mu_);  // loss sum and batch size
  std::optional<double> first_loss_ ABSL_GUARDED_BY(mu_);
  double largest_loss_ ABSL_GUARDED_BY(mu_) = 0;
  bool has_recorded_ ABSL_GUARDED_BY(mu_) = false;  // a step has run, or Run has ended
  int64_t steps_done_ ABSL_GUARDED_BY(mu_);
  int64_t steps_total_ ABSL_GUARDED_BY(mu_);      // 0: not known yet
  bool ends_early_ ABSL_GUARDED_BY(mu_) = false;  // before the steps that it had announced
  uint64_t samples_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t local_steps_ ABSL_GUARDED_BY(mu_) = 0;
  double drift_ ABSL_GUARDED_BY(mu_) = 0;  // of the latest round
  absl::Time started_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  absl::Time latest_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  std::deque<absl::Duration> step_times_ ABSL_GUARDED_BY(mu_);
  bool is_warm_ ABSL_GUARDED_BY(mu_) = false;
  StepParts step_parts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // WORKER_RUNTIME_TRAINING_LOOP_H_
