#ifndef WORKER_ENGINE_DEVICE_CODECS_H_
#define WORKER_ENGINE_DEVICE_CODECS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/device_buffer.h"
#include "kernels/cuda/pinned_pool.h"
#include "kernels/cuda/slice_encoding.h"
#include "kernels/norm.h"
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
  absl::StatusOr<GradientEncoder::Encoded> Encoded(SliceKey key, Step step) const;

  // Copies the encoded values of a slice into page-locked memory. There is one place for each
  // slice.
  absl::Span<const uint8_t> PinValues(SliceKey key, const Payload& bytes) const;
  // Queues the copy of these bytes to the GPU, and their decoding into the slice's part of
  // `values`, the table's, as ParameterMirror::EncodedSliceArrived says. The slice's place stays as
  // it is until that is done.
  absl::Status QueueDecode(SliceKey key, CodecType type, absl::Span<const uint8_t> pinned,
                           absl::Span<float> values, CudaStream& stream);

  // As GradientEncoder, for tables that this encodes. They block for the copy.
  absl::StatusOr<Payload> SaveState(SliceKey key);
  absl::Status LoadState(SliceKey key, absl::Span<const float> arrays);

 private:
  struct Table {
    float* residual = nullptr;             // on the GPU
    float* momentum = nullptr;             // likewise; null without a Dgc
    NormResult* norm = nullptr;            // of the gradient; null unless it may be clipped
    float* host_state = nullptr;           // page-locked, for each array in turn
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
  absl::Status Allocate(const CudaStream& stream);
  const CodecPlan::Table& planned(TableId table) const { return plan_.tables[table.value()]; }
  const TableCodecs& codecs_of(TableId table) const { return planned(table).codecs; }
  // Adds the gradient to the momentum, if there is one. Returns what is to be encoded.
  absl::StatusOr<const float*> QueueMomentum(TableId table, absl::Span<const float> gradient,
                                             CudaStream& stream);
  absl::Status QueueSlice(SliceKey key, Step step, const SliceToEncode& slice, CudaStream& stream);
  // The slice's part of the table's arrays on the GPU, and of those on the host.
  using Parts = absl::InlinedVector<absl::Span<float>, 2>;
  Parts StateOf(SliceKey key) const;
  Parts HostStateOf(SliceKey key) const;

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
  // RESOURCE_EXHAUSTED if there is not enough memory.
  static absl::StatusOr<std::unique_ptr<DeviceEncoder>> Create(CodecPlan plan,
                                                               DeviceCodecs* codecs);

  // The gradients of the other tables come to the host, and momentum is added there. Only programs
  // of users, whose gradients lie on the host, change the learning rate.
  bool encodes(TableId table) const override {
    return codecs_->encodes(table) || on_host_->encodes(table);
  }
  void BeginTable(TableId table, absl::Span<const float> gradient,
                  std::optional<double> learning_rate) override;
  // If the device encodes the table, QueueEncode has done it.
  absl::StatusOr<Encoded> Encode(SliceKey key, Step step,
                                 absl::Span<const float> gradient) override;
  absl::StatusOr<Payload> SaveState(SliceKey key) override;
  absl::Status LoadState(SliceKey key, absl::Span<const float> arrays) override;

 private:
  DeviceEncoder(CodecPlan plan, DeviceCodecs* codecs, std::unique_ptr<HostEncoder> on_host)
      : GradientEncoder(std::move(plan)), codecs_(codecs), on_host_(std::move(on_host)) {}

  DeviceCodecs* const codecs_;
  const std::unique_ptr<HostEncoder> on_host_;  // of tables that the device does not encode
};

}  // namespace capstan

#endif  // WORKER_ENGINE_DEVICE_CODECS_H_
