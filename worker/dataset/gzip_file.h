#ifndef WORKER_DATASET_GZIP_FILE_H_
#define WORKER_DATASET_GZIP_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace capstan {

// Most that a data file may hold, decompressed.
inline constexpr uint64_t kMaxFileBytes = uint64_t{8} << 30;

// The bytes of a whole file, decompressed when it is gzip. Errors name the file: NOT_FOUND,
// INVALID_ARGUMENT for a directory, DATA_LOSS for truncated or corrupt gzip, RESOURCE_EXHAUSTED
// beyond `max_bytes`, and whatever the system says.
absl::StatusOr<std::string> ReadGzipFile(const std::string& path,
                                         uint64_t max_bytes = kMaxFileBytes);

}  // namespace capstan

#endif  // WORKER_DATASET_GZIP_FILE_H_
