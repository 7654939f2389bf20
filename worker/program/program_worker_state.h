#ifndef WORKER_PROGRAM_PROGRAM_WORKER_STATE_H_
#define WORKER_PROGRAM_PROGRAM_WORKER_STATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/parameter_store.h"
#include "worker/program/program_steps.h"

namespace capstan {

// What a program keeps from step to step beside the parameters, in named pieces. They travel into
// checkpoints and back. In a checkpoint that was cut before a step are the pieces as they were when
// the step's first gradient was pushed, or at its end. Calls return what those of ProgramSteps do.
// Thread-safe.
class ProgramWorkerState {
 public:
  // The pointers outlive this object. `has_checkpoints`: the job may write some.
  ProgramWorkerState(Clock* clock, ProgramSteps* steps, const std::vector<v1::TableSpec>* tables,
                     bool has_checkpoints);

  // The piece is these bytes from now on. INVALID_ARGUMENT: the name is empty, or all pieces
  // together have more than kMaxProgramStateBytes. FAILED_PRECONDITION: the job has no dense table.
  absl::Status Put(const std::string& name, absl::Span<const uint8_t> bytes);
  // The piece in the checkpoint from which the job goes on; null: there is none.
  std::shared_ptr<const std::string> Get(const std::string& name) const;
  // Whether a checkpoint was cut that waits for the pieces, or for a table's state. Waits for the
  // values of the step that comes next, of the first dense table, and of the first one that replies
  // the mean. Who calls it once puts pieces only when it is true.
  absl::StatusOr<bool> AwaitDue(absl::Duration limit);

  // The engine's side:

  // Checkpoints wait for the pieces, the last one for those of the end.
  bool has_pieces() const {
    MutexLock lock(&mu_);
    return has_checkpoints_ && !pieces_.empty();
  }

  // Before the first step. The pieces of the checkpoint stay until others are put in their place.
  void Begin(ParameterStore& store);
  // Waits until the servers know that there are pieces. Before every push: a checkpoint that has
  // the push must wait for them.
  absl::Status AwaitKnown(ParameterStore& store, absl::Time deadline);
  // A part of the open step is about to be pushed.
  void NotePush(size_t part, const ParameterStore& store);
  // All parts of the open step are pushed.
  void NoteStepEnd(ParameterStore& store);
  // There is no further step.
  void NoteEnd(ParameterStore& store);

 private:
  using Pieces = std::map<std::string, std::shared_ptr<const std::string>>;

  static std::string Encode(const Pieces& pieces);
  void Send(uint64_t cut, const Pieces& pieces, ParameterStore& store);

  Clock& clock_;
  ProgramSteps& steps_;
  const bool has_checkpoints_;
  const std::optional<int> layer_;  // of the first dense table; none: there is none
  const std::set<int> layers_;      // that, and those of tables whose optimizer the program runs
  const bool has_means_;            // there are such tables

  std::atomic<bool> is_announcing_ = false;  // the servers are being told that there are pieces

  mutable Mutex mu_;
  Pieces restored_ ABSL_GUARDED_BY(mu_);
  Pieces pieces_ ABSL_GUARDED_BY(mu_);
  std::optional<Pieces> at_push_ ABSL_GUARDED_BY(mu_);  // of the open step, since its first push
  bool asks_ ABSL_GUARDED_BY(mu_) = false;              // AwaitDue was called
  uint64_t due_ ABSL_GUARDED_BY(mu_) = 0;               // the cut for which the pieces are
  uint64_t sent_ ABSL_GUARDED_BY(mu_) = 0;              // the latest cut for which they were sent
  int on_their_way_ ABSL_GUARDED_BY(mu_) = 0;           // pieces whose answer has not come
  std::optional<Pieces> last_ ABSL_GUARDED_BY(mu_);     // of the job's end, to be sent afterwards
};

}  // namespace capstan

#endif  // WORKER_PROGRAM_PROGRAM_WORKER_STATE_H_
