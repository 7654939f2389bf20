#ifndef SERVER_SPARSE_ROWS_CUT_H_
#define SERVER_SPARSE_ROWS_CUT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/sparse/row_table.h"
#include "server/sparse/sparse_rows_snapshot.h"

namespace capstan {

// The rows of a table as they were at one moment, copied in parts while the table goes on. Hashes
// are cut into many ranges. The table's owner names keys before their rows change, and their ranges
// are copied at once. Copy copies the others. Copy and Take may run on any thread. The owner's lock
// guards all else.
class RowsCut {
 public:
  // Of this moment. `head` is the snapshot without its rows. `table` lives until End.
  RowsCut(const RowTable* table, SparseRowsSnapshot head);
  RowsCut(const RowsCut&) = delete;
  RowsCut& operator=(const RowsCut&) = delete;

  // Before the rows of these keys change, come or go. `rows` are their rows, or null, and only help
  // to be fast.
  void Keep(absl::Span<const uint64_t> keys, absl::Span<float* const> rows);
  // The table is not there any more, or its owner wants no copy.
  void End();
  // The number of rows in the cut.
  size_t row_count() const { return row_count_; }
  // Memory of rows that were copied before their turn.
  size_t bytes() const;

  // Runs a function under the owner's lock. False: the owner is not there any more.
  using WithLock = std::function<bool(absl::FunctionRef<void()> use)>;
  // Copies what is left, a part under the lock at a time. Is called once. ABORTED: End was called
  // before, or the owner has gone.
  absl::Status Copy(const WithLock& with_lock);
  // After Copy, without the lock: the snapshot.
  SparseRowsSnapshot Take();

  // In place of Copy and Take, under the lock: copies a part. The parts are the snapshot's rows in
  // no order; each has all else of it. ABORTED: as Copy.
  struct Part {
    SparseRowsSnapshot rows;
    bool is_last = false;
  };
  absl::StatusOr<Part> CopySome();

 private:
  enum class Progress { kMore, kDone, kEnded };
  // Rows with their hashes.
  struct Rows {
    std::vector<uint64_t> hashes;
    std::vector<float> floats;
  };

  uint64_t RangeOf(uint64_t hash) const { return hash >> shift_; }
  bool IsCopied(uint64_t range) const { return (copied_[range / 64] >> (range % 64) & 1) != 0; }
  void CopyEarly(uint64_t range);
  Progress CopyPart();
  // Adds a row to the snapshot, behind those that fill it.
  void Add(uint64_t hash, const float* row);

  const RowTable* table_;  // null: after End, or all is copied
  const size_t floats_per_row_;
  const size_t row_count_;
  const int shift_;  // of a hash, for its range
  const uint64_t range_count_;
  const size_t rows_in_chunk_;
  uint64_t next_range_ = 0;       // those before are copied
  std::vector<uint64_t> copied_;  // a bit for each range: it was copied before its turn
  std::vector<Rows> early_;       // in chunks, so that none moves
  std::vector<Rows> taken_;       // early_, once all is copied
  // Only for Copy and Take:
  SparseRowsSnapshot snapshot_;
  size_t filled_ = 0;           // rows in it
  bool is_all_copied_ = false;  // by CopySome, but for taken_
};

// Puts rows into the order of their keys, in place.
void SortByKey(SparseRowsSnapshot& rows);

}  // namespace capstan

#endif  // SERVER_SPARSE_ROWS_CUT_H_
