#include "worker/client/parameter_buffers.h"

#include <glog/logging.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/changed_values.h"
#include "common/routing/job_view.h"

namespace capstan {
namespace {

// INTERNAL unless the reply has as many bytes of its codec as `size` values have, and the pulls of
// the slice can bring that codec. `has_copy`: the worker has values to which a difference applies.
absl::Status CheckReply(const Codec& codec, const ExchangeReply& reply, size_t size,
                        bool has_copy) {
  const size_t bytes = reply.values.size_bytes();
  const bool gets_differences = IsTopk(codec.type());
  bool is_known = false;
  if (reply.codec == CodecType::kFloat32) {
    is_known = bytes == size * sizeof(float);
  } else if (reply.codec == CodecType::kChanged) {
    is_known = gets_differences && has_copy && bytes <= MostChangedBytes(codec, size);
  } else if (reply.codec == codec.type()) {
    is_known = (!gets_differences || has_copy) && bytes == codec.EncodedBytes(size);
  }
  if (is_known) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "a server sent ", bytes, " bytes of codec ", static_cast<int>(reply.codec),
      " for a slice of ", codec.EncodedBytes(size), " bytes of codec ",
      static_cast<int>(codec.type()), " (", codec.name(), ")",
      gets_differences && !has_copy ? "; expected all values, for this worker has none to change"
                                    : ""));
}

// Only for checked bytes.
void Apply(const Codec& codec, CodecType type, absl::Span<const uint8_t> bytes,
           absl::Span<float> values) {
  if (type == CodecType::kChanged) return ApplyChanged(bytes, values);
  if (IsTopk(type)) return codec.DecodeAdd(bytes, values.size(), /*begin=*/0, values);
  codec.Decode(bytes, values.size(), /*begin=*/0, values);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterBuffers>> ParameterBuffers::Create(
    absl::Span<const v1::TableSpec> tables, absl::Span<const TableCodecs> codecs,
    uint64_t slice_bytes, ParameterMirror* mirror) {
  std::unique_ptr<ParameterBuffers> buffers(new ParameterBuffers(mirror));
  CHECK_EQ(tables.size(), codecs.size());
  for (size_t i = 0; i < tables.size(); ++i) {
    RETURN_IF_ERROR(buffers->AddTable(tables[i], codecs[i], slice_bytes));
  }
  return buffers;
}

absl::Status ParameterBuffers::AddTable(const v1::TableSpec& spec, const TableCodecs& codecs,
                                        uint64_t slice_bytes) {
  const uint64_t elements = ElementCount(spec);
  Table table = {
      spec.name(), static_cast<int>(spec.layer()), Slicing(elements, slice_bytes), {}, {}, {}, {},
      {}};
  table.pull_codec = codecs.pull;
  table.is_auto_pull = codecs.is_auto_pull;
  table.replies_mean = spec.replies_mean();
  table.versions.resize(table.slicing.slice_count());
  table.copies.resize(table.slicing.slice_count());
  ASSIGN_OR_RETURN(table.values, AllocateHost(elements));
  ASSIGN_OR_RETURN(table.gradient, AllocateHost(elements));
  value_spans_.push_back(table.values->span());
  gradient_spans_.push_back(table.gradient->span());
  if (slices_of_layer_.size() <= spec.layer()) slices_of_layer_.resize(spec.layer() + 1);
  slices_of_layer_[spec.layer()] += table.slicing.slice_count();
  tables_.push_back(std::move(table));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<HostBuffer>> ParameterBuffers::AllocateHost(uint64_t size) {
  if (mirror_ != nullptr) {
    ASSIGN_OR_RETURN(HostBuffer buffer, mirror_->AllocateHost(size));
    return std::make_shared<HostBuffer>(std::move(buffer));
  }
  absl::StatusOr<HostBuffer> buffer = HostBuffer::Create(size);
  if (!buffer.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("parameters: ", buffer.status().message(),
                     "; use a smaller model, or a machine with more memory"));
  }
  return std::make_shared<HostBuffer>(*std::move(buffer));
}

absl::Span<float> ParameterBuffers::ValuesOf(SliceKey key) const {
  const SliceRange range = table(key.table).slicing.Range(key.slice);
  return table(key.table).values->span().subspan(range.offset, range.size);
}

Payload ParameterBuffers::ShareValuesOf(SliceKey key) const {
  return Payload(ValuesOf(key), table(key.table).values);
}

absl::Span<const float> ParameterBuffers::GradientSpanOf(SliceKey key) const {
  const SliceRange range = table(key.table).slicing.Range(key.slice);
  return table(key.table).gradient->span().subspan(range.offset, range.size);
}

Payload ParameterBuffers::GradientOf(SliceKey key) const {
  return Payload(GradientSpanOf(key), table(key.table).gradient);
}

std::string ParameterBuffers::NameOf(SliceKey key) const {
  return absl::StrCat("slice ", key.slice.value(), " of table ", table(key.table).name);
}

absl::Status ParameterBuffers::TakeValues(SliceKey key, const ExchangeReply& reply) {
  RETURN_IF_ERROR(reply.status);
  Table& table = tables_[key.table.value()];
  uint64_t& copy = table.copies[key.slice.value()];
  const absl::Span<float> values = ValuesOf(key);
  absl::Status checked =
      CheckReply(*table.pull_codec, reply, values.size(), /*has_copy=*/copy != 0);
  if (!checked.ok()) return Annotate(checked, NameOf(key));
  copy = reply.copy;
  table.versions[key.slice.value()] = reply.version;
  if (reply.codec != CodecType::kFloat32) {
    return TakeEncoded(key, reply.codec, reply.values.InOnePiece());
  }
  reply.values.CopyTo(values);
  if (mirror_ == nullptr) return absl::OkStatus();
  return mirror_->SliceArrived(key.table, table.slicing.Range(key.slice), values.data());
}

absl::Status ParameterBuffers::TakeEncoded(SliceKey key, CodecType codec, const Payload& payload) {
  const Codec& pull_codec = *table(key.table).pull_codec;
  const absl::Span<float> values = ValuesOf(key);
  const absl::Status checked = codec == CodecType::kChanged
                                   ? CheckChanged(payload.piece(), values.size())
                                   : pull_codec.Check(payload.piece(), values.size());
  if (!checked.ok()) {
    return absl::InternalError(
        absl::StrCat(NameOf(key), ": a server sent wrong values: ", checked.message()));
  }
  if (mirror_ != nullptr) return mirror_->EncodedSliceArrived(key, codec, payload);
  Apply(pull_codec, codec, payload.piece(), values);
  return absl::OkStatus();
}

}  // namespace capstan
