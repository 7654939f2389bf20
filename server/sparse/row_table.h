#ifndef SERVER_SPARSE_ROW_TABLE_H_
#define SERVER_SPARSE_ROW_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "server/sparse/huge_memory.h"

namespace capstan {

// A hash table from any uint64 keys to rows of floats. It works on batches, so that the CPU waits
// for many rows at a time, and grows in place, a little with each new row, so that no call waits
// for the whole table. A pointer to a row is valid until the next Insert or Erase. Not thread-safe.
class RowTable {
 public:
  // `floats_per_row` is 1 or more.
  explicit RowTable(size_t floats_per_row);

  size_t floats_per_row() const { return floats_per_row_; }
  size_t size() const { return size_ + (has_key_zero_ ? 1 : 0); }
  // Memory in use.
  size_t bytes() const;

  // Sets rows[i] to the row of keys[i], or to null. `rows` is as long as `keys`. It is fast for
  // many keys in the order of RowOrder. The rows themselves are not in the CPU's cache yet.
  void Find(absl::Span<const uint64_t> keys, absl::Span<float*> rows) const;

  // Fills a new row, whose contents are arbitrary. Calls nothing of this table.
  using FillRow = absl::FunctionRef<void(uint64_t key, float* row)>;

  // Makes room for this number of rows, in a table without rows. Without it, Insert is slow in the
  // order of hashes: all new rows crowd the end of those that are there.
  void Reserve(size_t rows);
  // Inserts the keys that have no row, in their order. A key may be there twice.
  void Insert(absl::Span<const uint64_t> keys, FillRow fill);

  // Erases the rows that the keys have. Their memory is kept for other rows.
  void Erase(absl::Span<const uint64_t> keys);

  // Calls `use` with each row whose hash (RowHashOf its key) is in [first, last], in any order. It
  // reads memory once, from one place on.
  using UseRow = absl::FunctionRef<void(uint64_t hash, const float* row)>;
  void Visit(uint64_t first, uint64_t last, UseRow use) const;

  // All keys in ascending order.
  std::vector<uint64_t> SortedKeys() const;

 private:
  // A bucket is the hashes of 8 keys, the size of a cache line, and then their rows. Hashes fill
  // its first slots, and 0 means an empty one. A hash is in the first bucket with room from its
  // home on. So all buckets from its home up to its own are full.
  static constexpr size_t kSlots = 8;
  struct Slot {
    size_t bucket;
    size_t index;
  };

  uint64_t* Hashes(size_t bucket) const {
    return reinterpret_cast<uint64_t*>(memory_.data() + bucket * bucket_bytes_);
  }
  float* Row(Slot slot) const {
    return reinterpret_cast<float*>(Hashes(slot.bucket) + kSlots) + slot.index * floats_per_row_;
  }
  bool IsFull(size_t bucket) const { return Hashes(bucket)[kSlots - 1] != 0; }

  size_t HomeOf(uint64_t hash) const;
  // Buckets for which growth has not used their memory yet. It moves rows to the last ones first.
  size_t UntouchedBuckets() const;
  // False: the hash is not there.
  bool FindSlot(uint64_t hash, size_t home, Slot* slot) const;
  float* FindRow(uint64_t hash, size_t home) const;
  void PrefetchHashes(size_t bucket) const;

  // The row of a key that had none.
  float* InsertKey(uint64_t key);
  // Puts a hash that is not there into a slot. Returns the slot's row.
  float* Place(uint64_t hash);
  void EraseSlot(Slot hole);
  void MoveRow(Slot from, Slot to);

  void SetBucketCount(size_t count);
  void StartGrowth();
  void MoveHomes();
  void MoveBuckets(size_t begin, size_t end);

  const size_t floats_per_row_;
  const size_t bucket_bytes_;
  HugeMemory memory_;
  // More buckets than homes: the last homes overflow into the rest. The last bucket is empty.
  size_t bucket_count_ = 0;
  size_t size_ = 0;  // without key 0
  // Key 0 has hash 0, which means an empty slot. So its row is apart.
  bool has_key_zero_ = false;
  const std::unique_ptr<float[]> row_of_zero_;

  // Homes are in the order of hashes. While the table grows, hashes with an old home below the
  // frontier have that one, and all others have a new one, which is no smaller.
  size_t home_count_ = 0;
  size_t old_home_count_ = 0;
  size_t frontier_ = 0;      // 0: the table does not grow
  std::vector<char> moved_;  // buckets on their way
};

}  // namespace capstan

#endif  // SERVER_SPARSE_ROW_TABLE_H_
