#ifndef SERVER_SLICE_SHARD_SNAPSHOT_H_
#define SERVER_SLICE_SHARD_SNAPSHOT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/exchange/payload.h"
#include "common/exchange/rates.h"
#include "common/tensor/slicing.h"
#include "server/consistency/consistency_schedule.h"
#include "server/consistency/step_vector.h"
#include "server/sparse/rows_cut.h"
#include "server/sparse/sparse_rows_snapshot.h"

namespace capstan {

// Keys of rows, ascending. Null in a dense table.
using RowKeys = std::shared_ptr<const std::vector<uint64_t>>;

// A slice at one moment: everything with which another slice can go on. Values are float32.
struct SliceSnapshot {
  struct KeptPush {
    Step step;
    WorkerId worker;
    std::optional<uint64_t> base_version;
    Rates rates;
    bool is_empty = false;
    Payload gradient;  // as long as the values; nothing in an empty push
    RowKeys keys;      // of the gradient's rows
  };
  // What a worker's engine keeps from step to step beside the parameters, for this slice.
  struct OwnState {
    WorkerId worker;
    Payload arrays;  // `own_arrays` of them, one after the other, each as long as the values
  };

  // What the workers have of the values.
  struct WorkerCopy {
    Payload values;
    uint64_t version = 0;  // of the slice's values to which it was brought up
  };

  SliceKey key;
  uint64_t version = 0;  // number of updates in the values
  // That the optimizer of a dense table has counted: another one if its state was loaded.
  uint64_t optimizer_steps = 0;
  Step min_step;
  Step largest_step;  // of all exchanges so far
  std::vector<ConsistencyPeriod> schedule;
  std::vector<StepVector::Entry> workers;
  Payload values;
  std::vector<Payload> optimizer_state;  // each as long as the values
  std::optional<WorkerCopy> copy;        // if pulls get differences, and all share it
  // A sparse table has rows in place of values and optimizer's state. Null in a dense one.
  std::shared_ptr<const SparseRowsSnapshot> rows;
  // In a cut of a sparse table, until SortRows: the rows that are still to be copied.
  std::shared_ptr<RowsCut> rows_cut = nullptr;
  bool rows_follow = false;        // in a copy of a sparse table: they come with AddCopiedRows
  std::vector<KeptPush> kept;      // of open steps
  uint32_t own_arrays = 0;         // of each worker
  std::vector<OwnState> own;       // in order of worker; only in cuts (Slice::TakeCut)
  std::vector<OwnState> programs;  // bytes of the workers' programs; as `own`
  // Workers that were live at the cut, and lost before their own state came: the cut is of no use.
  std::vector<WorkerId> without_own;

  // Leaves nothing of `step` or later. The values have the steps before.
  void EndAt(Step step);
};

// A live worker of the job, or a lost one whose place is held, as a shard knows it.
struct ShardWorker {
  WorkerId worker;
  Incarnation incarnation;
  Step first_step = Step(0);  // of its first push
  bool is_entering = false;   // its first step is not known yet
  bool is_lost = false;       // its place is held for another process
};

// A shard at one moment. Copies share the memory of its values.
struct ShardSnapshot {
  ShardId shard;
  std::vector<ShardWorker> workers;
  std::vector<SliceSnapshot> slices;      // in order of key
  RowsCut::WithLock with_lock = nullptr;  // of the shard; for CopyRows
};

// Copies the rows that a cut has left in the shard, with short moments under its lock. SortRows
// must follow. Only one of the copies of a ShardSnapshot may be given. ABORTED: the shard has gone,
// or was cut again.
absl::Status CopyRows(ShardSnapshot& snapshot);
// Sets the slices' rows to what CopyRows has copied. Takes about as long, without a lock.
void SortRows(ShardSnapshot& snapshot);

}  // namespace capstan

#endif  // SERVER_SLICE_SHARD_SNAPSHOT_H_
