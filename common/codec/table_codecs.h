#ifndef COMMON_CODEC_TABLE_CODECS_H_
#define COMMON_CODEC_TABLE_CODECS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "proto/job.pb.h"

namespace capstan {

// Deep gradient compression: the worker's part. Lin et al., "Deep Gradient Compression",
// ICLR'18, sections 3.1 to 3.3.
struct Dgc {
  double momentum = 0;
  double clip_norm = 0;  // of a table's gradient, before the root of the workers; 0: none
};

// The text of a codec that is chosen while the job runs: float32, and int8 from some step on if
// that pays.
inline constexpr char kAutoCodec[] = "auto";

// How the gradients and the values of one table are sent.
struct TableCodecs {
  // A codec of pushes before step `end`.
  struct Warmup {
    Step end;
    std::shared_ptr<const Codec> push;
  };

  std::shared_ptr<const Codec> push = MakeCodec("float32").value();
  std::shared_ptr<const Codec> pull = MakeCodec("float32").value();
  std::vector<Warmup> warmup;  // ascending; of the same type as `push`, and longer
  std::optional<Dgc> dgc;
  // Until the job's choice, these are sent as float32: `push` or `pull` is what would pay.
  bool is_auto_push = false;
  bool is_auto_pull = false;

  const Codec& PushAt(Step step) const;
  // The codec of a push of `step` that says that it has this type: PushAt, or float32 if it may be.
  const Codec& PushOf(Step step, CodecType type) const;
  // The one of all steps with the most bytes.
  const Codec& LongestPush() const { return warmup.empty() ? *push : *warmup[0].push; }
};

// Tables whose names begin like this are for workers to agree on something: always float32.
inline constexpr char kExactTables[] = "capstan.";

// The codecs of a table with this number of elements (0: it is sparse), in slices of `slice_bytes`.
// They are the table's own if the spec names it, else those of all tables. In place of a codec
// there is float32
// - for a table smaller than the spec's `min_bytes`;
// - if the codec would make a slice longer, as a topk of more than half of the values does;
// - for a sparse table, if all tables have a topk or auto.
// Workers and servers call this, each for themselves, and get the same. INVALID_ARGUMENT: a codec's
// text is not valid, or a sparse table's own codec is a topk or auto.
absl::StatusOr<TableCodecs> CodecsOfTable(const v1::CodecSpec& spec, absl::string_view table,
                                          uint64_t elements, uint64_t slice_bytes);

// The number of float32 arrays, as long as the table, that a worker keeps for its pushes: for what
// they lack, and for momentum.
uint32_t PushArrays(const TableCodecs& codecs);

}  // namespace capstan

#endif  // COMMON_CODEC_TABLE_CODECS_H_
