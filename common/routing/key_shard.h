#ifndef COMMON_ROUTING_KEY_SHARD_H_
#define COMMON_ROUTING_KEY_SHARD_H_

#include <cstdint>

#include "common/base/ids.h"

namespace capstan {

// A bijection; all bits of the key change the upper bits of the result. It is the finalizer of
// MurmurHash3 without its last step, which would leave the upper bits alone. It has nothing in
// common with the hash of server/sparse/row_table.h, so one shard has keys with hashes of all
// kinds.
inline uint64_t MixedKey(uint64_t key) {
  key = (key ^ (key >> 33)) * 0xFF51AFD7ED558CCD;
  return (key ^ (key >> 33)) * 0xC4CEB9FE1A85EC53;
}

// The shard of a key of a sparse table: floor(MixedKey(key) * shard_count / 2^64), so each shard
// has an equal part of the mixed keys. It is the same function everywhere and for ever: stored
// tables depend on it. `shard_count` is positive.
inline ShardId ShardOfKey(uint64_t key, uint32_t shard_count) {
  const auto product = static_cast<unsigned __int128>(MixedKey(key)) * shard_count;
  return ShardId(static_cast<uint32_t>(product >> 64));
}

}  // namespace capstan

#endif  // COMMON_ROUTING_KEY_SHARD_H_
