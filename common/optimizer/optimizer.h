#ifndef COMMON_OPTIMIZER_OPTIMIZER_H_
#define COMMON_OPTIMIZER_OPTIMIZER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/optimizer/rules.h"
#include "proto/job.pb.h"

namespace capstan {

// Turns a gradient into an update of the values. Works element by element: the result does not
// depend on how a tensor is sliced. Immutable, hence thread-safe; the state lives with the slice.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // The number of arrays of state for a slice. Each is as long as the slice and zero at first.
  virtual int state_count() const = 0;

  // Whether Rates::momentum is one of its own. Otherwise it is ignored.
  virtual bool has_momentum() const { return false; }

  // Applies `gradient` to `values` and `state` (state_count() arrays) in place. All have one length
  // and none overlaps another.
  virtual void Apply(absl::Span<const float> gradient, const Application& application,
                     absl::Span<float> values, absl::Span<const absl::Span<float>> state) const = 0;
};

// The optimizer of `spec`; kernels/optimizers.h has its formula. INVALID_ARGUMENT: the type is
// unspecified, or one of its hyper-parameters is out of range. Other types' parameters are ignored.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const v1::OptimizerSpec& spec);

}  // namespace capstan

#endif  // COMMON_OPTIMIZER_OPTIMIZER_H_
