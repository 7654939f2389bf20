#ifndef WORKER_ENGINE_BATCH_FEED_H_
#define WORKER_ENGINE_BATCH_FEED_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/cuda_event.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/pinned_pool.h"
#include "worker/dataset/dataset.h"
#include "worker/models/training/model.h"

namespace capstan {

// Two batches of samples in a GPU's memory: the GPU computes on one while the next is copied in.
// Batches are used in the order of loading. Used by one thread.
class BatchFeed {
 public:
  struct Options {
    const CudaDevice* device = nullptr;  // Required; outlives the feed
    PinnedPool* pool = nullptr;          // Required; has PinnedBytes left; outlives the feed
    int64_t feature_count = 0;           // Required: of a sample
    int64_t max_samples = 0;             // Required: of a batch
  };

  // Bytes taken from the PinnedPool.
  static size_t PinnedBytes(int64_t feature_count, int64_t max_samples);

  // RESOURCE_EXHAUSTED if the GPU has too little memory.
  static absl::StatusOr<std::unique_ptr<BatchFeed>> Create(const Options& options);

  // Gathers these samples on the host. Blocks until the last but one batch has been copied. At most
  // two batches are gathered and not released.
  absl::Status Gather(const Dataset& dataset, absl::Span<const uint32_t> samples);

  // Queues the copy of the last gathered batch on `copy_in`.
  absl::Status Copy(CudaStream& copy_in);

  // The oldest unreleased batch, in the GPU's memory. Work queued on `compute` from now on finds it
  // there.
  absl::StatusOr<Batch> Use(CudaStream& compute);

  // Releases the batch of the last Use: work queued on `compute` later does not read it.
  absl::Status Release(CudaStream& compute);

 private:
  static constexpr int64_t kSlots = 2;

  struct Slot {
    float* host_features;
    int32_t* host_labels;
    float* features;
    int32_t* labels;
    int64_t samples;
    CudaEvent loaded;    // on the copying stream: the batch is in the GPU's memory
    CudaEvent released;  // on the computing stream: the batch is no longer read
  };

  explicit BatchFeed(const Options& options) : options_(options) {}
  absl::Status AddSlot(void* host, void* device);

  const Options options_;
  DeviceBuffer memory_;
  std::vector<Slot> slots_;
  int64_t gathered_ = 0;
  int64_t released_ = 0;
};

}  // namespace capstan

#endif  // WORKER_ENGINE_BATCH_FEED_H_
