#ifndef SERVER_REPLICATION_COPIED_SLICE_H_
#define SERVER_REPLICATION_COPIED_SLICE_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "common/exchange/payload.h"
#include "proto/replica.pb.h"
#include "server/slice/payload_reader.h"
#include "server/slice/shard_snapshot.h"
#include "server/slice/slice.h"

namespace capstan {

// A slice on its way to another server, as changes: one with all but its rows, then its rows.
v1::ReplicaChange EncodeCopy(SliceKey key, Slice::Copy copy, Payload* payload);
// The snapshot of such a change, to make the slice of. What follows in `bytes` is for
// Slice::RestoreCopy. INVALID_ARGUMENT.
absl::StatusOr<SliceSnapshot> DecodeCopy(const v1::ReplicaChange& change, PayloadReader& bytes);

// Some rows of the slice, in any order.
v1::ReplicaChange EncodeRows(SliceKey key, const SparseRowsSnapshot& rows, bool is_last,
                             Payload* payload);
// Appends the rows of such a change. INVALID_ARGUMENT.
absl::Status DecodeRows(const v1::CopiedRows& change, const Payload& payload,
                        SparseRowsSnapshot* rows);

}  // namespace capstan

#endif  // SERVER_REPLICATION_COPIED_SLICE_H_
