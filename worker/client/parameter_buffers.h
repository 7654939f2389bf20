#ifndef WORKER_CLIENT_PARAMETER_BUFFERS_H_
#define WORKER_CLIENT_PARAMETER_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/tensor/host_buffer.h"
#include "common/tensor/slicing.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/parameter_mirror.h"

namespace capstan {

// The memory of a worker's parameters and gradients: tables, cut into slices. A slice may be used
// by one thread at a time. Different slices may be used in parallel.
class ParameterBuffers {
 public:
  struct Table {
    std::string name;
    int layer = 0;
    Slicing slicing;
    std::shared_ptr<HostBuffer> values;
    std::shared_ptr<HostBuffer> gradient;
    std::vector<uint64_t> versions;  // of each slice's values
    std::vector<uint64_t> copies;    // ExchangeReply::copy of each slice's values
    std::shared_ptr<const Codec> pull_codec;
    bool is_auto_pull = false;  // TableCodecs::is_auto_pull
    bool replies_mean = false;  // TableSpec::replies_mean
  };

  // `tables` has the job's tables, in order of table id, and `codecs` those of each. `mirror`
  // allocates the memory and gets new values; null: the device computes on this memory.
  // RESOURCE_EXHAUSTED if there is not enough memory.
  static absl::StatusOr<std::unique_ptr<ParameterBuffers>> Create(
      absl::Span<const v1::TableSpec> tables, absl::Span<const TableCodecs> codecs,
      uint64_t slice_bytes, ParameterMirror* mirror);

  // One span for each table. Values that came encoded for a mirror are not here.
  absl::Span<const absl::Span<const float>> values() const { return value_spans_; }
  absl::Span<const absl::Span<float>> gradients() const { return gradient_spans_; }

  uint32_t table_count() const { return static_cast<uint32_t>(tables_.size()); }
  const Table& table(TableId id) const { return tables_[id.value()]; }
  int layer_count() const { return static_cast<int>(slices_of_layer_.size()); }
  int64_t slices_of_layer(int layer) const { return slices_of_layer_[layer]; }

  // Memory of a table's values, to be changed only while no exchange of the table is open.
  absl::Span<float> MutableValues(TableId id) const { return table(id).values->span(); }
  absl::Span<float> ValuesOf(SliceKey key) const;
  // The values in place, without a copy.
  Payload ShareValuesOf(SliceKey key) const;
  absl::Span<const float> GradientSpanOf(SliceKey key) const;
  // The gradient in place, without a copy.
  Payload GradientOf(SliceKey key) const;
  uint64_t VersionOf(SliceKey key) const { return table(key.table).versions[key.slice.value()]; }
  // The number of the values, for the next pull; 0: they have none.
  uint64_t CopyOf(SliceKey key) const { return table(key.table).copies[key.slice.value()]; }

  // Puts the values of a reply in place, decoded. A difference is added to the values that are
  // there. Returns the reply's error, the mirror's error, or INTERNAL if the values are not those
  // of the slice, in a codec of its pulls.
  absl::Status TakeValues(SliceKey key, const ExchangeReply& reply);

 private:
  explicit ParameterBuffers(ParameterMirror* mirror) : mirror_(mirror) {}

  absl::Status AddTable(const v1::TableSpec& spec, const TableCodecs& codecs, uint64_t slice_bytes);
  absl::StatusOr<std::shared_ptr<HostBuffer>> AllocateHost(uint64_t size);
  std::string NameOf(SliceKey key) const;  // for errors
  absl::Status TakeEncoded(SliceKey key, CodecType codec, const Payload& payload);

  ParameterMirror* const mirror_;
  std::vector<Table> tables_;
  std::vector<int64_t> slices_of_layer_;
  std::vector<absl::Span<const float>> value_spans_;
  std::vector<absl::Span<float>> gradient_spans_;
};

}  // namespace capstan

#endif  // WORKER_CLIENT_PARAMETER_BUFFERS_H_
