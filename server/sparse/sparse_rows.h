#ifndef SERVER_SPARSE_SPARSE_ROWS_H_
#define SERVER_SPARSE_SPARSE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "server/sparse/row_ages.h"
#include "server/sparse/row_optimizer.h"
#include "server/sparse/row_order.h"
#include "server/sparse/row_table.h"
#include "server/sparse/rows_cut.h"
#include "server/sparse/sparse_rows_snapshot.h"
#include "server/sparse/touch_sketch.h"

namespace capstan {

// One shard's part of a sparse table: which keys have rows, what the rows are, and when they go.
// The results depend on the sequence of calls alone. A restored copy goes on as the original does.
// Not thread-safe: the shard's lock guards it.
class SparseRows {
 public:
  struct Options {
    uint64_t seed = 0;          // of the initial values, the same on all servers
    TableId table;              // Required
    double initial_stddev = 0;  // of initial values, which are normal; 0: they are zero
    // A key has a row from its n-th push on, 1 to 255. Gradients before are dropped.
    int admitting_push = 1;
    // Counters in each of the 4 rows of the sketch that counts pushes. A byte each.
    size_t sketch_width = size_t{1} << 20;
    // Rows that were neither pushed nor pulled for more steps go. None: never.
    std::optional<int64_t> max_idle_steps;
    // Most rows. If there are more, the row that was idle longest goes; of several, the one with
    // the smallest key. None: any number.
    std::optional<size_t> max_rows;
    // The values that rows had before the last Push are kept, for PullBefore.
    bool keeps_before = false;
  };

  // `optimizer` outlives this. INVALID_ARGUMENT: an option is out of range.
  static absl::StatusOr<std::unique_ptr<SparseRows>> Create(const Options& options,
                                                            const RowOptimizer* optimizer);
  // Ends the last cut.
  ~SparseRows();

  // For Pull and Push: step >= 0. Steps from 2^32 - 1 on count as one step. A key may be there
  // twice; then the calls for its elements follow one another. The caller has checked sizes.

  // Sets values[i * dim ...] to the values of keys[i]. A key without row has the initial values,
  // and gets no row by this.
  void Pull(absl::Span<const uint64_t> keys, Step step, absl::Span<float> values);

  // Applies gradients[i * dim ...] to the row of keys[i]. `rate_factor` is as in RowOptimizer.
  // Rows over `max_rows` go at the end of the call. Rows over `max_idle_steps` go at the end of
  // this and later calls, at most 64 and 4 for each key, so that no call takes long. With
  // `keeps_before` the keys ascend.
  void Push(absl::Span<const uint64_t> keys, absl::Span<const float> gradients, Step step,
            double rate_factor = 1);

  // As Pull before the last Push, or as now if ForgetBefore was called later. Counts as no touch.
  // Requires `keeps_before`.
  void PullBefore(absl::Span<const uint64_t> keys, absl::Span<float> values) const;
  void ForgetBefore() { before_ = {}; }

  // Sets `values` to those of the key, and is true if it has a row. Does not count as a touch.
  bool Read(uint64_t key, absl::Span<float> values) const;

  size_t size() const { return table_.size(); }
  // Memory in use.
  size_t bytes() const;

  SparseRowsSnapshot Snapshot() const;
  // The snapshot without its rows.
  SparseRowsSnapshot Head() const;
  // Whether rows have an age, which pulls change.
  bool keeps_ages() const { return KeepsAges(); }
  // The XXH3-64 of all rows, in the order of their keys.
  uint64_t Hash() const;
  // What PullBefore needs, as bytes for another server of this version; and takes it over.
  // INVALID_ARGUMENT.
  std::string SaveBefore() const;
  absl::Status LoadBefore(absl::Span<const uint8_t> bytes);

  // The same snapshot as of now, still to be copied. As long as somebody has it, calls copy the
  // rows that they change first. Ends that of an earlier cut, which is of no use any more.
  std::shared_ptr<RowsCut> Cut() { return BeginCut(cut_); }
  // The same, beside that one, for a copy on another server.
  std::shared_ptr<RowsCut> CutForCopy() { return BeginCut(copy_cut_); }
  // Memory of rows that were copied early for it.
  size_t cut_bytes() const;

  // Takes over a snapshot. This is new and has the same table, optimizer and limits.
  // INVALID_ARGUMENT: its parts do not fit together, or not to this; then nothing was changed.
  absl::Status Restore(const SparseRowsSnapshot& snapshot);
  // In place of Restore: RestorePart with some rows of a snapshot after the other. The last part
  // has the sketch. INVALID_ARGUMENT, as Restore, or a row is there already. Reserve comes before,
  // with the number of all rows. RESOURCE_EXHAUSTED: they do not fit into this machine's memory.
  absl::Status Reserve(uint64_t rows);
  absl::Status RestorePart(const SparseRowsSnapshot& part, bool is_last);

 private:
  // What the last Push has changed, as it was before. Other rows are as before.
  struct Before {
    std::vector<uint64_t> keys;    // of the call, ascending
    std::vector<uint8_t> had_row;  // of each key
    std::vector<float> values;     // of each key; those that had no row have arbitrary ones
    absl::flat_hash_map<uint64_t, std::vector<float>> evicted;  // other keys
  };

  SparseRows(const Options& options, const RowOptimizer* optimizer);

  std::shared_ptr<RowsCut> BeginCut(std::weak_ptr<RowsCut>& last);
  // Before these keys' rows change, come or go. `rows` are their rows, or null.
  void KeepForCut(absl::Span<const uint64_t> keys, absl::Span<float* const> rows) const;
  size_t dim() const { return optimizer_.dim(); }
  size_t RowFloats() const { return dim() + optimizer_.state_floats(); }
  bool KeepsAges() const { return options_.max_idle_steps || options_.max_rows; }
  uint32_t LastTouch(const float* row) const;
  void SetLastTouch(float* row, uint32_t step) const;
  // A row that exists: it is no older than `step`.
  void Touch(float* row, uint32_t step) const;

  uint32_t Begin(Step step);
  // Of at most RowOrder::kMostKeys keys. Without `touch`, rows get no younger by it.
  void PullPart(absl::Span<const uint64_t> keys, std::optional<uint32_t> touch,
                absl::Span<float> values) const;
  // Takes as many keys at most, from the one at `begin` on. `gradients` begin with its own.
  void PushPart(absl::Span<const uint64_t> all_keys, size_t begin, const float* gradients,
                uint32_t step, double rate_factor);
  // Keeps the rows of a part of before_.keys, from the one at `begin` on.
  void KeepRows(const RowOrder& order, absl::Span<float* const> rows, size_t begin);
  void KeepEvicted(uint64_t key);
  // Whether the last Push has changed the key's row. Sets `values` to those before it.
  bool FindBefore(uint64_t key, absl::Span<float> values) const;
  void InitialValues(uint64_t key, absl::Span<float> values) const;
  // Inserts the admitted keys. Sets `rows` of the others to null.
  void AdmitKeys(absl::Span<const uint64_t> keys, uint32_t step, absl::Span<float*> rows);
  void InsertNew(absl::Span<const uint64_t> keys, uint32_t step);
  void Evict(size_t batch_size);
  bool EvictOldest(uint64_t limit);
  absl::Status Check(const SparseRowsSnapshot& snapshot, bool needs_sketch) const;

  const Options options_;
  const RowOptimizer& optimizer_;
  // A row is the values, the optimizer's state and, if ages are kept, its last touch.
  RowTable table_;
  std::optional<TouchSketch> sketch_;
  RowAges ages_;
  Before before_;
  std::weak_ptr<RowsCut> cut_;       // the last one, while somebody has it
  std::weak_ptr<RowsCut> copy_cut_;  // for a copy
  uint32_t last_step_ = 0;
};

}  // namespace capstan

#endif  // SERVER_SPARSE_SPARSE_ROWS_H_
