#ifndef SERVER_SPARSE_ROW_AGES_H_
#define SERVER_SPARSE_ROW_AGES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "absl/functional/function_ref.h"

namespace capstan {

// Finds the row that was touched longest ago; among those of one step, the one with the smallest
// key. It does not hear of touches. A row is filed under the step of a touch, and filed again when
// it is its turn and it was touched since. So a touch costs nothing until then, and no call looks
// at all rows. Takes 8 bytes a row. Not thread-safe.
class RowAges {
 public:
  // Adds a row that is not there.
  void Add(uint64_t key, uint32_t last_touch);

  // Takes the oldest row out, if its last touch was before step `limit`. `last_touch_of` tells the
  // last touch of a row. It is no earlier than the one that Add was given.
  bool TakeOldest(uint64_t limit, absl::FunctionRef<uint32_t(uint64_t key)> last_touch_of,
                  uint64_t* key);

  size_t bytes() const { return size_ * sizeof(uint64_t); }

 private:
  // A deque does not move its elements when it grows.
  using Keys = std::deque<uint64_t>;

  std::map<uint32_t, Keys> filed_;  // by step; no list is empty
  // The step of the list that is a heap, with its smallest key on top. Negative: there is none.
  int64_t heap_step_ = -1;
  size_t size_ = 0;
};

}  // namespace capstan

#endif  // SERVER_SPARSE_ROW_AGES_H_
