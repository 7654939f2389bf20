#ifndef WORKER_PROGRAM_PROGRAM_STEPS_H_
#define WORKER_PROGRAM_PROGRAM_STEPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/parameter_store.h"
#include "worker/engine/engine.h"

namespace capstan {

// The steps of a worker whose program computes them: which step is open, what was pushed in it, and
// how the worker ends. The training loop and the program meet here. Thread-safe.
//
// The program's calls return DEADLINE_EXCEEDED when the time has passed and nothing is lost;
// FAILED_PRECONDITION if the call does not fit here; ABORTED with the reason once the worker has
// failed; CANCELLED once it has left the job. If a call throws, the others go on.
class ProgramSteps {
  struct EndLease {
    ProgramSteps* steps;
    void operator()(ParameterStore* store) const;
  };

 public:
  // The store, which the training loop keeps until the lease ends. Null: the worker does not train.
  // A lease ends without a lock.
  using StoreLease = std::unique_ptr<ParameterStore, EndLease>;
  // A push that was noted, to be sent.
  struct TakenPush {
    Step step;
    StoreLease store;  // not null
  };

  // `clock` outlives this object. In each step each of `parts` parts is pushed once. `steps` are
  // those of the worker; 0: End tells.
  ProgramSteps(Clock* clock, size_t parts, int64_t steps);

  // The program's side:

  // Waits until the first step can be computed, or all steps are done.
  absl::Status AwaitStart(absl::Duration limit);
  // The step that is under way, or comes next.
  Step current() const {
    MutexLock lock(&mu_);
    return next_;
  }
  // The same, or once the part is pushed the step after it.
  Step StepAfter(size_t part) const;
  // Waits for a step that is open to pushes.
  absl::StatusOr<Step> AwaitOpenStep(absl::Time deadline);
  // Notes the push of a part of the open step. None: no step is open any more. FAILED_PRECONDITION:
  // `name` was pushed before.
  absl::StatusOr<std::optional<TakenPush>> TakePush(size_t part, const std::string& name);
  // The part was not pushed after all.
  void ReturnPush(size_t part);
  bool IsPushed(size_t part) const {
    MutexLock lock(&mu_);
    return pushed_[part];
  }
  // Whether some part of it is pushed.
  bool HasPush() const {
    MutexLock lock(&mu_);
    return HasPushedLocked();
  }
  // The caller alone ends the open step, between these two.
  absl::Status BeginEndOfStep(absl::Time deadline);
  void FinishEndOfStep();
  // All parts of the open step are pushed.
  absl::Status CloseStep(double loss, size_t samples);

  // Calls `wait`, which waits for something in the store for a time at most, until it is true or
  // fails, or the deadline has passed (DEADLINE_EXCEEDED with `text`). An error fails the worker,
  // as Lose. If it takes long, OnLongWait's call hears of it, again and again.
  absl::Status WaitIn(ParameterStore& store, absl::Time deadline, const char* text,
                      absl::FunctionRef<absl::StatusOr<bool>(absl::Duration limit)> wait);
  // Only before the training.
  void OnLongWait(std::function<void(ParameterStore& store)> call) {
    on_long_wait_ = std::move(call);
  }

  // The store, while the worker trains. FAILED_PRECONDITION before the training.
  absl::StatusOr<StoreLease> LeaseStore();
  // Why there is none any more: how the worker has ended, if it leaves, once that is known; else
  // FAILED_PRECONDITION, as all steps are done.
  absl::Status WithoutStore(absl::Time deadline);

  // The program has waited for values of the step, or has pushed in it.
  void NoteBegun() {
    MutexLock lock(&mu_);
    has_begun_ = true;
  }
  // Whether the program is between NoteBegun and the end of the step, or may have no further step.
  bool IsWithinStep() const;
  // The worker is another process. Before any other call.
  void BePart() { is_part_ = true; }
  // FAILED_PRECONDITION: what the program asks for is for the process that is the worker.
  absl::Status CheckIsWorker() const;
  // All workers have agreed to end, maybe before the steps that they had announced.
  void AgreeToEnd();
  // There is no further step. FAILED_PRECONDITION: a step is under way, or more were announced.
  absl::Status End();
  // After End: waits until the worker is to evaluate (true), or the job is done.
  absl::StatusOr<bool> AwaitEvaluation(absl::Duration limit);
  // The evaluator's result; its worker and incarnation do not count. Waits for the job's end.
  absl::Status Report(const v1::ReportResultRequest& result, absl::Duration limit);
  // The program reports nothing: the evaluator does not wait for it.
  void ReportNothing();

  // The worker fails with this reason, unless it is over.
  void Fail(absl::Status reason) { FailAs(std::move(reason), false); }
  // The same, because an exception has left a push or pull sent in part.
  void FailHalfSent() { Fail(half_sent_); }
  // The same, because an exchange has failed. Returns ABORTED for Explain.
  absl::Status Lose(const absl::Status& status) { return LoseAs(status, false); }
  // The same, because the program has begun a step that the others do not have, as `what` says. A
  // worker that `came_after_end` leaves: Explain and all later calls return CANCELLED.
  absl::Status LoseBeyondOthers(absl::string_view what, bool came_after_end);
  // What a call returns that has ended with `status`. If the worker has failed or leaves, how it
  // has ended, as soon as that is known.
  absl::Status Explain(absl::Status status, absl::Time deadline);
  // The worker is asked to leave: an open step without a push is not computed any more.
  void Leave();
  // How the worker has ended: OK after the job's end. Every later call returns it.
  void SetOutcome(absl::Status outcome);
  // False: `limit` has passed.
  bool AwaitOutcome(absl::Duration limit);

  int64_t announced_steps() const { return announced_steps_; }  // 0: End tells
  // Whether EnterLate was called.
  bool entered_late() const {
    MutexLock lock(&mu_);
    return entered_late_;
  }
  // Whether End was called.
  bool has_ended_steps() const {
    MutexLock lock(&mu_);
    return ends_;
  }
  // Whether the training has begun.
  bool has_started() const {
    MutexLock lock(&mu_);
    return has_started_;
  }
  bool is_leaving() const;  // between two steps
  // Whether SetOutcome was called.
  bool is_over() const {
    MutexLock lock(&mu_);
    return outcome_.has_value();
  }

  // The training loop's side:

  // The worker has taken another one's place. Comes before BeginTraining.
  void EnterLate() {
    MutexLock lock(&mu_);
    entered_late_ = true;
  }
  void BeginTraining(Step first_step, ParameterStore& store);
  // Opens the step to the program, and blocks until the program has ended it.
  absl::Status Run(Step step);
  // These two are of the latest step.
  BatchResult Result() const {
    MutexLock lock(&mu_);
    return result_;
  }
  size_t samples() const {
    MutexLock lock(&mu_);
    return samples_;
  }
  // Every worker does as many.
  void LimitSteps(int64_t steps);
  // The latest step was not computed, as the program has ended or leaves.
  bool has_ended() const {
    MutexLock lock(&mu_);
    return has_ended_;
  }
  // As Engine's.
  bool came_after_end() const {
    MutexLock lock(&mu_);
    return came_after_end_;
  }
  absl::Status EndTraining();
  // All steps are done. Waits for the program's End, or until it leaves; if the servers need a
  // state that it `owes`, until it is closed.
  absl::Status AwaitEnd(bool owes_state);
  // The worker is to evaluate, with the values in `store`, which are those at `steps`. Waits for
  // the program's Report, and returns it.
  absl::StatusOr<v1::ReportResultRequest> AwaitReport(Step steps, ParameterStore& store);

 private:
  enum class Evaluation { kNone, kWanted, kReported };

  // Blocks until something has changed. DEADLINE_EXCEEDED: the deadline has passed.
  absl::Status WaitLocked(absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Why the worker computes no more; OK if it does, or if all is done.
  absl::Status CheckGoesOnLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same, and FAILED_PRECONDITION before the training.
  absl::Status CheckTrainsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasPushedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return std::find(pushed_.begin(), pushed_.end(), true) != pushed_.end();
  }
  // The open step is not computed any more.
  bool IsUnwantedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return (ends_ || leaves_) && !HasPushedLocked();
  }
  // False also if the training has ended early, as the job has failed: then its outcome will come.
  bool HasDoneAllStepsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const bool are_steps_over = ends_ || (most_steps_ > 0 && next_ >= Step(most_steps_));
    return has_run_ || (!leaves_ && has_trained_ && are_steps_over);
  }
  // Whether the program has begun a step that the other workers do not have.
  bool IsBeyondOthersLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (most_steps_ == 0) return false;
    return next_ > Step(most_steps_) || (next_ == Step(most_steps_) && HasPushedLocked());
  }
  // Whether the worker entered late, and no other has its first step.
  bool CameAfterEndLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return entered_late_ && most_steps_ > 0 && first_ >= Step(most_steps_);
  }
  // Loses the worker if its program has begun a step that the others do not have.
  void CheckIsNotBeyond();
  absl::Status LoseAs(const absl::Status& status, bool came_after_end);
  void FailAs(absl::Status reason, bool came_after_end);
  StoreLease LeaseStoreLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Nobody else has the store any more.
  absl::Status TakeStoreBackLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock* const clock_;
  std::function<void(ParameterStore& store)> on_long_wait_ = [](ParameterStore&) {};
  const int64_t announced_steps_;
  // Made while there is memory for it.
  const absl::Status half_sent_ = absl::ResourceExhaustedError(
      "a push or pull could be sent in part only, for want of memory; give the program more of it");

  mutable Mutex mu_;
  CondVar changed_;
  bool has_started_ ABSL_GUARDED_BY(mu_) = false;         // BeginTraining was called
  bool has_run_ ABSL_GUARDED_BY(mu_) = false;             // AwaitEnd was called
  bool has_trained_ ABSL_GUARDED_BY(mu_) = false;         // EndTraining was called
  ParameterStore* store_ ABSL_GUARDED_BY(mu_) = nullptr;  // null: not training
  int store_users_ ABSL_GUARDED_BY(mu_) = 0;
  bool entered_late_ ABSL_GUARDED_BY(mu_) = false;  // as entered_late()
  Step first_ ABSL_GUARDED_BY(mu_);                 // of this process
  Step next_ ABSL_GUARDED_BY(mu_);
  std::optional<Step> open_ ABSL_GUARDED_BY(mu_);     // to the program's pushes
  bool has_begun_ ABSL_GUARDED_BY(mu_) = false;       // NoteBegun was called in the step
  bool is_ending_step_ ABSL_GUARDED_BY(mu_) = false;  // by one thread; others wait
  std::vector<bool> pushed_ ABSL_GUARDED_BY(mu_);     // in the open step, by part
  bool is_part_ = false;
  int64_t most_steps_ ABSL_GUARDED_BY(mu_);           // of every worker; 0: not known
  BatchResult result_ ABSL_GUARDED_BY(mu_) = {};      // of the latest step
  size_t samples_ ABSL_GUARDED_BY(mu_) = 0;           // of the latest step
  bool may_end_early_ ABSL_GUARDED_BY(mu_) = false;   // AgreeToEnd was called
  bool ends_ ABSL_GUARDED_BY(mu_) = false;            // End was called
  bool leaves_ ABSL_GUARDED_BY(mu_) = false;          // Leave was called
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;       // as has_ended()
  absl::Status failure_ ABSL_GUARDED_BY(mu_);         // of the program, or of an exchange
  bool came_after_end_ ABSL_GUARDED_BY(mu_) = false;  // this is the failure
  // Until when calls wait for the job's reason. Set by Lose.
  absl::Time reason_due_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  Evaluation evaluation_ ABSL_GUARDED_BY(mu_) = Evaluation::kNone;
  v1::ReportResultRequest report_ ABSL_GUARDED_BY(mu_);
  bool reports_nothing_ ABSL_GUARDED_BY(mu_) = false;  // ReportNothing was called
  std::optional<absl::Status> outcome_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // WORKER_PROGRAM_PROGRAM_STEPS_H_
