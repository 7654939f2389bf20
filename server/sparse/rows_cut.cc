#include "server/sparse/rows_cut.h"

#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "server/sparse/prefetch_row.h"
#include "server/sparse/row_hash.h"

namespace capstan {
namespace {

// The lock is held for the time in which a core copies this much: far below 1 ms.
constexpr size_t kPartBytes = size_t{256} << 10;
constexpr size_t kChunkBytes = size_t{64} << 10;
// So many bits take 1 MiB. A table of more rows has several in a range.
constexpr int kMostRangeBits = 23;
// So many take 512 bytes. The table may grow before it is copied.
constexpr int kLeastRangeBits = 12;

// About as many ranges as rows: a row that changes makes few others be copied early.
int RangeBits(size_t rows) {
  int bits = kLeastRangeBits;
  while (bits < kMostRangeBits && size_t{1} << bits < rows) ++bits;
  return bits;
}

// Some numbers of each row, one row after the other.
struct Column {
  char* begin;
  size_t row_bytes;
  char* Row(size_t i) const { return begin + i * row_bytes; }
};

}  // namespace

void SortByKey(SparseRowsSnapshot& rows) {
  // order[i] is the key of row i, and the place where this row is now.
  std::vector<std::pair<uint64_t, size_t>> order(rows.keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = {rows.keys[i], i};
  std::sort(order.begin(), order.end());
  const std::array<Column, 3> columns = {
      {{reinterpret_cast<char*>(rows.values.data()), rows.dim * sizeof(float)},
       {reinterpret_cast<char*>(rows.state.data()), rows.state_floats * sizeof(float)},
       {reinterpret_cast<char*>(rows.last_touch.data()),
        rows.last_touch.empty() ? 0 : sizeof(uint32_t)}}};
  for (const Column& column : columns) {
    std::vector<char> first(column.row_bytes);
    std::vector<bool> is_there(column.row_bytes == 0 ? 0 : order.size());
    for (size_t i = 0; i < is_there.size(); ++i) {
      if (is_there[i]) continue;
      // Each row of a circle of places moves to the place that the row before has left.
      std::memcpy(first.data(), column.Row(i), column.row_bytes);
      size_t to = i;
      for (size_t from = order[to].second; from != i; from = order[to].second) {
        std::memcpy(column.Row(to), column.Row(from), column.row_bytes);
        is_there[to] = true;
        to = from;
      }
      std::memcpy(column.Row(to), first.data(), column.row_bytes);
      is_there[to] = true;
    }
  }
  for (size_t i = 0; i < order.size(); ++i) rows.keys[i] = order[i].first;
}

RowsCut::RowsCut(const RowTable* table, SparseRowsSnapshot head)
    : table_(table),
      floats_per_row_(table->floats_per_row()),
      row_count_(table->size()),
      shift_(64 - RangeBits(row_count_)),
      range_count_(uint64_t{1} << (64 - shift_)),
      rows_in_chunk_(std::max<size_t>(1, kChunkBytes / (floats_per_row_ * sizeof(float)))),
      copied_(range_count_ / 64),
      snapshot_(std::move(head)) {}

void RowsCut::End() {
  table_ = nullptr;
  copied_ = {};
  early_ = {};
}

size_t RowsCut::bytes() const {
  const size_t row_bytes = sizeof(uint64_t) + floats_per_row_ * sizeof(float);
  return copied_.size() * sizeof(uint64_t) + early_.size() * rows_in_chunk_ * row_bytes;
}

void RowsCut::Keep(absl::Span<const uint64_t> keys, absl::Span<float* const> rows) {
  if (table_ == nullptr) return;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kRowsAhead < keys.size()) PrefetchRow(rows[i + kRowsAhead], floats_per_row_);
    const uint64_t range = RangeOf(RowHashOf(keys[i]));
    if (range >= next_range_ && !IsCopied(range)) CopyEarly(range);
  }
}

void RowsCut::CopyEarly(uint64_t range) {
  copied_[range / 64] |= uint64_t{1} << (range % 64);
  const uint64_t first = range << shift_;
  table_->Visit(first, first | ((uint64_t{1} << shift_) - 1),
                [this](uint64_t hash, const float* row) {
                  if (early_.empty() || early_.back().hashes.size() == rows_in_chunk_) {
                    early_.emplace_back();
                    early_.back().hashes.reserve(rows_in_chunk_);
                    early_.back().floats.reserve(rows_in_chunk_ * floats_per_row_);
                  }
                  Rows& chunk = early_.back();
                  chunk.hashes.push_back(hash);
                  chunk.floats.insert(chunk.floats.end(), row, row + floats_per_row_);
                });
}

RowsCut::Progress RowsCut::CopyPart() {
  if (table_ == nullptr) return Progress::kEnded;
  const uint64_t ranges = std::max<uint64_t>(1, range_count_ * kPartBytes / table_->bytes());
  const uint64_t end = std::min(range_count_, next_range_ + ranges);
  const uint64_t last = ((end - 1) << shift_) | ((uint64_t{1} << shift_) - 1);
  table_->Visit(next_range_ << shift_, last, [this](uint64_t hash, const float* row) {
    if (!IsCopied(RangeOf(hash))) Add(hash, row);
  });
  next_range_ = end;
  if (end < range_count_) return Progress::kMore;
  taken_ = std::move(early_);
  End();
  return Progress::kDone;
}

void RowsCut::Add(uint64_t hash, const float* row) {
  CHECK_LT(filled_, row_count_);
  const size_t dim = snapshot_.dim;
  const size_t state = snapshot_.state_floats;
  if (filled_ == snapshot_.keys.size()) {
    snapshot_.keys.resize(filled_ + 1);
    snapshot_.values.resize((filled_ + 1) * dim);
    snapshot_.state.resize((filled_ + 1) * state);
    if (floats_per_row_ > dim + state) snapshot_.last_touch.resize(filled_ + 1);
  }
  snapshot_.keys[filled_] = KeyOfRowHash(hash);
  std::copy_n(row, dim, &snapshot_.values[filled_ * dim]);
  if (state > 0) std::copy_n(row + dim, state, &snapshot_.state[filled_ * state]);
  if (!snapshot_.last_touch.empty()) {
    std::memcpy(&snapshot_.last_touch[filled_], row + dim + state, sizeof(uint32_t));
  }
  ++filled_;
}

absl::StatusOr<RowsCut::Part> RowsCut::CopySome() {
  const Progress progress = is_all_copied_ ? Progress::kDone : CopyPart();
  if (progress == Progress::kEnded) {
    return absl::AbortedError("the rows were not copied: the server has made another copy");
  }
  size_t bytes = 0;
  while (std::exchange(is_all_copied_, progress == Progress::kDone) && !taken_.empty() &&
         bytes < kPartBytes) {
    const Rows chunk = std::move(taken_.back());
    taken_.pop_back();
    for (size_t i = 0; i < chunk.hashes.size(); ++i) {
      Add(chunk.hashes[i], &chunk.floats[i * floats_per_row_]);
    }
    bytes += kChunkBytes;
  }
  Part part;
  part.is_last = is_all_copied_ && taken_.empty();
  part.rows = std::exchange(snapshot_, {});
  part.rows.keys.resize(filled_);
  snapshot_.dim = part.rows.dim;
  snapshot_.state_floats = part.rows.state_floats;
  snapshot_.last_step = part.rows.last_step;
  // The last part has it.
  if (!part.is_last) snapshot_.sketch = std::exchange(part.rows.sketch, {});
  filled_ = 0;
  return part;
}

absl::Status RowsCut::Copy(const WithLock& with_lock) {
  // Not under the lock: the first touch of so much memory takes long.
  snapshot_.keys.resize(row_count_);
  snapshot_.values.resize(row_count_ * snapshot_.dim);
  snapshot_.state.resize(row_count_ * snapshot_.state_floats);
  const bool has_ages = floats_per_row_ > snapshot_.dim + snapshot_.state_floats;
  if (has_ages) snapshot_.last_touch.resize(row_count_);
  for (Progress progress = Progress::kMore; progress == Progress::kMore;) {
    const bool is_there = with_lock([&] { progress = CopyPart(); });
    if (is_there && progress != Progress::kEnded) continue;
    return absl::AbortedError(
        "the rows of the cut were not copied: the server ends, or has made another cut");
  }
  return absl::OkStatus();
}

SparseRowsSnapshot RowsCut::Take() {
  for (Rows& chunk : taken_) {
    for (size_t i = 0; i < chunk.hashes.size(); ++i) {
      Add(chunk.hashes[i], &chunk.floats[i * floats_per_row_]);
    }
    chunk = {};
  }
  CHECK_EQ(filled_, row_count_);
  SortByKey(snapshot_);
  return std::move(snapshot_);
}

}  // namespace capstan
