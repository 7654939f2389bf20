#ifndef WORKER_DATASET_GZIP_FILE_H_
#define WORKER_DATASET_GZIP_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// True when `bytes` opens with the magic number of gzip (RFC 1952).
bool IsGzip(absl::string_view bytes);

// The bound of a decompressed data file.
struct FileLimits {
  uint64_t bytes = uint64_t{8} << 30;
  // Without a newline. More is refused before the end of the line has come.
  uint64_t line_bytes = UINT64_MAX;
};
inline constexpr FileLimits kTextLimits = {FileLimits().bytes, /*line_bytes=*/64 << 20};

// Decompresses all members of a gzip file in memory. Zeros after the last one are left out, as by
// gzip. DATA_LOSS when it is truncated or corrupt, RESOURCE_EXHAUSTED beyond the limits.
absl::StatusOr<std::string> Gunzip(absl::string_view bytes, const FileLimits& limits);

// Reads a whole file, and decompresses it if it is gzip. Errors name the file: NOT_FOUND,
// INVALID_ARGUMENT for a folder, a pipe, a device or OtherKind, DATA_LOSS for truncated or corrupt
// gzip, RESOURCE_EXHAUSTED beyond the limits, or the system's own error.
absl::StatusOr<std::string> ReadGzipFile(const std::string& path, const FileLimits& limits = {});

}  // namespace capstan

#endif  // WORKER_DATASET_GZIP_FILE_H_
