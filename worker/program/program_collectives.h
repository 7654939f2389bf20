#ifndef WORKER_PROGRAM_PROGRAM_COLLECTIVES_H_
#define WORKER_PROGRAM_PROGRAM_COLLECTIVES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/exchange/collective.h"
#include "common/exchange/payload.h"
#include "proto/job.pb.h"
#include "worker/client/parameter_store.h"
#include "worker/program/program_steps.h"

namespace capstan {

// A program's collective operations: what all workers do together, in the same order, beside the
// parameters. Calls return what those of ProgramSteps do. Workers that do different operations fail
// the job, which is told what each of them does. One operation at a time. Thread-safe.
class ProgramCollectives {
 public:
  // `clock` and `steps` outlive this object.
  ProgramCollectives(Clock* clock, ProgramSteps* steps, const v1::JobSpec& job,
                     bool is_replaceable = false);

  // An operation of all workers.
  struct Operation {
    CollectiveType type = CollectiveType::kBarrier;
    CollectiveDtype dtype = CollectiveDtype::kFloat32;
    WorkerId root;                     // of a broadcast
    std::vector<uint64_t> shape = {};  // of the values, as in Collective
  };
  // Puts the result in place of `values`, elements of the operation's type. If the time passes, the
  // same call goes on, and another one is FAILED_PRECONDITION, as are all without BSP.
  // INVALID_ARGUMENT: the job is unchanged. A replaceable program does operations within steps
  // only: another process in its place begins with one of them, and knows of nothing between two.
  absl::Status Run(const Operation& operation, absl::Span<uint8_t> values, absl::Duration limit);
  // The worker has no more gradients. Waits until another worker does the step, which this one then
  // does without a gradient (true), or until all have none (false): then they may end as after
  // Stop. Between the first call and the last, the others' operations are theirs alone.
  absl::StatusOr<bool> Join(absl::Duration limit);

  // Whether the flag of any worker is true. If so, all workers may end after the step that is under
  // way or has just ended, though they had announced more, unless the job stays.
  absl::StatusOr<bool> Stop(bool flag, absl::Duration limit);

  // The program waits for the values of step `next`. If that takes long, the others may wait for an
  // operation that this worker leaves out. So they are told that its steps before have no more.
  void NoteWaiting(Step next, ParameterStore& store);
  // A replaceable program is going to push for the first time in this step. So it has ended the one
  // before, and knows what was decided there: another process in its place need not do that again.
  void NoteStepBefore(Step step, ParameterStore& store);
  // The program has no further step, and does no further operation.
  void NoteEnd(ParameterStore& store);

 private:
  // An operation that was sent. Its answer may come after the program has given up.
  struct Sent {
    Collective part;  // without values
    // Written before the store's wait for it ends:
    // FAILED_PRECONDITION: the consistency is not BSP any more. OUT_OF_RANGE: another worker had
    // done all its steps before this one's first.
    absl::Status refusal;
    Payload result;
  };

  // OK: the program may do operations.
  absl::Status CheckMayRun() const;
  // OK: it may do one of this type now, as Run says of replaceable programs.
  absl::Status CheckIsWithinStep(CollectiveType type) const;
  absl::StatusOr<Payload> Do(Collective part, absl::Time deadline);
  // Sends the part, unless an earlier call has sent it.
  absl::StatusOr<std::shared_ptr<Sent>> Send(Collective&& part, ParameterStore& store);
  void SendEndOfStep(Step step, ParameterStore& store);

  Clock& clock_;
  ProgramSteps& steps_;
  const uint32_t num_workers_;
  const bool is_bsp_;
  const bool stays_;  // the job
  const bool is_replaceable_;
  const bool is_program_;  // others do no operations

  Mutex mu_;
  std::shared_ptr<Sent> under_way_ ABSL_GUARDED_BY(mu_);  // null: none
  Step step_ ABSL_GUARDED_BY(mu_);                        // of the next operation
  uint64_t number_ ABSL_GUARDED_BY(mu_) = 0;              // of the next operation in step_
  bool is_joined_ ABSL_GUARDED_BY(mu_) = false;
  Step told_ ABSL_GUARDED_BY(mu_);  // the latest step of NoteStepBefore
  // The wait that goes on, and since when.
  Step waits_for_ ABSL_GUARDED_BY(mu_);
  absl::Time waits_since_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
};

}  // namespace capstan

#endif  // WORKER_PROGRAM_PROGRAM_COLLECTIVES_H_
