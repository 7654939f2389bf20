#ifndef WORKER_DATASET_GZIP_FILE_H_
#define WORKER_DATASET_GZIP_FILE_H_

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

// Largest data file, decompressed.
inline constexpr uint64_t kMaxFileBytes = uint64_t{8} << 30;

// Reads a whole file, and decompresses it if it is gzip. Errors name the file: NOT_FOUND,
// INVALID_ARGUMENT for a directory, DATA_LOSS for truncated or corrupt gzip, RESOURCE_EXHAUSTED
// beyond `max_bytes`, or the system's own error.
absl::StatusOr<std::string> ReadGzipFile(const std::string& path,
                                         uint64_t max_bytes = kMaxFileBytes);

}  // namespace capstan

#endif  // WORKER_DATASET_GZIP_FILE_H_
