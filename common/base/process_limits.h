#ifndef COMMON_BASE_PROCESS_LIMITS_H_
#define COMMON_BASE_PROCESS_LIMITS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace capstan {

// Lets this process open as many files and connections as the system allows it: by default a
// process may open fewer, for programs that expect few.
void RaiseOpenFiles();

// FAILED_PRECONDITION, with what to do, unless this process may hold `connections` and the files
// that a server needs beside them.
absl::Status ExpectOpenFiles(uint64_t connections);

// FAILED_PRECONDITION, with what to do, unless this process may have the address space that the
// threads of a server or worker reserve. With less they may wait for ever.
absl::Status ExpectAddressSpace();

// UNAVAILABLE, with what to do, if this process cannot open any other file or connection now.
absl::Status CheckOpenFiles();

}  // namespace capstan

#endif  // COMMON_BASE_PROCESS_LIMITS_H_
