#ifndef SERVER_OPTIMIZER_OPTIMIZER_H_
#define SERVER_OPTIMIZER_OPTIMIZER_H_

#include <cstdint>

#include "absl/types/span.h"

namespace capstan {

// One application of updates to a slice.
struct Application {
  int64_t number = 1;  // counts the applications to this slice, this one included, from 1
  // The learning rate of this application is divided by it; at least 1.
  uint64_t learning_rate_divisor = 1;
};

// Turns a gradient into an update of the values. Elementwise, so that the result does not depend on
// how a tensor is sliced. Immutable, hence thread-safe; the state lives with the slice.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Arrays of state that a slice keeps, each as long as the slice and zero at first.
  virtual int state_count() const = 0;

  // Applies `gradient` to `values` and `state` (state_count() arrays) in place; all have one length
  // and none overlaps another.
  virtual void Apply(absl::Span<const float> gradient, const Application& application,
                     absl::Span<float> values, absl::Span<const absl::Span<float>> state) const = 0;

 protected:
  // The learning rate of an application, given the job's.
  static double RateOf(const Application& application, double learning_rate) {
    return learning_rate / static_cast<double>(application.learning_rate_divisor);
  }
};

}  // namespace capstan

#endif  // SERVER_OPTIMIZER_OPTIMIZER_H_
