#ifndef COMMON_ROUTING_PLACEMENT_H_
#define COMMON_ROUTING_PLACEMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/tensor/slicing.h"

namespace capstan {

// The shard of each slice of a job. Every process computes the same map from the tables alone.
// Balanced by bytes: the largest slice is placed first, in the shard with the fewest bytes. A
// sparse table has a slice in each shard: slice i is in shard i. Nobody knows its size before the
// training; it counts as a full one. Immutable, so thread-safe.
class ShardMap {
 public:
  // `table_elements`: number of float32 elements of each table, in table id order; 0: the table is
  // sparse. `slice_bytes` and `shard_count` are not 0.
  ShardMap(absl::Span<const uint64_t> table_elements, uint64_t slice_bytes, uint32_t shard_count);

  uint32_t SliceCount(TableId table) const {
    return static_cast<uint32_t>(first_slice_of_table_[table.value() + 1] -
                                 first_slice_of_table_[table.value()]);
  }
  // The slice must exist.
  ShardId ShardOf(SliceKey slice) const;
  // In order of table and slice.
  absl::Span<const SliceKey> SlicesOf(ShardId shard) const { return slices_.at(shard.value()); }
  // Bytes of parameters of each shard, in shard id order.
  absl::Span<const uint64_t> shard_bytes() const { return shard_bytes_; }
  uint64_t BytesOf(ShardId shard) const { return shard_bytes_.at(shard.value()); }
  uint32_t shard_count() const { return static_cast<uint32_t>(shard_bytes_.size()); }

 private:
  std::vector<size_t> first_slice_of_table_;  // and the number of all slices at the end
  std::vector<uint32_t> shard_of_slice_;
  std::vector<std::vector<SliceKey>> slices_;
  std::vector<uint64_t> shard_bytes_;
};

// The server of each shard. The largest shard is placed first, on the server with the fewest bytes.
// Empty shards go to the servers in turn. `num_servers` is positive.
std::vector<ServerId> PlaceShards(absl::Span<const uint64_t> shard_bytes, int num_servers);

// The server of each shard's second copy: on another host than the shard, or on another server if
// all are on one host. Balanced by the bytes of shards and copies together, and so that the copies
// of one server's shards are spread over the others. There are 2 servers or more, each with a host.
std::vector<ServerId> PlaceCopies(absl::Span<const uint64_t> shard_bytes,
                                  absl::Span<const ServerId> server_of_shard,
                                  absl::Span<const std::string> host_of_server);

// A server on which a copy may be placed.
struct ServerRoom {
  std::string host;
  bool is_live = false;
  uint64_t bytes = 0;  // of its shards and copies
};

// The server of another copy of a shard: a live one beside `primary`, on another host if one is
// there, with the fewest bytes. None: no other server is live.
std::optional<ServerId> PlaceCopy(ServerId primary, absl::Span<const ServerRoom> servers);

}  // namespace capstan

#endif  // COMMON_ROUTING_PLACEMENT_H_
