#ifndef SERVER_SPARSE_ROW_HASH_H_
#define SERVER_SPARSE_ROW_HASH_H_

#include <cstdint>

namespace capstan {

// The hash that places a key's row in memory: rows lie in the order of hashes. It is a bijection,
// so it stands for its key. All bits of the key change the upper bits of the hash. 0 stays 0.

inline constexpr uint64_t kRowHashMultiplier = 0xD6E8FEB86659FD93;
inline constexpr uint64_t kRowHashInverse = 0xCFEE444D8B59A89B;
static_assert(kRowHashMultiplier * kRowHashInverse == 1, "not inverse");

inline uint64_t RowHashOf(uint64_t key) {
  key = (key ^ (key >> 32)) * kRowHashMultiplier;
  return (key ^ (key >> 32)) * kRowHashMultiplier;
}

inline uint64_t KeyOfRowHash(uint64_t hash) {
  hash *= kRowHashInverse;
  hash = (hash ^ (hash >> 32)) * kRowHashInverse;
  return hash ^ (hash >> 32);
}

}  // namespace capstan

#endif  // SERVER_SPARSE_ROW_HASH_H_
