#include "common/base/program.h"

#include <glog/logging.h>
#include <malloc.h>
#include <semaphore.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <system_error>
#include <thread>

#include "absl/debugging/stacktrace.h"
#include "absl/debugging/symbolize.h"
#include "absl/flags/commandlineflag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "common/base/flag_file.h"
#include "common/base/flag_help.h"
#include "common/base/log_format.h"
#include "common/base/nearest_name.h"
#include "common/base/printable_text.h"
#include "common/base/process_limits.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

// gRPC receives into blocks of at most 4 MiB.
constexpr int kLargestBlockBytes = 8 << 20;
constexpr int kKeptBytes = 256 << 20;

// What the exception in flight says, if there is one.
std::string ExceptionText() {
  const std::exception_ptr exception = std::current_exception();
  if (exception == nullptr) return "without an exception";
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

// The handler of std::terminate: one line in the log says where the program was.
[[noreturn]] void LogTermination() {
  void* frames[24];
  const int count = absl::GetStackTrace(frames, std::size(frames), /*skip_count=*/1);
  std::string where;
  for (int i = 0; i < count; ++i) {
    char name[160];
    const bool is_known = absl::Symbolize(frames[i], name, sizeof(name));
    absl::StrAppend(&where, i == 0 ? "" : " < ",
                    is_known ? std::string(name) : absl::StrCat("0x", absl::Hex(frames[i])));
  }
  LOG(ERROR) << "a fault of the program has ended it (std::terminate, " << ExceptionText()
             << "); please report it with this: " << where;
  std::abort();
}

// An argument that is a flag.
struct FlagText {
  std::string name;
  std::optional<std::string> value;  // behind a "="
};

std::optional<FlagText> ParseFlagText(absl::string_view arg) {
  if (!absl::ConsumePrefix(&arg, "--") && !absl::ConsumePrefix(&arg, "-")) return std::nullopt;
  const size_t equals = arg.find('=');
  if (equals == arg.npos) return FlagText{std::string(arg), std::nullopt};
  return FlagText{std::string(arg.substr(0, equals)), std::string(arg.substr(equals + 1))};
}

bool IsBool(const absl::CommandLineFlag* flag) { return flag != nullptr && flag->IsOfType<bool>(); }

// --noNAME of a flag that is true or false.
bool IsNegation(absl::string_view name) {
  return absl::ConsumePrefix(&name, "no") && IsBool(absl::FindCommandLineFlag(name));
}

// Abseil knows these without a flag of that name.
bool IsHelpOrVersion(absl::string_view name) {
  return absl::StartsWith(name, "help") || name == "version";
}

// The program's own flags, without those of libraries.
std::vector<std::string> OwnFlags() {
  std::vector<std::string> names;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (absl::EndsWith(flag->Filename(), "_main.cc")) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// `next` is the next argument; null: there is none. Sets `takes_next` if that is the flag's value.
absl::Status CheckFlag(const FlagText& text, const std::string* next,
                       const std::vector<std::string>& other_flags, bool* takes_next) {
  absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(text.name);
  *takes_next = false;
  if (flag == nullptr) {
    const bool is_negation = !text.value.has_value() && IsNegation(text.name);
    if (is_negation || IsHelpOrVersion(text.name)) return absl::OkStatus();
    std::vector<std::string> names = OwnFlags();
    names.insert(names.end(), other_flags.begin(), other_flags.end());
    return absl::InvalidArgumentError(absl::StrCat("unknown flag --", text.name,
                                                   DidYouMean(text.name, names, "--"),
                                                   "; --help lists the flags"));
  }
  if (!text.value.has_value() && IsBool(flag)) return absl::OkStatus();
  *takes_next = !text.value.has_value();
  if (*takes_next && (next == nullptr || absl::StartsWith(*next, "--"))) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", text.name, ": expected a value, got ",
                     next == nullptr ? "none" : absl::StrCat("the flag ", *next), "; write --",
                     text.name, "=VALUE"));
  }
  const std::string& value = *takes_next ? *next : *text.value;
  std::string unused;
  if (flag->ParseFrom(value, &unused)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", text.name, ": expected what --help says, got \"", value, "\""));
}

// Abseil itself ends a program with a wrong flag, with another exit code.
absl::Status CheckFlags(const std::vector<std::string>& args,
                        const std::vector<std::string>& other_flags) {
  for (size_t i = 1; i < args.size(); ++i) {
    const std::optional<FlagText> text = ParseFlagText(args[i]);
    if (!text.has_value()) continue;
    bool takes_next = false;
    const std::string* const next = i + 1 < args.size() ? &args[i + 1] : nullptr;
    RETURN_IF_ERROR(CheckFlag(*text, next, other_flags, &takes_next));
    if (takes_next) ++i;
  }
  return absl::OkStatus();
}

// Counts SIGTERMs. A signal handler reaches nothing but such a variable.
sem_t terminations;

// Prints "name: message", as an object if logs are JSON.
void LogEnd(const std::string& name, const absl::Status& status) {
  if (LogsAreJson()) {
    const LogDetails details{std::string(status.message())};
    LOG(ERROR) << name << ": " << status.message();
  } else {
    std::cerr << name << ": " << PrintableLines(status.message()) << std::endl;
  }
}

}  // namespace

void KeepFreedMemory() {
  // Other mallocs, such as a sanitizer's, ignore both.
  (void)mallopt(M_MMAP_THRESHOLD, kLargestBlockBytes);
  (void)mallopt(M_TRIM_THRESHOLD, kKeptBytes);
}

void InitProgram(const char* name, const std::string& usage) {
  absl::InitializeSymbolizer(name);
  std::set_terminate(&LogTermination);
  KeepFreedMemory();
  RaiseOpenFiles();
  std::signal(SIGXFSZ, SIG_IGN);  // A file beyond the limit is an error of its writer.
  // Debian's Abseil is a debugging build: by default it looks for deadlocks at every lock of gRPC.
  // Only tests let it do so.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  google::InitGoogleLogging(name);
  FLAGS_logtostderr = true;
  absl::SetProgramUsageMessage(usage);
  absl::FlagsUsageConfig config;
  config.contains_help_flags = [](absl::string_view file) {
    return absl::EndsWith(file, "_main.cc");
  };
  config.version_string = [program = std::filesystem::path(name).filename().string()] {
    return absl::StrCat(program, " ", kVersion, "\n");
  };
  absl::SetFlagsUsageConfig(config);
}

absl::Status BeginRole(absl::string_view role, const std::string& help,
                       std::vector<std::string>* args) {
  absl::Status expanded = ExpandFlagFiles(args);
  BeginLogs(role, *args);
  if (!AsksForHelp(*args)) return expanded;
  std::cout << help;
  ExitProgram(0);
}

std::string HostAndNetwork() {
  // The kernel draws this number when it starts.
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code error;
  const std::filesystem::path network = std::filesystem::read_symlink("/proc/self/ns/net", error);
  return absl::StrCat(boot, " ", network.string());
}

absl::Status ParseProgramFlags(std::vector<std::string> args,
                               const std::vector<std::string>& other_flags) {
  RETURN_IF_ERROR(ExpandFlagFiles(&args));
  RETURN_IF_ERROR(CheckFlags(args, other_flags));
  std::vector<char*> pointers;
  for (std::string& arg : args) pointers.push_back(arg.data());
  const std::vector<char*> positional =
      absl::ParseCommandLine(static_cast<int>(pointers.size()), pointers.data());
  if (positional.size() <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("unexpected argument \"", positional[1], "\"; --help lists the flags"));
}

void EndOnTermination(EndRequest* request) {
  CHECK_EQ(sem_init(&terminations, /*pshared=*/0, /*value=*/0), 0);
  // Not blocked and waited for: OpenBLAS starts threads before main, and one would take the signal.
  struct sigaction action = {};
  action.sa_handler = [](int) { sem_post(&terminations); };
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM}) CHECK_EQ(sigaction(signal, &action, nullptr), 0);
  // Detached: it lives as long as the process.
  std::thread([request] {
    do {
      while (sem_wait(&terminations) != 0) continue;  // EINTR
    } while (request->Ask());
    ExitProgram(kTerminated);
  }).detach();
}

void ExitProgram(int code) {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  std::_Exit(code);
}

void EndProgram(const std::string& name, const absl::Status& status, bool is_usage_error) {
  if (status.ok()) ExitProgram(0);
  LogEnd(name, status);
  ExitProgram(is_usage_error ? 2 : 1);
}

void EndTerminatedProgram(const std::string& name, const absl::Status& status) {
  LogEnd(name, status);
  ExitProgram(kTerminated);
}

}  // namespace capstan
