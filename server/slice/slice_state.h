#ifndef SERVER_SLICE_SLICE_STATE_H_
#define SERVER_SLICE_SLICE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/exchange/payload.h"
#include "common/exchange/rates.h"
#include "common/optimizer/optimizer.h"
#include "common/tensor/host_buffer.h"
#include "server/slice/shard_snapshot.h"
#include "server/slice/slice_values.h"

namespace capstan {

// The parameters of one slice, their optimizer's state, and the number of updates so far. Without
// an optimizer, which the program runs, an update is what workers get from then on, and the
// parameters stay. Not thread-safe: the slice's shard guards it.
class SliceState {
 public:
  // One update. It is applied block by block, while a block is in the cache. Valid until the next
  // update begins.
  class Update {
   public:
    // `gradient` has the elements from `offset` on.
    void Apply(size_t offset, absl::Span<const float> gradient) const;

   private:
    friend class SliceState;
    explicit Update(const Optimizer* optimizer) : optimizer_(optimizer) {}

    const Optimizer* optimizer_;
    Application application_;
    SliceValues::Change values_;
    absl::InlinedVector<SliceValues::Change, 2> optimizer_state_;
  };

  // The memory of one slice.
  struct Memory {
    HostBuffer values;                        // the initial ones
    std::vector<HostBuffer> optimizer_state;  // zeros
    uint64_t version = 0;                     // number of updates in both
    uint64_t optimizer_steps = 0;             // that the optimizer has counted
  };

  // Memory for `size` parameters, all zero. RESOURCE_EXHAUSTED.
  static absl::StatusOr<Memory> Allocate(size_t size, const Optimizer* optimizer);
  // What a slice had. Takes values and optimizer state out of the snapshot if nobody else has their
  // memory, else copies them. RESOURCE_EXHAUSTED.
  static absl::StatusOr<Memory> Take(SliceSnapshot& snapshot);

  // `optimizer` outlives the state. Null: the program runs it.
  SliceState(Memory memory, const Optimizer* optimizer);

  size_t size() const { return values_.size(); }
  // Number of updates so far.
  uint64_t version() const { return version_; }
  // The current values. No update changes them while a copy of the payload lives.
  Payload Share() const { return values_.Share(); }
  // What workers get between steps: the values, or without an optimizer the latest update, if there
  // was one.
  absl::Span<const float> replied() const { return Replied().span(); }
  Payload ShareReplied() const { return Replied().Share(); }
  // The optimizer's state, shared like the values.
  std::vector<Payload> ShareOptimizerState() const;
  bool optimizer_has_momentum() const {
    return optimizer_ != nullptr && optimizer_->has_momentum();
  }
  uint32_t optimizer_arrays() const { return static_cast<uint32_t>(optimizer_state_.size()); }
  // Number of updates that the optimizer has counted. A loaded state comes with a number, from
  // which it counts on.
  uint64_t optimizer_steps() const { return optimizer_steps_; }

  // Memory of the values and of the optimizer's state, with buffers still read, or kept for reuse.
  uint64_t values_bytes() const {
    return values_.held_bytes() + (update_.has_value() ? update_->held_bytes() : 0);
  }
  uint64_t optimizer_bytes() const;

  // Replaces the values, one for each parameter. With an optimizer only before the first update.
  void SetValues(const Payload& values);

  // Replaces an array of the optimizer's state, which is as long, and the optimizer's count. Only
  // before the first update.
  void LoadOptimizerState(uint32_t array, uint64_t steps, const Payload& values);

  // For a copy: the latest update, without an optimizer; none: there was none. And takes it.
  std::optional<Payload> ShareUpdate() const;
  void LoadUpdate(const Payload& update);

  // Counts an update. The caller then applies each element once. The arguments are those of its
  // Application.
  Update BeginUpdate(uint64_t learning_rate_divisor, const Rates& rates);

 private:
  const SliceValues& Replied() const { return update_.has_value() ? *update_ : values_; }

  const Optimizer* const optimizer_;
  SliceValues values_;
  std::optional<SliceValues> update_;  // the latest one, if there is no optimizer
  std::vector<SliceValues> optimizer_state_;
  uint64_t version_;
  uint64_t optimizer_steps_;
};

}  // namespace capstan

#endif  // SERVER_SLICE_SLICE_STATE_H_
