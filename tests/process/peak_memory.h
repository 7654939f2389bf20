#ifndef TESTS_PROCESS_PEAK_MEMORY_H_
#define TESTS_PROCESS_PEAK_MEMORY_H_

#include <sys/types.h>

#include <cstdint>

namespace capstan {

// The memory of this process, in bytes: now, and at its peak.
int64_t MemoryBytes();
int64_t PeakMemoryBytes();
// That of another process now.
int64_t MemoryBytes(pid_t process);

}  // namespace capstan

#endif  // TESTS_PROCESS_PEAK_MEMORY_H_
