#ifndef COMMON_BASE_PROGRAM_H_
#define COMMON_BASE_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace capstan {

// The version of all programs.
inline constexpr char kVersion[] = "0.1.0";

// What a program does first: logs go to standard error, --help shows `usage` and the flags of its
// own *_main.cc, --version its name and kVersion, and freed memory is kept for what comes next.
void InitProgram(const char* name, const std::string& usage);

// Parses `args`, the program's name first, into the program's flags. INVALID_ARGUMENT when
// something is left that is no flag, or a flag stands where the value of another one is expected;
// an unknown flag ends the program with a message.
absl::Status ParseProgramFlags(std::vector<std::string> args);

// What a program does last: ends the process with this code, at once. Static objects of libraries
// are not destroyed, because threads that gRPC leaves behind may still use them.
[[noreturn]] void ExitProgram(int code);

// Prints "name: message" to standard error unless `status` is OK, and ends the process: with 0,
// with 2 for a wrong command line, else with 1.
[[noreturn]] void EndProgram(const std::string& name, const absl::Status& status,
                             bool is_usage_error = false);

}  // namespace capstan

#endif  // COMMON_BASE_PROGRAM_H_
