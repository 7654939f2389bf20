#ifndef TESTS_BENCHMARK_CHECKPOINT_DISK_BASELINE_H_
#define TESTS_BENCHMARK_CHECKPOINT_DISK_BASELINE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace capstan {

// What the disk itself reaches, to print beside a benchmark's figures: the program dd. Its errors
// are INTERNAL.

inline constexpr uint64_t kDdBlockBytes = 1 << 20;

// The time of `dd if=/dev/zero of=PATH bs=1M count=BLOCKS conv=fsync`.
absl::StatusOr<absl::Duration> TimeDdWrite(const std::string& path, uint64_t blocks);

// The time of `dd if=PATH of=/dev/null bs=1M`.
absl::StatusOr<absl::Duration> TimeDdRead(const std::string& path);

// Drops the files in a folder from the kernel's page cache: the next reader gets them from the
// disk. Their contents must be on the disk already. UNAVAILABLE: a file cannot be opened.
absl::Status DropFromPageCache(const std::string& folder);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_CHECKPOINT_DISK_BASELINE_H_
