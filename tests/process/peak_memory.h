#ifndef TESTS_PROCESS_PEAK_MEMORY_H_
#define TESTS_PROCESS_PEAK_MEMORY_H_

#include <cstdint>

namespace capstan {

// The peak memory of this process, in bytes.
int64_t PeakMemoryBytes();

}  // namespace capstan

#endif  // TESTS_PROCESS_PEAK_MEMORY_H_
