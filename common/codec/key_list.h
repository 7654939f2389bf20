#ifndef COMMON_CODEC_KEY_LIST_H_
#define COMMON_CODEC_KEY_LIST_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace capstan {

// Ascending keys of a sparse table as bytes. Keys that are near to each other take few bits.
// README.md has the bytes.

// No list of `count` keys has more bytes, and none has fewer.
size_t MostKeyListBytes(size_t count);
size_t LeastKeyListBytes(size_t count);

// Writes the keys, each larger than the one before. `bytes` has room for MostKeyListBytes of them,
// and all of it may be overwritten. Returns the number of bytes of the list.
size_t EncodeKeyList(absl::Span<const uint64_t> keys, absl::Span<uint8_t> bytes);

// Reads as many keys as `keys` has room for. Returns the number of bytes of the list; others may
// follow it. INVALID_ARGUMENT: the bytes are not a list of this length. Then `keys` have arbitrary
// values. A list whose gaps take more bits than they need is read as well.
absl::StatusOr<size_t> DecodeKeyList(absl::Span<const uint8_t> bytes, absl::Span<uint64_t> keys);

// The XXH3-64 of a list's bytes. It stands for the list where both sides have it.
uint64_t HashKeyList(absl::Span<const uint8_t> bytes);

}  // namespace capstan

#endif  // COMMON_CODEC_KEY_LIST_H_
