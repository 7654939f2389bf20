#ifndef COMMON_BASE_PROGRAM_H_
#define COMMON_BASE_PROGRAM_H_

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/end_request.h"

namespace capstan {

// The version of all programs.
inline constexpr char kVersion[] = "0.1.0";
// Rises when messages change their meaning. Programs of another one would misunderstand each other.
inline constexpr uint32_t kWireVersion = 4;

// From now on, malloc keeps freed memory for later allocations: blocks of up to 8 MiB, 256 MiB for
// each of its arenas. By default, malloc returns large blocks to the kernel at once. The kernel
// takes longer to zero new ones than a program to receive a message into them.
void KeepFreedMemory();

// The first call of a program. Logs go to standard error. --help shows `usage` and the flags of the
// program's own *_main.cc, --version its name and kVersion. std::terminate logs where the program
// was. Calls KeepFreedMemory and RaiseOpenFiles.
void InitProgram(const char* name, const std::string& usage);

// Begins a program with a role in a job: expands the flag files in `args` (ExpandFlagFiles), and
// then begins logs of that role (BeginLogs). If `args` ask for help, prints `help` and ends the
// process.
absl::Status BeginRole(absl::string_view role, const std::string& help,
                       std::vector<std::string>* args);

// A text that only processes on the same machine and in the same network namespace have: they
// reach each other without a network.
std::string HostAndNetwork();

// Parses `args`, the program's name first, into the program's flags. Expands flag files.
// INVALID_ARGUMENT for a wrong flag file, for an unknown flag or a wrong value, for an argument
// other than a flag, and for a flag in the place of another one's value. An unknown flag may be
// meant as one of `other_flags`, which the program has read before.
absl::Status ParseProgramFlags(std::vector<std::string> args,
                               const std::vector<std::string>& other_flags = {});

// From now on a SIGTERM or a SIGINT asks `request`, which must live as long as the process. If
// `request` refuses, the process ends at once, with kTerminated. That needs a handler: the first
// process of a container does not hear a signal without one. Called once.
void EndOnTermination(EndRequest* request);

// The exit code of a program that was asked to end, after a SIGTERM as shells and Kubernetes know
// it.
inline constexpr int kTerminated = 128 + SIGTERM;

// The last call of a program: ends the process at once, with this code. Does not destroy the static
// objects of libraries, because gRPC's remaining threads may still use them.
[[noreturn]] void ExitProgram(int code);

// Ends the process: with 0 if `status` is OK. Otherwise prints "name: message" to standard error,
// as an object if logs are JSON, and ends with 2 for a wrong command line, else with 1.
[[noreturn]] void EndProgram(const std::string& name, const absl::Status& status,
                             bool is_usage_error = false);

// The same for a program that was asked to end: `status` says how it has ended, and the exit code
// is kTerminated.
[[noreturn]] void EndTerminatedProgram(const std::string& name, const absl::Status& status);

}  // namespace capstan

#endif  // COMMON_BASE_PROGRAM_H_
