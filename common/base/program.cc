#include "common/base/program.h"

#include <glog/logging.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/keep_freed_memory.h"

namespace capstan {

void InitProgram(const char* name, const std::string& usage) {
  KeepFreedMemory();
  // An Abseil that was built for debugging, as Debian's is, else looks for deadlocks at every lock
  // of gRPC. Tests have it look.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  google::InitGoogleLogging(name);
  FLAGS_logtostderr = true;
  absl::SetProgramUsageMessage(usage);
  absl::FlagsUsageConfig config;
  config.contains_help_flags = [](absl::string_view file) {
    return absl::EndsWith(file, "_main.cc");
  };
  absl::SetFlagsUsageConfig(config);
}

absl::Status ParseProgramFlags(std::vector<std::string> args) {
  std::vector<char*> pointers;
  for (std::string& arg : args) pointers.push_back(arg.data());
  const std::vector<char*> positional =
      absl::ParseCommandLine(static_cast<int>(pointers.size()), pointers.data());
  if (positional.size() <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("unexpected argument \"", positional[1], "\"; --help lists the flags"));
}

void ExitProgram(int code) {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}

void EndProgram(const std::string& name, const absl::Status& status, bool is_usage_error) {
  if (status.ok()) ExitProgram(0);
  std::cerr << name << ": " << status.message() << std::endl;
  ExitProgram(is_usage_error ? 2 : 1);
}

}  // namespace capstan
