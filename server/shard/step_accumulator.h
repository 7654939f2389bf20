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

// Keeps the gradients of one slice apart by step and worker until a step is complete, and averages
// them in a fixed order, whatever the order of arrival. Not thread-safe.
class StepAccumulator {
 public:
  // A gradient, and the version of the values that it was computed with, if it is known.
  struct Kept {
    HostBuffer gradient;
    std::optional<uint64_t> base_version;
  };

  explicit StepAccumulator(size_t slice_size) : slice_size_(slice_size) {}

  // A buffer of the slice's size for a gradient that is about to arrive; contents are undefined.
  HostBuffer TakeBuffer();
  // To be taken again, unless it is a share of somebody else's memory.
  void ReturnBuffer(HostBuffer buffer) {
    if (!buffer.is_shared()) spare_.push_back(std::move(buffer));
  }

  // `base_version` is returned with the gradient by TakeOne.
  void Add(Step step, WorkerId worker, HostBuffer gradient,
           std::optional<uint64_t> base_version = std::nullopt);
  // Whether there is a gradient of `step`.
  bool Has(Step step) const { return steps_.count(step) > 0; }

  // The earliest step of which there is a gradient; none: there is no gradient.
  std::optional<Step> First() const;

  // Takes out the gradients of `step` and gives `use` their mean, block by block from offset 0 on,
  // so that a block is used while it is in the cache: ((g0 + g1) + g2 ...) / n in ascending order
  // of worker, in float32. Has(step) must hold.
  void TakeMean(Step step,
                absl::FunctionRef<void(size_t offset, absl::Span<const float> mean)> use);
  // Takes out the gradient of `step` of its first worker. Has(step) must hold.
  Kept TakeOne(Step step);

 private:
  const size_t slice_size_;
  std::map<Step, std::map<WorkerId, Kept>> steps_;
  std::vector<HostBuffer> spare_;
};

}  // namespace capstan

#endif  // SERVER_SHARD_STEP_ACCUMULATOR_H_
