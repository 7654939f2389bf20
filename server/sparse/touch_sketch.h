#ifndef SERVER_SPARSE_TOUCH_SKETCH_H_
#define SERVER_SPARSE_TOUCH_SKETCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace capstan {

// Counts touches of any number of keys in fixed memory: a count-min sketch with conservative
// update. A count is never too small. After n touches in all it is too large by more than
// 2 n / width with a probability of at most 1/16. The same touches give the same counts anywhere.
// Cormode and Muthukrishnan, "An Improved Data Stream Summary: The Count-Min Sketch and its
// Applications", 2005; Estan and Varghese, "New Directions in Traffic Measurement and Accounting",
// 2002. Not thread-safe.
class TouchSketch {
 public:
  // Every key has one counter in each row.
  static constexpr size_t kRows = 4;
  // Counts stop here.
  static constexpr int kMaxCount = UINT8_MAX;

  // `width` counters a row, 1 or more, each a byte.
  explicit TouchSketch(size_t width);

  // Returns the count, with this touch.
  int Touch(uint64_t key);

  // What Touch left, for a snapshot and for a sketch of the same width: width * kRows counters.
  const std::vector<uint8_t>& counters() const { return counters_; }
  // `counters` has the size of counters().
  void set_counters(absl::Span<const uint8_t> counters);

 private:
  const size_t width_;
  std::vector<uint8_t> counters_;
};

}  // namespace capstan

#endif  // SERVER_SPARSE_TOUCH_SKETCH_H_
