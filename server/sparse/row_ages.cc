#include "server/sparse/row_ages.h"

#include <algorithm>
#include <functional>

namespace capstan {

void RowAges::Add(uint64_t key, uint32_t last_touch) {
  Keys& keys = filed_[last_touch];
  keys.push_back(key);
  if (last_touch == heap_step_) std::push_heap(keys.begin(), keys.end(), std::greater<>());
  ++size_;
}

bool RowAges::TakeOldest(uint64_t limit, absl::FunctionRef<uint32_t(uint64_t key)> last_touch_of,
                         uint64_t* key) {
  while (!filed_.empty() && filed_.begin()->first < limit) {
    const uint32_t step = filed_.begin()->first;
    Keys& keys = filed_.begin()->second;
    if (step != heap_step_) std::make_heap(keys.begin(), keys.end(), std::greater<>());
    heap_step_ = step;
    std::pop_heap(keys.begin(), keys.end(), std::greater<>());
    *key = keys.back();
    keys.pop_back();
    --size_;
    if (keys.empty()) {
      filed_.erase(filed_.begin());
      heap_step_ = -1;
    }
    const uint32_t last_touch = last_touch_of(*key);
    if (last_touch == step) return true;
    Add(*key, last_touch);
  }
  return false;
}

}  // namespace capstan
