#ifndef WORKER_PROGRAM_PROGRAM_OPTIMIZER_STATE_H_
#define WORKER_PROGRAM_PROGRAM_OPTIMIZER_STATE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "worker/client/parameter_store.h"
#include "worker/program/program_steps.h"

namespace capstan {

// The state of the servers' optimizers, as a program reads and loads it: arrays of float32, each as
// long as its dense table, and the number of updates that the optimizer has counted. And the state
// of tables whose optimizer the program runs, as worker 0 keeps it. Calls return
// what those of ProgramSteps do, and INVALID_ARGUMENT if the table is sparse, or has no such array
// of this length. Thread-safe.
class ProgramOptimizerState {
 public:
  // An array to begin with.
  struct Loaded {
    TableId table;
    uint32_t array = 0;
    uint64_t steps = 0;
    std::shared_ptr<const std::vector<float>> values;
  };

  // The pointers outlive this object. A step has `parts` parts.
  ProgramOptimizerState(Clock* clock, const std::vector<v1::TableSpec>* tables,
                        const v1::JobSpec& job, ProgramSteps* steps, size_t parts)
      : clock_(*clock), tables_(*tables), job_(job), steps_(*steps), parts_(parts) {}

  // INVALID_ARGUMENT, also if the program runs the table's optimizer.
  static absl::Status Check(const v1::TableSpec& table, const v1::JobSpec& job, uint32_t array,
                            size_t count);
  // INVALID_ARGUMENT, also if a number is not finite.
  static absl::Status CheckLoaded(absl::Span<const float> values, int64_t steps);

  // FAILED_PRECONDITION if another worker's update may come before a state that is loaded before
  // the start.
  static absl::Status CheckComesFirst(const v1::TableSpec& table, const v1::JobSpec& job);

  // Before the training: sends what was loaded, if `sends`: the worker is the first, and the job
  // does not go on from a checkpoint. Waits for the answers.
  absl::Status Begin(Step first_step, bool sends, std::vector<Loaded> loaded,
                     ParameterStore& store);

  // Waits for the values of the table's layer, then reads the array that belongs to them. If the
  // time passes, the same call goes on. INVALID_ARGUMENT: the program runs the table's optimizer,
  // and the servers have no such array of a checkpoint.
  absl::Status Read(TableId table, uint32_t array, absl::Span<float> values, uint64_t* steps,
                    absl::Duration limit);
  // Replaces the array before the first step. Only worker 0's counts. FAILED_PRECONDITION after a
  // push, and unless the job is in BSP: there another worker's push may come before.
  absl::Status Load(Loaded loaded, absl::Duration limit);

  // Worker 0's state of a table that replies the mean: parameters, and arrays of the optimizer's
  // state. Sent where a checkpoint waits for it, or everywhere if it is the last one.
  // FAILED_PRECONDITION: the table was pushed in a step that goes on.
  absl::Status Keep(TableId table, absl::Span<const absl::Span<const float>> arrays, bool is_last,
                    absl::Duration limit);
  // FAILED_PRECONDITION: a checkpoint waits for the state of a table of this layer, none of whose
  // exchanges is open.
  absl::Status CheckIsKept(int layer, const ParameterStore& store) const;
  // FAILED_PRECONDITION: the worker ends, and has not kept a table for the last time.
  absl::Status CheckLastIsKept(const ParameterStore& store) const;

 private:
  // What the latest call has sent and awaits: a pull at `step`, or a load.
  struct Pending {
    TableId table;
    uint32_t array = 0;
    Step step;
    std::shared_ptr<OptimizerArray> read;  // null: a load
    Loaded loaded;
  };

  absl::Status CheckTable(TableId table, uint32_t array, size_t count) const;
  // The same for a call that reads. A table that replies the mean may have arrays of a checkpoint.
  absl::Status CheckRead(TableId table, uint32_t array, size_t count) const;
  int LayerOf(TableId table) const { return static_cast<int>(tables_[table.value()].layer()); }
  absl::Status ReadUntil(TableId table, uint32_t array, absl::Span<float> values, uint64_t* steps,
                         absl::Time deadline);
  absl::Status CheckKept(TableId table, absl::Span<const absl::Span<const float>> arrays) const;
  absl::Status KeepUntil(TableId table, absl::Span<const absl::Span<const float>> arrays,
                         bool is_last, absl::Time deadline);
  absl::Status LoadUntil(const Loaded& loaded, absl::Time deadline);
  // Waits until no exchange of the layer is open.
  absl::Status WaitFor(int layer, ParameterStore& store, absl::Time deadline);
  absl::Status CheckIsFirstStep() const;
  // Why there is no store any more.
  absl::Status WhyDone(absl::Time deadline);

  Clock& clock_;
  const std::vector<v1::TableSpec>& tables_;
  const v1::JobSpec job_;
  ProgramSteps& steps_;
  const size_t parts_;

  mutable Mutex mu_;
  Step first_step_ ABSL_GUARDED_BY(mu_);
  bool sends_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<Pending> pending_ ABSL_GUARDED_BY(mu_);
  std::map<TableId, Step> last_kept_ ABSL_GUARDED_BY(mu_);  // by a Keep that is the last one
};

}  // namespace capstan

#endif  // WORKER_PROGRAM_PROGRAM_OPTIMIZER_STATE_H_
