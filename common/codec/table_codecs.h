#ifndef COMMON_CODEC_TABLE_CODECS_H_
#define COMMON_CODEC_TABLE_CODECS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/codec/codec.h"
#include "proto/job.pb.h"

namespace capstan {

// How the gradients and the values of one table are sent.
struct TableCodecs {
  std::shared_ptr<const Codec> push = MakeCodec("float32").value();
  std::shared_ptr<const Codec> pull = MakeCodec("float32").value();
};

// The codecs of a table with this number of elements, in slices of `slice_bytes`: its own one if it
// has one, else those of all tables. But float32 if the table is smaller than `min_bytes`, and for
// pushes also if the codec would not make a slice smaller (a topk of more than half of the values).
// Workers and servers find the same ones. INVALID_ARGUMENT if the text of one is not valid.
absl::StatusOr<TableCodecs> CodecsOfTable(const v1::CodecSpec& spec, absl::string_view table,
                                          uint64_t elements, uint64_t slice_bytes);

// MakeCodec for pulls: float32, bfloat16 or int8. INVALID_ARGUMENT says so.
absl::StatusOr<std::shared_ptr<const Codec>> MakePullCodec(absl::string_view text);

// The number of float32 arrays, as long as the table, that a worker keeps for what its pushes lack.
uint32_t ResidualArrays(const TableCodecs& codecs);

}  // namespace capstan

#endif  // COMMON_CODEC_TABLE_CODECS_H_
