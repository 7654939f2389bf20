#ifndef SERVER_SHARD_STEP_ACCUMULATOR_H_
#define SERVER_SHARD_STEP_ACCUMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/tensor/host_buffer.h"

namespace capstan {

// Keeps the gradients of one slice, by step and worker, until their step is complete. Averages them
// in a fixed order, independent of the order of arrival. Not thread-safe.
class StepAccumulator {
 public:
  // A gradient, and the version of the values used to compute it, if known.
  struct Kept {
    HostBuffer gradient;
    std::optional<uint64_t> base_version;
  };

  explicit StepAccumulator(size_t slice_size) : slice_size_(slice_size) {}

  // A buffer of the slice's size for a gradient; its contents are undefined.
  HostBuffer TakeBuffer();
  // Keeps the buffer for TakeBuffer, unless its memory is shared.
  void ReturnBuffer(HostBuffer buffer) {
    if (!buffer.is_shared()) spare_.push_back(std::move(buffer));
  }

  // TakeOne returns `base_version` with the gradient.
  void Add(Step step, WorkerId worker, HostBuffer gradient,
           std::optional<uint64_t> base_version = std::nullopt);
  // Whether there is a gradient of `step`.
  bool Has(Step step) const { return steps_.count(step) > 0; }

  // The earliest step with a gradient; none: there is no gradient.
  std::optional<Step> First() const;

  // Calls `use` with every gradient, in order of step and worker.
  void ForEach(absl::FunctionRef<void(Step step, WorkerId worker, const Kept& kept)> use) const;

  // Takes out the gradients of `step` and passes their mean to `use`, block by block from offset 0
  // on, while a block is in the cache. The mean is ((g0 + g1) + g2 ...) / n in ascending order of
  // worker, in float32. Has(step) must hold.
  void TakeMean(Step step,
                absl::FunctionRef<void(size_t offset, absl::Span<const float> mean)> use);
  // Takes out the gradient of `step` of the smallest worker id. Has(step) must hold.
  Kept TakeOne(Step step);

 private:
  const size_t slice_size_;
  std::map<Step, std::map<WorkerId, Kept>> steps_;
  std::vector<HostBuffer> spare_;
};

}  // namespace capstan

#endif  // SERVER_SHARD_STEP_ACCUMULATOR_H_
