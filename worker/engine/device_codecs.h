#ifndef WORKER_ENGINE_DEVICE_CODECS_H_
#define WORKER_ENGINE_DEVICE_CODECS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/device_buffer.h"
#include "kernels/cuda/pinned_pool.h"
#include "kernels/cuda/slice_encoding.h"
#include "worker/client/gradient_encoder.h"

namespace capstan {

// The codecs of a worker's tables on its GPU. Gradients are encoded there, with the residuals in
// the GPU's memory, and values are decoded there: only encoded bytes are copied. Thread-safe, but
// one thread at a time uses a stream, and one a slice.
class DeviceCodecs {
 public:
  // All memory is taken here. RESOURCE_EXHAUSTED if there is not enough.
  static absl::StatusOr<std::unique_ptr<DeviceCodecs>> Create(
      std::shared_ptr<const CudaDevice> device, const CodecPlan& plan);

  bool encodes(TableId table) const { return codecs_of(table).push->is_lossy(); }

  // Queues the encoding of a table's gradient of `step`, and the copy of its bytes to the host.
  // Always on the same stream.
  absl::Status QueueEncode(TableId table, Step step, absl::Span<const float> gradient,
                           CudaStream& stream);
  // The bytes of a slice, once the stream has done that. INVALID_ARGUMENT if the gradient, or its
  // sum with the residual, has a NaN or an infinity.
  absl::StatusOr<GradientEncoder::Encoded> Encoded(SliceKey key) const;

  // Page-locked memory for the encoded values of a slice.
  absl::Span<uint8_t> EncodedValuesOf(SliceKey key) const;
  // Queues the copy of these bytes to the GPU, and their decoding into the slice's part of
  // `values`, the table's. The caller leaves the bytes alone until that is done.
  absl::Status QueueDecode(SliceKey key, absl::Span<float> values, CudaStream& stream);

  // As GradientEncoder. They block for the copy.
  absl::StatusOr<Payload> SaveResidual(SliceKey key);
  absl::Status LoadResidual(SliceKey key, absl::Span<const float> residual);

 private:
  struct Table {
    float* residual = nullptr;             // on the GPU
    float* host_residual = nullptr;        // page-locked
    uint8_t* encoded = nullptr;            // gradients on the GPU
    uint8_t* host_encoded = nullptr;       // page-locked
    EncodeResult* results = nullptr;       // of each slice, on the GPU
    EncodeResult* host_results = nullptr;  // page-locked
    uint8_t* values = nullptr;             // encoded ones on the GPU
    uint8_t* host_values = nullptr;        // page-locked
  };

  // Payloads own it. The device is destroyed after the pool.
  struct Pinned {
    std::shared_ptr<const CudaDevice> device;
    std::shared_ptr<PinnedPool> pool;
  };

  DeviceCodecs(std::shared_ptr<const CudaDevice> device, const CodecPlan& plan)
      : device_(std::move(device)), plan_(plan) {}
  absl::Status Allocate();
  const CodecPlan::Table& planned(TableId table) const { return plan_.tables[table.value()]; }
  const TableCodecs& codecs_of(TableId table) const { return planned(table).codecs; }
  absl::Status QueueSlice(SliceKey key, Step step, const SliceToEncode& slice, CudaStream& stream);
  // The slice's part of the table's residual on the GPU and on the host.
  absl::Span<float> ResidualOf(SliceKey key, float* table) const;

  const std::shared_ptr<const CudaDevice> device_;
  const CodecPlan plan_;
  DeviceBuffer memory_;
  std::shared_ptr<Pinned> pinned_;
  void* scratch_ = nullptr;
  std::vector<Table> tables_;  // in order of table id

  Mutex mu_;
  std::unique_ptr<CudaStream> copies_ ABSL_PT_GUARDED_BY(mu_);  // of residuals
};

// The device's GradientEncoder. `codecs` outlives it.
class DeviceEncoder : public GradientEncoder {
 public:
  DeviceEncoder(CodecPlan plan, DeviceCodecs* codecs)
      : GradientEncoder(std::move(plan)), codecs_(codecs) {}

  // The gradient has been encoded by QueueEncode.
  absl::StatusOr<Encoded> Encode(SliceKey key, Step /*step*/,
                                 absl::Span<const float> /*gradient*/) override {
    return codecs_->Encoded(key);
  }
  absl::StatusOr<Payload> SaveResidual(SliceKey key) override { return codecs_->SaveResidual(key); }
  absl::Status LoadResidual(SliceKey key, absl::Span<const float> residual) override {
    return codecs_->LoadResidual(key, residual);
  }

 private:
  DeviceCodecs* const codecs_;
};

}  // namespace capstan

#endif  // WORKER_ENGINE_DEVICE_CODECS_H_
