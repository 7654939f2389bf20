#include "worker/client/gradient_encoder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

absl::StatusOr<std::shared_ptr<HostBuffer>> Allocate(size_t size) {
  absl::StatusOr<HostBuffer> buffer = HostBuffer::Create(size);
  if (!buffer.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("encoded gradients: ", buffer.status().message(),
                     "; use a smaller model, or a machine with more memory"));
  }
  return std::make_shared<HostBuffer>(*std::move(buffer));
}

}  // namespace

bool CodecPlan::is_lossy() const {
  return std::any_of(tables.begin(), tables.end(), [](const Table& table) {
    return table.codecs.push->is_lossy() || table.codecs.pull->is_lossy();
  });
}

EncodedSlices::EncodedSlices(const Slicing& slicing, const Codec& codec)
    : slice_count_(slicing.slice_count()) {
  const size_t longest =
      slice_count_ == 0 ? 0 : codec.EncodedBytes(slicing.Range(SliceIndex(0)).size);
  stride_ = (longest + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

absl::StatusOr<std::unique_ptr<HostEncoder>> HostEncoder::Create(CodecPlan plan) {
  std::unique_ptr<HostEncoder> encoder(new HostEncoder(std::move(plan)));
  for (const CodecPlan::Table& planned : encoder->plan().tables) {
    Table& table = encoder->tables_.emplace_back();
    const Codec& codec = *planned.codecs.push;
    if (!codec.is_lossy()) continue;
    ASSIGN_OR_RETURN(table.residual, Allocate(planned.slicing.elements()));
    const size_t bytes = EncodedSlices(planned.slicing, codec).size_bytes();
    ASSIGN_OR_RETURN(table.encoded, Allocate(bytes / sizeof(float)));
  }
  return encoder;
}

absl::StatusOr<GradientEncoder::Encoded> HostEncoder::Encode(SliceKey key, Step step,
                                                             absl::Span<const float> gradient) {
  const CodecPlan::Table& planned = plan().tables[key.table.value()];
  const std::shared_ptr<HostBuffer>& memory = tables_[key.table.value()].encoded;
  const Codec& codec = *planned.codecs.push;
  const size_t offset = EncodedSlices(planned.slicing, codec).offset(key.slice);
  const absl::Span<uint8_t> bytes =
      memory->bytes().subspan(offset, codec.EncodedBytes(gradient.size()));
  Encoded encoded;
  ASSIGN_OR_RETURN(encoded.norms,
                   codec.Encode(gradient, plan().DrawsOf(key, step), ResidualOf(key), bytes));
  encoded.bytes = Payload(memory);
  encoded.bytes.Append(bytes);
  return encoded;
}

absl::Span<float> HostEncoder::ResidualOf(SliceKey key) const {
  const SliceRange range = plan().tables[key.table.value()].slicing.Range(key.slice);
  return tables_[key.table.value()].residual->span().subspan(range.offset, range.size);
}

absl::StatusOr<Payload> HostEncoder::SaveResidual(SliceKey key) {
  return Payload(ResidualOf(key), tables_[key.table.value()].residual);
}

absl::Status HostEncoder::LoadResidual(SliceKey key, absl::Span<const float> residual) {
  std::copy(residual.begin(), residual.end(), ResidualOf(key).begin());
  return absl::OkStatus();
}

}  // namespace capstan
