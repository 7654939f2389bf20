#include "worker/client/parameter_buffers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/routing/job_view.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<ParameterBuffers>> ParameterBuffers::Create(
    absl::Span<const v1::TableSpec> tables, uint64_t slice_bytes, ParameterMirror* mirror) {
  std::unique_ptr<ParameterBuffers> buffers(new ParameterBuffers(mirror));
  for (const v1::TableSpec& spec : tables) RETURN_IF_ERROR(buffers->AddTable(spec, slice_bytes));
  return buffers;
}

absl::Status ParameterBuffers::AddTable(const v1::TableSpec& spec, uint64_t slice_bytes) {
  const uint64_t elements = ElementCount(spec);
  Table table = {
      spec.name(), static_cast<int>(spec.layer()), Slicing(elements, slice_bytes), nullptr, nullptr,
      {}};
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

Payload ParameterBuffers::GradientOf(SliceKey key) const {
  const Table& owner = table(key.table);
  const SliceRange range = owner.slicing.Range(key.slice);
  return Payload(owner.gradient->span().subspan(range.offset, range.size), owner.gradient);
}

absl::Status ParameterBuffers::TakeValues(SliceKey key, const ExchangeReply& reply) {
  RETURN_IF_ERROR(reply.status);
  Table& table = tables_[key.table.value()];
  const SliceRange range = table.slicing.Range(key.slice);
  if (reply.values.size_bytes() != range.size * sizeof(float)) {
    return absl::InternalError(absl::StrCat("a server sent ", reply.values.size_bytes(),
                                            " bytes for a slice of ", range.size * sizeof(float)));
  }
  const absl::Span<float> values = ValuesOf(key);
  reply.values.CopyTo(values);
  table.versions[key.slice.value()] = reply.version;
  if (mirror_ == nullptr) return absl::OkStatus();
  return mirror_->SliceArrived(key.table, range, values.data());
}

}  // namespace capstan
