#ifndef SERVER_SLICE_ROW_MEAN_H_
#define SERVER_SLICE_ROW_MEAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace capstan {

// Sums the gradients of each key, in order of worker, and divides by the number of workers.
class MeanOfRows {
 public:
  MeanOfRows(size_t dim, size_t num_workers) : dim_(dim), num_workers_(num_workers) {}

  void Add(absl::Span<const uint64_t> keys, absl::Span<const float> gradient) {
    pushes_.push_back({keys, gradient.data()});
  }

  // Returns all keys, ascending. Their means are in means().
  std::vector<uint64_t> Merge();
  absl::Span<const float> means() const { return means_; }

 private:
  // What is left of a worker's push.
  struct Push {
    absl::Span<const uint64_t> keys;
    const float* gradient;
  };

  std::optional<uint64_t> NextKey() const;

  const size_t dim_;
  const size_t num_workers_;
  std::vector<Push> pushes_;
  std::vector<float> means_;
};

}  // namespace capstan

#endif  // SERVER_SLICE_ROW_MEAN_H_
