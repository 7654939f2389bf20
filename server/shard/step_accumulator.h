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

// Keeps the pushes of one slice, by step and worker, until their step is complete. Gradients stay
// encoded until then. Averages them in a fixed order, independent of the order of arrival. Not
// thread-safe.
class StepAccumulator {
 public:
  // A push, and the version of the values used to compute its gradient, if known.
  struct Kept {
    HostBuffer gradient;  // the bytes of `codec`; without memory in an empty push
    std::optional<uint64_t> base_version;
    const Codec* codec = nullptr;                        // outlives this; null: floats
    std::optional<double> learning_rate = std::nullopt;  // ExchangeRequest::learning_rate

    bool is_empty() const { return gradient.size() == 0; }
  };

  explicit StepAccumulator(size_t slice_size) : slice_size_(slice_size) {}

  // A buffer for a gradient; its contents are undefined.
  HostBuffer TakeBuffer(const Codec* codec);
  // Keeps the buffer for TakeBuffer, unless its memory is shared or of another size than the last
  // one's.
  void ReturnBuffer(HostBuffer buffer);

  // Adds a push. TakeOne returns it.
  void Add(Step step, WorkerId worker, Kept push);
  // Whether there is a push of `step`.
  bool Has(Step step) const { return steps_.count(step) > 0; }
  // The push of the smallest worker id with a gradient; null: all pushes of `step` are empty.
  const Kept* FirstGradient(Step step) const;

  // Memory of all gradients, and of buffers for others.
  uint64_t size_bytes() const;

  // The earliest step with a push; none: there is no push.
  std::optional<Step> First() const;

  // Calls `use` with every push, in order of step and worker.
  void ForEach(absl::FunctionRef<void(Step step, WorkerId worker, const Kept& kept)> use) const;

  // Calls `use` with all elements of a gradient, decoded, in order.
  void ForEachBlock(const Kept& kept, UseBlock use) const;

  // Takes out the pushes of `step` and passes the mean of their gradients to `use`, block by block
  // from offset 0 on, while a block is in the cache. The mean is ((g0 + g1) + g2 ...) / n in
  // ascending order of worker, in float32. An empty push counts as zeros. Encoded gradients are
  // decoded into the sum. One push at least must have a gradient.
  void TakeMean(Step step, UseBlock use);
  // Takes out the push of `step` of the smallest worker id. Has(step) must hold.
  Kept TakeOne(Step step);
  // Drops the pushes of `step`.
  void Drop(Step step) { steps_.erase(step); }

 private:
  using OfStep = std::map<WorkerId, Kept>;

  void MeanOfFloats(const OfStep& pushes, UseBlock use) const;
  // Takes float32, encoded and empty pushes.
  void MeanOfAny(const OfStep& pushes, UseBlock use) const;

  const size_t slice_size_;
  size_t buffer_size_ = 0;  // of the last TakeBuffer, in floats
  std::map<Step, OfStep> steps_;
  std::vector<HostBuffer> spare_;
};

}  // namespace capstan

#endif  // SERVER_SHARD_STEP_ACCUMULATOR_H_
