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
#include "common/codec/codec.h"
#include "common/tensor/host_buffer.h"
#include "server/shard/encoded_gradient.h"

namespace capstan {

// Keeps the gradients of one slice, by step and worker, until their step is complete. They stay
// encoded until then. Averages them in a fixed order, independent of the order of arrival. Not
// thread-safe.
class StepAccumulator {
 public:
  // A gradient, and the version of the values used to compute it, if known.
  struct Kept {
    HostBuffer gradient;  // the bytes of `codec`
    std::optional<uint64_t> base_version;
    const Codec* codec = nullptr;  // outlives this; null: floats
  };

  explicit StepAccumulator(size_t slice_size) : slice_size_(slice_size) {}

  // A buffer for a gradient; its contents are undefined.
  HostBuffer TakeBuffer(const Codec* codec);
  // Keeps the buffer for TakeBuffer, unless its memory is shared or of another size than the last
  // one's.
  void ReturnBuffer(HostBuffer buffer);

  // Adds a gradient. TakeOne returns it.
  void Add(Step step, WorkerId worker, Kept gradient);
  // Whether there is a gradient of `step`.
  bool Has(Step step) const { return steps_.count(step) > 0; }

  // Memory of all gradients, and of buffers for others.
  uint64_t size_bytes() const;

  // The earliest step with a gradient; none: there is no gradient.
  std::optional<Step> First() const;

  // Calls `use` with every gradient, in order of step and worker.
  void ForEach(absl::FunctionRef<void(Step step, WorkerId worker, const Kept& kept)> use) const;

  // Calls `use` with all elements of a gradient, decoded, in order.
  void ForEachBlock(const Kept& kept, UseBlock use) const;

  // Takes out the gradients of `step` and passes their mean to `use`, block by block from offset 0
  // on, while a block is in the cache. The mean is ((g0 + g1) + g2 ...) / n in ascending order of
  // worker, in float32. Encoded gradients are decoded into the sum. Has(step) must hold.
  void TakeMean(Step step, UseBlock use);
  // Takes out the gradient of `step` of the smallest worker id. Has(step) must hold.
  Kept TakeOne(Step step);

 private:
  using OfStep = std::map<WorkerId, Kept>;

  void MeanOfFloats(const OfStep& gradients, UseBlock use) const;
  void MeanOfEncoded(const OfStep& gradients, UseBlock use) const;

  const size_t slice_size_;
  size_t buffer_size_ = 0;  // of the last TakeBuffer, in floats
  std::map<Step, OfStep> steps_;
  std::vector<HostBuffer> spare_;
};

}  // namespace capstan

#endif  // SERVER_SHARD_STEP_ACCUMULATOR_H_
