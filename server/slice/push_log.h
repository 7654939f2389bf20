#ifndef SERVER_SLICE_PUSH_LOG_H_
#define SERVER_SLICE_PUSH_LOG_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/exchange/rates.h"
#include "common/tensor/buffer_pool.h"
#include "common/tensor/host_buffer.h"
#include "server/slice/encoded_gradient.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {

// A push whose bytes have been looked at: what can be wrong with them was found.
struct CheckedPush {
  Step step;
  WorkerId worker;
  std::optional<uint64_t> base_version = std::nullopt;
  Rates rates = {};
  // None: there is none, or the push was applied before.
  std::optional<EncodedGradient> gradient = std::nullopt;
  RowKeys keys = nullptr;  // of the gradient's rows
};

// Pushes of one step, in ascending order of worker.
using PushesOfStep = absl::Span<const CheckedPush* const>;

// Passes the mean of the gradients to `use`, block by block from element 0 on, while a block is in
// the cache. The mean is ((g0 + g1) + g2 ...) / n in the order of the pushes, in float32; a push
// without a gradient counts as zeros. Each gradient has `size` elements, and one push at least has
// one.
void ForEachBlockOfMean(PushesOfStep pushes, size_t size, UseBlock use);

// Keeps the pushes of one slice, by step and worker, until their step is complete, or until they
// may be applied. Their gradients stay encoded until then. Not thread-safe.
class PushLog {
 public:
  // Memory for gradients from now on, so that whoever gets them in TakeAll may keep them. Outlives
  // them.
  void set_pool(BufferPool* pool) {
    pool_ = pool;
    spare_.clear();
  }

  // Keeps a push, with its gradient in memory of its own: the receive buffer if nobody else uses
  // it, else a copy. `is_orphan`: its worker cannot send it again.
  void Add(WorkerId worker, CheckedPush push, bool is_orphan = false);

  // The earliest step with a push; none: there is no push.
  std::optional<Step> First() const;
  bool Has(Step step, WorkerId worker) const {
    const auto of_step = steps_.find(step);
    return of_step != steps_.end() && of_step->second.count(worker) > 0;
  }

  // Takes out the push of `step` of the smallest worker id, or all pushes of `step`, and calls
  // `use`. There must be one. `memory` keeps the pushes and their gradients alive.
  void TakeOne(
      Step step,
      absl::FunctionRef<void(const CheckedPush& push, const std::shared_ptr<const void>& memory)>
          use);
  void TakeAll(
      Step step,
      absl::FunctionRef<void(PushesOfStep pushes, const std::shared_ptr<const void>& memory)> use);

  // The worker cannot send its pushes again: nobody has its process's memory any more. Calls `use`
  // with each for which this is new.
  void Orphan(WorkerId worker, absl::FunctionRef<void(const CheckedPush& push)> use);
  // The earliest step of a push that the worker can send again.
  std::optional<Step> FirstOf(WorkerId worker) const;
  // For a copy: all pushes up to `step`, or one of them, were applied.
  void DropUntil(Step step);
  void Drop(Step step, WorkerId worker);

  // Memory of all gradients and their keys, and of buffers for others.
  uint64_t size_bytes() const;

  // Appends all pushes to the snapshot, or those that their workers cannot send again, in order of
  // step and worker, their gradients as copies in float32; and takes them from it.
  void Save(SliceSnapshot& snapshot, bool orphans_only = false) const;
  void Load(const SliceSnapshot& snapshot);

 private:
  struct Kept {
    CheckedPush push;
    HostBuffer memory;  // of the gradient's bytes; empty: there is none
    bool is_orphan = false;
  };
  using OfStep = std::map<WorkerId, Kept>;

  // Returns a buffer of `bytes` bytes, rounded up to whole floats; its contents are undefined.
  HostBuffer TakeBuffer(size_t bytes);
  // Keeps the buffer for TakeBuffer, unless its memory is shared or of another size than the last
  // one's.
  void ReturnBuffer(HostBuffer buffer);

  BufferPool* pool_ = nullptr;
  size_t buffer_size_ = 0;  // of the last TakeBuffer, in floats
  std::map<Step, OfStep> steps_;
  std::vector<HostBuffer> spare_;
};

}  // namespace capstan

#endif  // SERVER_SLICE_PUSH_LOG_H_
