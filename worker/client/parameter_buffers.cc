#include "worker/client/parameter_buffers.h"

#include <glog/logging.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/routing/job_view.h"

namespace capstan {
namespace {

// INTERNAL unless the reply has `size` values, in this codec or as float32.
absl::Status CheckValues(const Codec& codec, const ExchangeReply& reply, size_t size) {
  const bool is_float32 = reply.codec == CodecType::kFloat32;
  const size_t expected = is_float32 ? size * sizeof(float) : codec.EncodedBytes(size);
  const bool is_known = is_float32 || reply.codec == codec.type();
  if (is_known && reply.values.size_bytes() == expected) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("a server sent ", reply.values.size_bytes(),
                                          " bytes of codec ", static_cast<int>(reply.codec),
                                          " for a slice of ", expected, " bytes of codec ",
                                          static_cast<int>(codec.type()), " (", codec.name(), ")"));
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
      spec.name(), static_cast<int>(spec.layer()), Slicing(elements, slice_bytes), {}, {}, {}, {}};
  table.pull_codec = codecs.pull;
  table.versions.resize(table.slicing.slice_count());
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
  const absl::Span<float> values = ValuesOf(key);
  if (absl::Status status = CheckValues(*table.pull_codec, reply, values.size()); !status.ok()) {
    return Annotate(status, NameOf(key));
  }
  if (reply.codec != CodecType::kFloat32) {
    RETURN_IF_ERROR(TakeEncoded(key, reply.values.InOnePiece()));
    table.versions[key.slice.value()] = reply.version;
    return absl::OkStatus();
  }
  table.versions[key.slice.value()] = reply.version;
  reply.values.CopyTo(values);
  if (mirror_ == nullptr) return absl::OkStatus();
  return mirror_->SliceArrived(key.table, table.slicing.Range(key.slice), values.data());
}

absl::Status ParameterBuffers::TakeEncoded(SliceKey key, const Payload& payload) {
  const Table& table = tables_[key.table.value()];
  const absl::Span<float> values = ValuesOf(key);
  if (absl::Status status = table.pull_codec->Check(payload.piece(), values.size()); !status.ok()) {
    return absl::InternalError(
        absl::StrCat(NameOf(key), ": a server sent wrong values: ", status.message()));
  }
  if (mirror_ == nullptr) {
    table.pull_codec->Decode(payload.piece(), values.size(), /*begin=*/0, values);
    return absl::OkStatus();
  }
  payload.CopyTo(mirror_->EncodedValuesOf(key));
  return mirror_->EncodedSliceArrived(key);
}

}  // namespace capstan
