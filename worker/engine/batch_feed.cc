#include "worker/engine/batch_feed.h"

#include <glog/logging.h>

#include <utility>

#include "common/base/status_macros.h"
#include "common/tensor/memory_cutter.h"
#include "worker/models/training/gathered_batch.h"

namespace capstan {
namespace {

// Bytes of one batch, on the host as on the GPU.
size_t BatchBytes(int64_t feature_count, int64_t max_samples) {
  MemoryCutter cutter(/*memory=*/nullptr);
  cutter.Take<float>(feature_count * max_samples);
  cutter.Take<int32_t>(max_samples);
  return cutter.used_bytes();
}

}  // namespace

size_t BatchFeed::PinnedBytes(int64_t feature_count, int64_t max_samples) {
  return kSlots * PinnedPool::RoundUp(BatchBytes(feature_count, max_samples));
}

absl::StatusOr<std::unique_ptr<BatchFeed>> BatchFeed::Create(const Options& options) {
  std::unique_ptr<BatchFeed> feed(new BatchFeed(options));
  const size_t bytes = BatchBytes(options.feature_count, options.max_samples);
  ASSIGN_OR_RETURN(feed->memory_,
                   DeviceBuffer::Allocate(*options.device, kSlots * bytes, "batches of samples"));
  for (int64_t slot = 0; slot < kSlots; ++slot) {
    ASSIGN_OR_RETURN(void* const host, options.pool->Take(bytes));
    RETURN_IF_ERROR(
        feed->AddSlot(host, feed->memory_.data<char>() + slot * static_cast<int64_t>(bytes)));
  }
  return feed;
}

absl::Status BatchFeed::AddSlot(void* host, void* device) {
  ASSIGN_OR_RETURN(CudaEvent loaded, CudaEvent::Create(*options_.device, CudaEvent::Timing::kOff));
  ASSIGN_OR_RETURN(CudaEvent released,
                   CudaEvent::Create(*options_.device, CudaEvent::Timing::kOff));
  MemoryCutter host_cutter(host), device_cutter(device);
  const int64_t features = options_.feature_count * options_.max_samples;
  float* const host_features = host_cutter.Take<float>(features);
  float* const device_features = device_cutter.Take<float>(features);
  slots_.push_back({host_features, host_cutter.Take<int32_t>(options_.max_samples), device_features,
                    device_cutter.Take<int32_t>(options_.max_samples),
                    /*samples=*/0, std::move(loaded), std::move(released)});
  return absl::OkStatus();
}

absl::Status BatchFeed::Gather(const Dataset& dataset, absl::Span<const uint32_t> samples) {
  CHECK_LT(gathered_ - released_, kSlots);
  CHECK_EQ(dataset.feature_count, options_.feature_count);
  CHECK_LE(static_cast<int64_t>(samples.size()), options_.max_samples);
  Slot& slot = slots_[gathered_++ % kSlots];
  RETURN_IF_ERROR(slot.loaded.Wait());
  GatherSamples(dataset, samples, slot.host_features, slot.host_labels);
  slot.samples = static_cast<int64_t>(samples.size());
  return absl::OkStatus();
}

absl::Status BatchFeed::Copy(CudaStream& copy_in) {
  CHECK_GT(gathered_, released_);
  Slot& slot = slots_[(gathered_ - 1) % kSlots];
  const size_t samples = static_cast<size_t>(slot.samples);
  RETURN_IF_ERROR(copy_in.WaitFor(slot.released));
  RETURN_IF_ERROR(copy_in.CopyToDevice(
      slot.host_features, samples * static_cast<size_t>(options_.feature_count) * sizeof(float),
      slot.features));
  RETURN_IF_ERROR(copy_in.CopyToDevice(slot.host_labels, samples * sizeof(int32_t), slot.labels));
  return slot.loaded.Record(copy_in);
}

absl::StatusOr<Batch> BatchFeed::Use(CudaStream& compute) {
  CHECK_LT(released_, gathered_);
  const Slot& slot = slots_[released_ % kSlots];
  RETURN_IF_ERROR(compute.WaitFor(slot.loaded));
  const size_t samples = static_cast<size_t>(slot.samples);
  return Batch{{slot.features, samples * static_cast<size_t>(options_.feature_count)},
               {slot.labels, samples}};
}

absl::Status BatchFeed::Release(CudaStream& compute) {
  return slots_[released_++ % kSlots].released.Record(compute);
}

}  // namespace capstan
