#ifndef WORKER_DATASET_GUNZIP_H_
#define WORKER_DATASET_GUNZIP_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// True when `bytes` opens with the magic number of gzip (RFC 1952).
bool IsGzip(absl::string_view bytes);

// Decompresses all members of a gzip file in memory. DATA_LOSS when it is truncated or corrupt,
// RESOURCE_EXHAUSTED when the result is larger than `max_bytes`.
absl::StatusOr<std::string> Gunzip(absl::string_view bytes, uint64_t max_bytes);

}  // namespace capstan

#endif  // WORKER_DATASET_GUNZIP_H_
