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
    HostBuffer gradient;  // floats, or the bytes of `codec`
    std::optional<uint64_t> base_version;
    const Codec* codec = nullptr;  // null: floats
  };

  // Gradients come encoded by `codec`, which outlives this. Null: as floats.
  explicit StepAccumulator(size_t slice_size, const Codec* codec = nullptr);

  // A buffer for an encoded gradient; its contents are undefined.
  HostBuffer TakeBuffer();
  // Keeps the buffer for TakeBuffer, if it has the right size and its memory is not shared.
  void ReturnBuffer(HostBuffer buffer);

  // Adds an encoded gradient. TakeOne returns `base_version` with it.
  void Add(Step step, WorkerId worker, HostBuffer gradient,
           std::optional<uint64_t> base_version = std::nullopt);
  // Adds a gradient that has been decoded before.
  void AddFloats(Step step, WorkerId worker, HostBuffer gradient,
                 std::optional<uint64_t> base_version);
  // Whether there is a gradient of `step`.
  bool Has(Step step) const { return steps_.count(step) > 0; }

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
  const Codec* const codec_;  // null: floats
  const size_t buffer_size_;  // of an encoded gradient, in floats
  std::map<Step, OfStep> steps_;
  std::vector<HostBuffer> spare_;
};

}  // namespace capstan

#endif  // SERVER_SHARD_STEP_ACCUMULATOR_H_
