#ifndef WORKER_CLIENT_API_PROGRAM_ENGINE_H_
#define WORKER_CLIENT_API_PROGRAM_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/parameter_store.h"
#include "worker/engine/engine.h"

namespace capstan {

// The engine of a worker whose steps a program computes. The training loop and the program meet
// here: RunStep opens a step to the program and blocks until the program has ended it. The
// program's own threads wait for layers and push them. Thread-safe.
//
// The program's calls return DEADLINE_EXCEEDED when `limit` has passed and nothing is lost;
// FAILED_PRECONDITION if the call does not fit here; ABORTED with the reason once the worker has
// failed; CANCELLED once it has left the job. If a call throws, the others go on.
class ProgramEngine : public Engine {
 public:
  struct Options {
    Clock* clock = nullptr;             // Required; outlives the engine
    std::vector<v1::TableSpec> tables;  // Required; their layers are 0, 1, ... without gaps
    // By table: the initial values, if this worker has them; else empty.
    std::vector<std::vector<float>> initial;
    int64_t steps = 0;  // of the worker; 0: End tells
    std::string device = "program";
  };

  explicit ProgramEngine(Options options);

  // The program's side:

  // Waits until the first step can be computed, or all steps are done.
  absl::Status AwaitStart(absl::Duration limit);
  // One span for each table, in memory that lives as long as the engine. Empty before the start.
  absl::Span<const absl::Span<const float>> values() const;
  absl::Span<const absl::Span<float>> gradients() const;
  int64_t announced_steps() const { return options_.steps; }  // 0: End tells
  // The step that is under way, or comes next.
  Step step() const;

  // Waits for the layer's values of step(); below 0: for those of all layers.
  absl::Status Wait(int layer, absl::Duration limit);
  // Pushes the layer's gradient, once a step. Waits for the layer before.
  absl::Status Push(int layer, absl::Duration limit);
  // The next four are for sparse tables. INVALID_ARGUMENT: the table is dense, or there are too
  // many keys.

  // Number of values in a row.
  absl::StatusOr<size_t> DimOf(TableId table) const;
  // Begins to pull the rows of `keys` once the table's last exchange is answered: at step(), or
  // after the table's push of that step at the next one.
  absl::Status PullRows(TableId table, absl::Span<const uint64_t> keys, absl::Duration limit);
  // Waits for the rows of the last PullRows, and sets them, in the order of its keys.
  absl::Status ReadRows(TableId table, absl::Span<float> rows, absl::Duration limit);
  // Pushes gradients of these keys, once a step. Fetches the rows of `next_keys` ahead, for the
  // next step.
  absl::Status PushRows(TableId table, absl::Span<const uint64_t> keys,
                        absl::Span<const float> gradients, absl::Span<const uint64_t> next_keys,
                        absl::Duration limit);

  // The rate of the table's pushes from now on; no table: that of all tables. Finite, 0 or more.
  absl::Status SetLearningRate(std::optional<TableId> table, double learning_rate);
  // Ends the step. The servers hear of each layer and sparse table without a push that the step is
  // done there without a gradient. `loss` is the mean over the step's samples.
  absl::Status EndStep(double loss, size_t samples, absl::Duration limit);

  // There is no further step.
  absl::Status End();
  bool has_ended_steps() const;
  bool has_started() const;  // the training
  bool is_leaving() const;   // between two steps
  bool is_over() const;      // SetOutcome was called
  // After End: waits until the worker is to evaluate (true), or the job is done.
  absl::StatusOr<bool> AwaitEvaluation(absl::Duration limit);
  // The evaluator's result; its worker and incarnation do not count. Waits for the job's end.
  absl::Status Report(const v1::ReportResultRequest& result, absl::Duration limit);

  // The program reports nothing: the evaluator does not wait for it.
  void ReportNothing();

  // The worker fails with this reason, unless it is over.
  void Fail(absl::Status reason);
  // The worker is asked to leave: an open step without a push is not computed any more.
  void Leave();
  // How the worker has ended: OK after the job's end. Every later call returns it.
  void SetOutcome(absl::Status outcome);
  // False: `limit` has passed.
  bool AwaitOutcome(absl::Duration limit);

  // The training loop's side:

  const std::string& device_name() const override { return options_.device; }
  const std::vector<v1::TableSpec>& tables() const override { return options_.tables; }
  ParameterMirror* mirror() override { return nullptr; }
  void BeginTraining(Step first_step, bool sets_initial_values, ParameterStore& store) override;
  absl::Status LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) override;
  absl::Status RunStep(Step step, ParameterStore& store) override;
  absl::Status RunForward(ParameterStore& store) override { return store.WaitForAll(); }
  absl::StatusOr<BatchResult> Result() override;
  void LimitSteps(int64_t steps) override;
  bool has_ended() const override;
  std::optional<size_t> step_samples() const override;
  absl::Status Finish() override;
  // An Evaluator (worker/runtime/job_setup.h): pulls the final values once the program has called
  // End, then waits for its Report.
  absl::Status Evaluate(Step steps, ParameterStore& store, v1::ReportResultRequest& result);

 private:
  enum class Evaluation { kNone, kWanted, kReported };
  struct EndLease {
    ProgramEngine* engine = nullptr;
    void operator()(ParameterStore* store) const;
  };
  // The store, which the training loop keeps until the lease ends. Null: the worker does not train.
  // A lease ends without the lock.
  using StoreLease = std::unique_ptr<ParameterStore, EndLease>;

  // Blocks until something has changed. DEADLINE_EXCEEDED: the deadline has passed.
  absl::Status WaitLocked(absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Why the worker computes no more; OK if it does, or if all is done.
  absl::Status CheckGoesOnLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same, and FAILED_PRECONDITION before the training.
  absl::Status CheckTrainsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasPushedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The open step is not computed any more.
  bool IsUnwantedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return (ends_ || leaves_) && !HasPushedLocked();
  }
  // False also if the training has ended early, as the job has failed: then its outcome will come.
  bool HasDoneAllStepsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the program has begun a step that the other workers do not have.
  bool IsBeyondOthersLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  StoreLease LeaseStoreLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same. The errors are those of CheckTrainsLocked.
  absl::StatusOr<StoreLease> LeaseStore();
  // The worker ends, because an exchange has failed. Returns ABORTED for Explain.
  absl::Status Lose(const absl::Status& status);
  // What a call returns that has ended with `status`. If an exchange has failed, the job's own
  // reason, as soon as it is known.
  absl::Status Explain(absl::Status status, absl::Time deadline);
  absl::Status CheckLayer(int layer) const;
  absl::Status WaitUntil(int layer, absl::Time deadline);
  absl::Status EndStepUntil(double loss, size_t samples, absl::Time deadline);
  // The step that is open to pushes.
  absl::StatusOr<Step> AwaitOpenStep(absl::Time deadline);
  bool IsPushed(int layer) const;
  // Pushes the layer with its gradient or without, once its values have arrived.
  absl::Status PushUntil(int layer, bool has_gradient, absl::Time deadline);
  // False: no step is open.
  absl::StatusOr<bool> PushNow(int layer, bool has_gradient);
  absl::Status CheckSparse(TableId table) const;
  bool IsSparse(size_t table) const { return options_.tables[table].has_sparse(); }
  // Calls `use` with the rows of sparse tables once no exchange of the table is open. Without
  // rows, when all steps are done and this worker does not evaluate: FAILED_PRECONDITION.
  absl::Status UseRows(TableId table, absl::Time deadline,
                       absl::FunctionRef<absl::Status(RowStore& rows)> use);
  absl::Status PushRowsUntil(TableId table, absl::Span<const uint64_t> keys,
                             absl::Span<const float> gradients,
                             absl::Span<const uint64_t> next_keys, absl::Time deadline);
  // Notes the push of a layer or of a table's rows. False: no step is open. FAILED_PRECONDITION:
  // `name` was pushed before.
  absl::StatusOr<bool> TakePushLocked(size_t index, const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const int layer_count_;
  // Made while there is memory for it.
  const absl::Status half_sent_ = absl::ResourceExhaustedError(
      "a push or pull could be sent in part only, for want of memory; give the program more of it");

  // Set by BeginTraining, before has_started_.
  std::shared_ptr<const void> memory_;
  std::vector<absl::Span<const float>> values_;
  std::vector<absl::Span<float>> gradients_;

  mutable Mutex mu_;
  CondVar changed_;
  bool has_started_ ABSL_GUARDED_BY(mu_) = false;         // BeginTraining was called
  bool has_trained_ ABSL_GUARDED_BY(mu_) = false;         // Finish was called
  ParameterStore* store_ ABSL_GUARDED_BY(mu_) = nullptr;  // null: not training
  int store_users_ ABSL_GUARDED_BY(mu_) = 0;
  Step next_ ABSL_GUARDED_BY(mu_);
  std::optional<Step> open_ ABSL_GUARDED_BY(mu_);     // to the program's pushes
  bool is_ending_step_ ABSL_GUARDED_BY(mu_) = false;  // by one thread; others wait
  // In the open step: by layer, and then by table the rows of sparse tables.
  std::vector<bool> pushed_ ABSL_GUARDED_BY(mu_);
  int64_t most_steps_ ABSL_GUARDED_BY(mu_);       // of every worker; 0: not known
  BatchResult result_ ABSL_GUARDED_BY(mu_) = {};  // of the latest step
  size_t samples_ ABSL_GUARDED_BY(mu_) = 0;       // of the latest step
  bool ends_ ABSL_GUARDED_BY(mu_) = false;        // End was called
  bool leaves_ ABSL_GUARDED_BY(mu_) = false;      // Leave was called
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;   // as has_ended()
  absl::Status failure_ ABSL_GUARDED_BY(mu_);     // of the program, or of an exchange
  // Until when calls wait for the job's reason. Set by Lose.
  absl::Time reason_due_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  Evaluation evaluation_ ABSL_GUARDED_BY(mu_) = Evaluation::kNone;
  v1::ReportResultRequest report_ ABSL_GUARDED_BY(mu_);
  bool reports_nothing_ ABSL_GUARDED_BY(mu_) = false;  // ReportNothing was called
  std::optional<absl::Status> outcome_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // WORKER_CLIENT_API_PROGRAM_ENGINE_H_
