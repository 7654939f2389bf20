#ifndef WORKER_CLIENT_GRADIENT_ENCODER_H_
#define WORKER_CLIENT_GRADIENT_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/exchange/payload.h"
#include "common/tensor/host_buffer.h"
#include "common/tensor/slicing.h"

namespace capstan {

// What a worker encodes and decodes: its tables, and what its draws depend on.
struct CodecPlan {
  struct Table {
    Slicing slicing;
    TableCodecs codecs;
  };
  std::vector<Table> tables;  // in order of table id
  DrawKey draws;              // seed and worker

  DrawKey DrawsOf(SliceKey key, Step step) const {
    return {draws.seed, key.table, draws.worker, step, key.slice};
  }
  bool is_lossy() const;  // any codec of any table
};

// Where the slices of one table lie in memory when they are encoded one after the other.
class EncodedSlices {
 public:
  EncodedSlices(const Slicing& slicing, const Codec& codec);

  // Each slice begins at a multiple of a cache line.
  size_t offset(SliceIndex slice) const { return slice.value() * stride_; }
  size_t size_bytes() const { return slice_count_ * stride_; }

 private:
  size_t stride_;
  size_t slice_count_;
};

// Encodes the gradients of one worker, slice by slice, with error feedback: what the codec leaves
// out of a push, the residual, is added to the slice's next gradient. Seide et al., "1-Bit
// Stochastic Gradient Descent", INTERSPEECH'14; Karimireddy et al., "Error Feedback Fixes SignSGD",
// ICML'19, algorithm 2. Their factor, the ratio of the last two learning rates, is 1: a job's rate
// does not change. A slice may be used by one thread at a time.
class GradientEncoder {
 public:
  struct Encoded {
    Payload bytes;  // unchanged until the slice's next Encode
    Codec::Norms norms;
  };

  explicit GradientEncoder(CodecPlan plan) : plan_(std::move(plan)) {}
  virtual ~GradientEncoder() = default;

  const Codec& codec(TableId table) const { return *plan_.tables[table.value()].codecs.push; }

  // The push of `step`, for a slice with a lossy codec. Called once for each: a push that is sent
  // again has the same bytes. INVALID_ARGUMENT if the gradient, or its sum with the residual, has a
  // NaN or an infinity; the residual is then of no use.
  virtual absl::StatusOr<Encoded> Encode(SliceKey key, Step step,
                                         absl::Span<const float> gradient) = 0;

  // What the pushes so far have left out, as long as the slice. Unchanged until the slice's next
  // Encode. Only for lossy codecs.
  virtual absl::StatusOr<Payload> SaveResidual(SliceKey key) = 0;
  virtual absl::Status LoadResidual(SliceKey key, absl::Span<const float> residual) = 0;

 protected:
  const CodecPlan& plan() const { return plan_; }
  size_t SizeOf(SliceKey key) const {
    return plan_.tables[key.table.value()].slicing.Range(key.slice).size;
  }

 private:
  const CodecPlan plan_;
};

// Encodes on the host.
class HostEncoder : public GradientEncoder {
 public:
  // RESOURCE_EXHAUSTED if there is not enough memory.
  static absl::StatusOr<std::unique_ptr<HostEncoder>> Create(CodecPlan plan);

  absl::StatusOr<Encoded> Encode(SliceKey key, Step step,
                                 absl::Span<const float> gradient) override;
  absl::StatusOr<Payload> SaveResidual(SliceKey key) override;
  absl::Status LoadResidual(SliceKey key, absl::Span<const float> residual) override;

 private:
  struct Table {
    std::shared_ptr<HostBuffer> residual;
    std::shared_ptr<HostBuffer> encoded;  // the slices, one after the other
  };

  explicit HostEncoder(CodecPlan plan) : GradientEncoder(std::move(plan)) {}
  absl::Span<float> ResidualOf(SliceKey key) const;

  std::vector<Table> tables_;  // null without a lossy codec
};

}  // namespace capstan

#endif  // WORKER_CLIENT_GRADIENT_ENCODER_H_
