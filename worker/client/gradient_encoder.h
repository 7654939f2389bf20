#ifndef WORKER_CLIENT_GRADIENT_ENCODER_H_
#define WORKER_CLIENT_GRADIENT_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
    double learning_rate = 1;  // of its optimizer
  };
  std::vector<Table> tables;  // in order of table id
  DrawKey draws;              // seed and worker
  uint32_t workers = 1;       // of the job

  DrawKey DrawsOf(SliceKey key, Step step) const {
    return {draws.seed, key.table, draws.worker, step,
            tables[key.table.value()].slicing.Range(key.slice).offset};
  }
  bool is_lossy() const;  // any codec of any table
  // The most that the gradient of a table with a Dgc may have as norm; 0: any.
  double ClipNorm(const Dgc& dgc) const;
};

// Where the slices of one table lie in memory when they are encoded one after the other.
class EncodedSlices {
 public:
  EncodedSlices(const Slicing& slicing, const Codec& codec);
  EncodedSlices(const Slicing& slicing, size_t longest_bytes);

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
// ICML'19, algorithm 2. Learning rates may change: between pushes a residual is kept for the rate
// of the table's optimizer, and a push with the rate r times that one adds residual / r.
//
// With a Dgc, u = momentum * u + gradient takes the place of the gradient, in every table. Where a
// topk has sent an element, its u becomes 0 (momentum factor masking). A gradient with a norm above
// clip_norm / sqrt(workers) is made as long as that before.
//
// A slice may be used by one thread at a time.
class GradientEncoder {
 public:
  struct Encoded {
    Payload bytes;  // unchanged until the slice's next Encode
    Codec::Norms norms;
  };

  explicit GradientEncoder(CodecPlan plan) : plan_(std::move(plan)) {}
  virtual ~GradientEncoder() = default;

  // The type of its pushes; steps differ in their length at most.
  CodecType type(TableId table) const { return CodecsOf(table).push->type(); }
  const Codec& codec(TableId table, Step step) const { return CodecsOf(table).PushAt(step); }
  // Whether Encode makes the table's pushes. Otherwise they are the gradients.
  virtual bool encodes(TableId table) const { return CodecsOf(table).push->is_lossy(); }

  // Whether its pushes are float32, and not encoded, until the job's choice.
  bool is_auto(TableId table) const { return CodecsOf(table).is_auto_push; }

  // Comes before Encode of the slices of a table for which it is to be called, with the whole
  // gradient of `step` and the learning rate of its push; none: that of the table's optimizer.
  virtual void BeginTable(TableId /*table*/, absl::Span<const float> /*gradient*/,
                          std::optional<double> /*learning_rate*/) {}
  // The push of `step`. Called once for each: a push that is sent again has the same bytes.
  // INVALID_ARGUMENT if the gradient, or its sum with the residual, has a NaN or an infinity; the
  // residual is then of no use.
  virtual absl::StatusOr<Encoded> Encode(SliceKey key, Step step,
                                         absl::Span<const float> gradient) = 0;

  // The number of arrays that are kept from step to step.
  uint32_t arrays(TableId table) const { return PushArrays(CodecsOf(table)); }
  // These arrays, one after the other, each as long as the slice: what the pushes so far have left
  // out, if the codec is lossy, for the rate of the table's optimizer, and the u of a Dgc.
  // Unchanged until the slice's next Encode.
  virtual absl::StatusOr<Payload> SaveState(SliceKey key) = 0;
  virtual absl::Status LoadState(SliceKey key, absl::Span<const float> arrays) = 0;

 protected:
  const CodecPlan& plan() const { return plan_; }
  const TableCodecs& CodecsOf(TableId table) const { return plan_.tables[table.value()].codecs; }

 private:
  const CodecPlan plan_;
};

// Encodes on the host.
class HostEncoder : public GradientEncoder {
 public:
  // RESOURCE_EXHAUSTED if there is not enough memory.
  static absl::StatusOr<std::unique_ptr<HostEncoder>> Create(CodecPlan plan);

  bool encodes(TableId table) const override { return arrays(table) > 0; }
  void BeginTable(TableId table, absl::Span<const float> gradient,
                  std::optional<double> learning_rate) override;
  absl::StatusOr<Encoded> Encode(SliceKey key, Step step,
                                 absl::Span<const float> gradient) override;
  absl::StatusOr<Payload> SaveState(SliceKey key) override;
  absl::Status LoadState(SliceKey key, absl::Span<const float> arrays) override;

 private:
  struct Table {
    std::shared_ptr<HostBuffer> residual;  // null without a lossy codec
    std::shared_ptr<HostBuffer> encoded;   // the slices, one after the other; null likewise
    std::shared_ptr<HostBuffer> momentum;  // u; null without a Dgc
    // These belong to the gradient in work:
    float clip_factor = 1;
    double relative_rate = 1;  // its learning rate, divided by that of the table's optimizer
  };

  explicit HostEncoder(CodecPlan plan) : GradientEncoder(std::move(plan)) {}
  // The slice's part of an array of its table; empty if there is none.
  absl::Span<float> PartOf(SliceKey key, const std::shared_ptr<HostBuffer>& array) const;
  void AddMomentum(SliceKey key, absl::Span<const float> gradient, absl::Span<float> momentum);
  absl::StatusOr<Encoded> EncodeLossy(SliceKey key, Step step, absl::Span<const float> values);

  std::vector<Table> tables_;
};

}  // namespace capstan

#endif  // WORKER_CLIENT_GRADIENT_ENCODER_H_
