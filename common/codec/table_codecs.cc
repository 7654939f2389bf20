#include "common/codec/table_codecs.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

bool SendsEveryValue(CodecType type) {
  switch (type) {
    case CodecType::kFloat32:
    case CodecType::kBfloat16:
    case CodecType::kInt8:
      return true;
    case CodecType::kTopkFloat32:
    case CodecType::kTopkBfloat16:
    case CodecType::kTopkInt8:
      return false;
  }
  return false;
}

absl::StatusOr<TableCodecs> MakeCodecs(const v1::CodecSpec& spec, absl::string_view table,
                                       uint64_t elements, uint64_t slice_bytes) {
  TableCodecs codecs;
  for (const v1::TableCodec& own : spec.table_codec()) {
    if (own.table() != table) continue;
    ASSIGN_OR_RETURN(codecs.push, MakePullCodec(own.codec()));
    codecs.pull = codecs.push;
    return codecs;
  }
  const bool is_small = elements * sizeof(float) < spec.min_bytes();
  ASSIGN_OR_RETURN(codecs.push, MakeCodec(is_small ? "float32" : spec.push()));
  const uint64_t slice = std::min(elements, slice_bytes / sizeof(float));
  const bool is_longer = codecs.push->EncodedBytes(slice) > slice * sizeof(float);
  if (is_longer && !SendsEveryValue(codecs.push->type())) {
    ASSIGN_OR_RETURN(codecs.push, MakeCodec("float32"));
  }
  ASSIGN_OR_RETURN(codecs.pull, MakePullCodec(is_small ? "float32" : spec.pull()));
  return codecs;
}

}  // namespace

absl::StatusOr<TableCodecs> CodecsOfTable(const v1::CodecSpec& spec, absl::string_view table,
                                          uint64_t elements, uint64_t slice_bytes) {
  absl::StatusOr<TableCodecs> codecs = MakeCodecs(spec, table, elements, slice_bytes);
  if (codecs.ok()) return codecs;
  return Annotate(codecs.status(), absl::StrCat("codec of table ", table));
}

absl::StatusOr<std::shared_ptr<const Codec>> MakePullCodec(absl::string_view text) {
  absl::StatusOr<std::shared_ptr<const Codec>> codec = MakeCodec(text);
  if (codec.ok() && SendsEveryValue((*codec)->type())) return codec;
  const bool is_topk = absl::StartsWith(text, "topk");
  return absl::InvalidArgumentError(
      absl::StrCat("expected float32, bfloat16 or int8, got \"", text, "\"",
                   is_topk ? "; topk is for gradients only: use --push_codec" : ""));
}

uint32_t ResidualArrays(const TableCodecs& codecs) { return codecs.push->is_lossy() ? 1 : 0; }

}  // namespace capstan
