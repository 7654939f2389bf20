#include "common/codec/table_codecs.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

absl::StatusOr<std::shared_ptr<const Codec>> CodecOrFloat32(bool is_float32, absl::string_view text,
                                                            uint64_t slice_elements) {
  if (text == kAutoCodec) text = "int8";
  ASSIGN_OR_RETURN(std::shared_ptr<const Codec> codec, MakeCodec(is_float32 ? "float32" : text));
  const bool is_longer = codec->EncodedBytes(slice_elements) > slice_elements * sizeof(float);
  return is_longer && IsTopk(codec->type()) ? MakeCodec("float32") : codec;
}

// The ratios of Lin et al., section 3.3, each for a fifth of the warm-up. Those that send no more
// than the codec itself are left out.
absl::Status AddWarmup(const v1::CodecSpec& spec, uint64_t slice_elements, TableCodecs& codecs) {
  constexpr const char* kRatios[] = {"0.25", "0.0625", "0.015625", "0.004", "0.001"};
  const std::string name = codecs.push->name();
  const size_t end_of_count = name.find(':', name.find(':') + 1);
  const std::string values = end_of_count == name.npos ? "" : name.substr(end_of_count);
  for (uint64_t i = 0; i < std::size(kRatios); ++i) {
    TableCodecs::Warmup part;
    part.end = Step(static_cast<int64_t>(spec.dgc_warmup_steps() / std::size(kRatios) * (i + 1)));
    ASSIGN_OR_RETURN(part.push, MakeCodec(absl::StrCat("topk:", kRatios[i], values)));
    const bool is_longer =
        part.push->EncodedBytes(slice_elements) > codecs.push->EncodedBytes(slice_elements);
    if (is_longer && part.end > Step(0)) codecs.warmup.push_back(std::move(part));
  }
  return absl::OkStatus();
}

// The codec of a sparse table's rows. `text` is the table's own, if it `has_own`.
absl::StatusOr<std::shared_ptr<const Codec>> RowCodec(bool has_own, absl::string_view text) {
  const bool is_auto = text == kAutoCodec;
  ASSIGN_OR_RETURN(std::shared_ptr<const Codec> codec, MakeCodec(is_auto ? "float32" : text));
  if (!is_auto && !IsTopk(codec->type())) return codec;
  if (!has_own) return MakeCodec("float32");
  return absl::InvalidArgumentError(absl::StrCat(
      "expected float32, bfloat16 or int8 for the rows of a sparse table, got ", text));
}

absl::StatusOr<TableCodecs> MakeCodecs(const v1::CodecSpec& spec, absl::string_view table,
                                       uint64_t elements, uint64_t slice_bytes) {
  const uint64_t slice = std::min(elements, slice_bytes / sizeof(float));
  const auto own =
      std::find_if(spec.table_codec().begin(), spec.table_codec().end(),
                   [table](const v1::TableCodec& codec) { return codec.table() == table; });
  const bool has_own = own != spec.table_codec().end();
  const bool is_small = !has_own && elements * sizeof(float) < spec.min_bytes();
  const std::string& push = has_own ? own->codec() : spec.push();
  const std::string& pull = has_own ? own->codec() : spec.pull();
  TableCodecs codecs;
  if (elements == 0) {
    ASSIGN_OR_RETURN(codecs.push, RowCodec(has_own, push));
    ASSIGN_OR_RETURN(codecs.pull, RowCodec(has_own, pull));
    return codecs;
  }
  ASSIGN_OR_RETURN(codecs.push, CodecOrFloat32(is_small, push, slice));
  ASSIGN_OR_RETURN(codecs.pull, CodecOrFloat32(is_small, pull, slice));
  codecs.is_auto_push = !is_small && push == kAutoCodec;
  codecs.is_auto_pull = !is_small && pull == kAutoCodec;
  if (!spec.dgc()) return codecs;
  codecs.dgc = {spec.dgc_momentum(), spec.dgc_clip_norm()};
  if (IsTopk(codecs.push->type())) RETURN_IF_ERROR(AddWarmup(spec, slice, codecs));
  return codecs;
}

}  // namespace

absl::StatusOr<TableCodecs> CodecsOfTable(const v1::CodecSpec& spec, absl::string_view table,
                                          uint64_t elements, uint64_t slice_bytes) {
  const bool is_exact = absl::StartsWith(table, kExactTables);
  absl::StatusOr<TableCodecs> codecs =
      MakeCodecs(is_exact ? v1::CodecSpec() : spec, table, elements, slice_bytes);
  if (codecs.ok()) return codecs;
  return Annotate(codecs.status(), absl::StrCat("codec of table ", table));
}

const Codec& TableCodecs::PushAt(Step step) const {
  for (const Warmup& part : warmup) {
    if (step < part.end) return *part.push;
  }
  return *push;
}

const Codec& TableCodecs::PushOf(Step step, CodecType type) const {
  static const auto* const float32 = new std::shared_ptr<const Codec>(MakeCodec("float32").value());
  return is_auto_push && type == CodecType::kFloat32 ? **float32 : PushAt(step);
}

uint32_t PushArrays(const TableCodecs& codecs) {
  return (codecs.push->is_lossy() ? 1 : 0) + (codecs.dgc.has_value() ? 1 : 0);
}

}  // namespace capstan
