#ifndef COMMON_ROUTING_PLACEMENT_H_
#define COMMON_ROUTING_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/routing/slice_key.h"

namespace capstan {

// Which shard holds each slice of a job. Every process computes it for itself, from the tables
// alone, and gets the same map. Balanced by bytes: the largest slice first, to the shard that has
// least. Immutable, so thread-safe.
class ShardMap {
 public:
  // `table_elements`: number of float32 elements of each table, in table id order. `slice_bytes`
  // and `shard_count` are not 0.
  ShardMap(absl::Span<const uint64_t> table_elements, uint64_t slice_bytes, uint32_t shard_count);

  // The slice must exist.
  ShardId ShardOf(SliceKey slice) const;
  // In order of table and slice.
  absl::Span<const SliceKey> SlicesOf(ShardId shard) const { return slices_.at(shard.value()); }
  // Bytes of parameters of each shard, in shard id order.
  absl::Span<const uint64_t> shard_bytes() const { return shard_bytes_; }
  uint64_t BytesOf(ShardId shard) const { return shard_bytes_.at(shard.value()); }
  uint32_t shard_count() const { return static_cast<uint32_t>(shard_bytes_.size()); }

 private:
  std::vector<size_t> first_slice_of_table_;  // One more than there are tables.
  std::vector<uint32_t> shard_of_slice_;
  std::vector<std::vector<SliceKey>> slices_;
  std::vector<uint64_t> shard_bytes_;
};

// The server of each shard: the largest shard first, to the server that has least; empty ones in
// turn. `num_servers` is positive.
std::vector<ServerId> PlaceShards(absl::Span<const uint64_t> shard_bytes, int num_servers);

}  // namespace capstan

#endif  // COMMON_ROUTING_PLACEMENT_H_
