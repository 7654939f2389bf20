// capstan: the command line. Runs a job on this machine, talks to a running job, or reads what a
// job has recorded.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/flag_file.h"
#include "common/base/flag_help.h"
#include "common/base/host_port.h"
#include "common/base/nearest_name.h"
#include "common/base/printable_text.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/job/job_flags.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/transport/grpc/grpc_setup.h"
#include "deploy/cli/cli_help.h"
#include "deploy/cli/command_flags.h"
#include "deploy/cli/command_line.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/help_topics.h"
#include "deploy/cli/keys/keys_command.h"
#include "deploy/cli/keys/keys_request.h"
#include "deploy/cli/read_run_options.h"
#include "deploy/cli/report/run_report.h"
#include "deploy/launch/local_job.h"
#include "deploy/launch/rendezvous.h"
#include "deploy/launch/terminal.h"

namespace capstan {
namespace {

using Args = std::vector<std::string>;
using Flags = std::map<std::string, std::string>;

constexpr int kFailure = 1;
constexpr int kInterrupted = 130;

int PrintHelp(const std::string& help) {
  std::cout << help << std::flush;
  return 0;
}

// Prints the error of `command`, if there is one, and returns the exit code.
int ExitCode(absl::string_view command, const absl::Status& result) {
  return result.ok() ? 0 : Fail(command, result, kFailure);
}

// The same for a command whose INVALID_ARGUMENT says what is wrong in the command line or in the
// job.
int ExitCodeOfJob(absl::string_view command, const absl::Status& result) {
  if (result.ok()) return 0;
  return Fail(command, result, absl::IsInvalidArgument(result) ? kWrongCommandLine : kFailure);
}

// Checks the addresses in --coordinator, if it is given.
absl::Status CheckCoordinator(const Flags& flags) {
  const auto found = flags.find("coordinator");
  if (found == flags.end() || found->second.empty()) return absl::OkStatus();
  return ParseAddresses("--coordinator", found->second).status();
}

// Reads `flags`, with --coordinator among them.
absl::StatusOr<Flags> ParseFlagsWithCoordinator(Args args, absl::Span<const CommandFlag> flags) {
  RETURN_IF_ERROR(NameCoordinator(args));
  ASSIGN_OR_RETURN(Flags values, ParseCommandFlags(args, flags));
  if (values["coordinator"].empty()) {
    return absl::InvalidArgumentError("expected RUN_DIR or --coordinator=HOST:PORT, got none");
  }
  RETURN_IF_ERROR(CheckCoordinator(values));
  return values;
}

// The security in --keys and --insecure. `clock` outlives it.
absl::StatusOr<SecurityPointer> OpenSecurity(Flags flags, Clock& clock) {
  return GrpcSecurity::Open({flags["keys"], flags["insecure"] == "true", &clock});
}

int Run(Args args) {
  const absl::StatusOr<std::string> own_path = OwnProgramPath();
  if (!own_path.ok()) return Fail("capstan run", own_path.status(), kFailure);
  absl::StatusOr<RunLine> line = ReadRunOptions(args, *own_path);
  if (!line.ok()) return Fail("capstan run", line.status(), kWrongCommandLine);

  // Who reads the output may end before the job: `| tee` ends at Ctrl-C.
  signal(SIGPIPE, SIG_IGN);
  InterruptSignals signals;
  RealClock clock;
  InputEnd input(line->ends_with_stdin ? STDIN_FILENO : InputEnd::kNone, &clock);
  RunOptions& options = line->options;
  options.take_interrupt = [&] { return signals.Take() || input.Take(); };
  options.terminal = [] { return GetTerminalSize(STDOUT_FILENO); };
  options.out = &std::cout;
  options.clock = &clock;
  const absl::Status result = RunCommand(options);
  if (absl::IsCancelled(result)) return Fail("capstan run", result, kInterrupted);
  return ExitCodeOfJob("capstan run", result);
}

int Address(Args args) {
  auto flags = ParseCommandFlags(args, AddressFlags());
  if (!flags.ok()) return Fail("capstan address", flags.status(), kWrongCommandLine);
  const absl::StatusOr<std::string> address = NodeAddress((*flags)["network"], (*flags)["towards"]);
  if (address.ok()) std::cout << *address << std::endl;
  return ExitCode("capstan address", address.status());
}

int Job(Args args) {
  Args rest = args;
  v1::JobSpec unused;
  const absl::Status checked = ApplyJobFlags(&rest, &unused);
  if (!checked.ok()) return Fail("capstan job", checked, kWrongCommandLine);
  auto flags = ParseCommandFlags(rest, JobCommandFlags(), /*takes_job_flags=*/true);
  if (!flags.ok()) return Fail("capstan job", flags.status(), kWrongCommandLine);
  return ExitCodeOfJob("capstan job", JobCommand((*flags)["job"], args, std::cout));
}

int Status(Args args) {
  auto flags = ParseFlagsWithCoordinator(args, StatusFlags());
  if (!flags.ok()) return Fail("capstan status", flags.status(), kWrongCommandLine);
  RealClock clock;
  const auto security = OpenSecurity(*flags, clock);
  if (!security.ok()) return Fail("capstan status", security.status(), kFailure);
  return ExitCode("capstan status",
                  StatusCommand((*flags)["coordinator"], *security, &clock, std::cout));
}

int Top(Args args) {
  auto flags = ParseFlagsWithCoordinator(args, TopFlags());
  if (!flags.ok()) return Fail("capstan top", flags.status(), kWrongCommandLine);
  // Before the security's threads, which inherit the blocked signals.
  InterruptSignals signals;
  RealClock clock;
  const auto security = OpenSecurity(*flags, clock);
  if (!security.ok()) return Fail("capstan top", security.status(), kFailure);
  TerminalKeys keys(STDIN_FILENO);
  TopOptions options;
  options.address = (*flags)["coordinator"];
  options.security = *security;
  options.take_interrupt = [&signals] { return signals.Take(); };
  options.take_key = [&keys] { return keys.Take(); };
  options.terminal = [] { return GetTerminalSize(STDOUT_FILENO); };
  options.out = &std::cout;
  options.clock = &clock;
  return ExitCode("capstan top", TopCommand(options));
}

int Set(Args args) {
  auto flags = ParseFlagsWithCoordinator(args, SetFlags());
  if (!flags.ok()) return Fail("capstan set", flags.status(), kWrongCommandLine);
  const auto request = ReadConsistencyChange(*flags);
  if (!request.ok()) return Fail("capstan set", request.status(), kWrongCommandLine);
  RealClock clock;
  const auto security = OpenSecurity(*flags, clock);
  if (!security.ok()) return Fail("capstan set", security.status(), kFailure);
  return ExitCode("capstan set",
                  SetCommand((*flags)["coordinator"], *request, *security, &clock, std::cout));
}

int Check(Args args) {
  const auto history = TakeArgument("HISTORY, a file or a folder", args);
  if (!history.ok()) return Fail("capstan check", history.status(), kWrongCommandLine);
  auto flags = ParseCommandFlags(args, CheckFlags());
  if (!flags.ok()) return Fail("capstan check", flags.status(), kWrongCommandLine);
  const auto clock_skew = ReadClockSkew((*flags)["clock_skew_ms"]);
  if (!clock_skew.ok()) return Fail("capstan check", clock_skew.status(), kWrongCommandLine);
  return ExitCode("capstan check", CheckCommand(*history, *clock_skew, std::cout));
}

int Checkpoint(Args args) {
  const absl::Status named = NameCoordinator(args);
  if (!named.ok()) return Fail("capstan checkpoint", named, kWrongCommandLine);
  auto flags = ParseCommandFlags(args, CheckpointFlags());
  if (!flags.ok()) return Fail("capstan checkpoint", flags.status(), kWrongCommandLine);
  const absl::Status coordinator = CheckCoordinator(*flags);
  if (!coordinator.ok()) return Fail("capstan checkpoint", coordinator, kWrongCommandLine);
  RealClock clock;
  const auto security = OpenSecurity(*flags, clock);
  if (!security.ok()) return Fail("capstan checkpoint", security.status(), kFailure);
  for (const char* const name : {"keys", "insecure"}) flags->erase(name);
  if (flags->size() != 1 || flags->begin()->second.empty()) {
    return Fail(
        "capstan checkpoint",
        absl::InvalidArgumentError(absl::StrCat(
            "expected one of RUN_DIR, --coordinator=HOST:PORT, --list=DIR and --verify=DIR, got ",
            flags->size() > 1 ? "several" : "none")),
        kWrongCommandLine);
  }
  const auto& [flag, value] = *flags->begin();
  return ExitCode("capstan checkpoint",
                  flag == "list"     ? ListCheckpointsCommand(value, std::cout)
                  : flag == "verify" ? VerifyCheckpointsCommand(value, std::cout)
                                     : WriteCheckpointCommand(value, *security, &clock, std::cout));
}

int Export(Args args) {
  auto flags = ParseCommandFlags(args, ExportFlags());
  if (!flags.ok()) return Fail("capstan export", flags.status(), kWrongCommandLine);
  const std::string& checkpoint = (*flags)["checkpoint"];
  const std::string& output = (*flags)["output"];
  if (checkpoint.empty() || output.empty()) {
    return Fail("capstan export",
                absl::InvalidArgumentError(
                    absl::StrCat("expected --checkpoint=DIR and --output=FILE, got none for --",
                                 checkpoint.empty() ? "checkpoint" : "output")),
                kWrongCommandLine);
  }
  const bool with_state = (*flags)["optimizer_state"] == "true";
  return ExitCode("capstan export", ExportCommand(checkpoint, output, with_state, std::cout));
}

int Get(Args args) {
  const absl::Status named = NameCoordinator(args);
  if (!named.ok()) return Fail("capstan get", named, kWrongCommandLine);
  auto flags = ParseCommandFlags(args, GetFlags());
  if (!flags.ok()) return Fail("capstan get", flags.status(), kWrongCommandLine);
  const auto refuse = [](absl::string_view text) {
    return Fail("capstan get", absl::InvalidArgumentError(text), kWrongCommandLine);
  };
  GetOptions options;
  options.coordinator = (*flags)["coordinator"];
  options.checkpoint = (*flags)["checkpoint"];
  options.table = (*flags)["table"];
  if (options.coordinator.empty() == options.checkpoint.empty()) {
    return refuse("expected one of RUN_DIR, --coordinator=HOST:PORT and --checkpoint=DIR");
  }
  const absl::Status coordinator = CheckCoordinator(*flags);
  if (!coordinator.ok()) return Fail("capstan get", coordinator, kWrongCommandLine);
  if (options.table.empty()) return refuse("expected --table=NAME, got none");
  auto keys = ReadRowKeys((*flags)["row_keys"]);
  if (!keys.ok()) return Fail("capstan get", keys.status(), kWrongCommandLine);
  options.keys = *std::move(keys);
  RealClock clock;
  const auto security = OpenSecurity(*flags, clock);
  if (!security.ok()) return Fail("capstan get", security.status(), kFailure);
  options.security = *security;
  options.clock = &clock;
  return ExitCode("capstan get", GetCommand(options, std::cout));
}

// Goes on as another program, which links OpenBLAS: no other command needs its memory and threads.
int EvaluateModel(Args args) {
  const absl::StatusOr<std::string> own_path = OwnProgramPath();
  if (!own_path.ok()) return Fail("capstan evaluate", own_path.status(), kFailure);
  const auto program = FindProgram(*own_path, "deploy/cli/capstan_evaluate");
  if (!program.ok()) return Fail("capstan evaluate", program.status(), kFailure);
  args.insert(args.begin(), *program);
  std::vector<char*> words;
  for (std::string& arg : args) words.push_back(arg.data());
  words.push_back(nullptr);
  execv(words[0], words.data());
  return Fail("capstan evaluate",
              absl::ErrnoToStatus(errno, absl::StrCat("cannot start ", *program)), kFailure);
}

int Keys(Args args) {
  const auto flags = ParseCommandFlags(args, KeysFlags());
  if (!flags.ok()) return Fail("capstan keys", flags.status(), kWrongCommandLine);
  const absl::StatusOr<KeysRequest> request = ReadKeysRequest(*flags);
  if (!request.ok()) return Fail("capstan keys", request.status(), kWrongCommandLine);
  return ExitCode("capstan keys", KeysCommand(*request, RealClock().Now(), std::cout));
}

int Report(Args args) {
  const auto run_dir = TakeArgument("RUN_DIR, the folder of a run", args);
  if (!run_dir.ok()) return Fail("capstan report", run_dir.status(), kWrongCommandLine);
  auto flags = ParseCommandFlags(args, ReportFlags());
  if (!flags.ok()) return Fail("capstan report", flags.status(), kWrongCommandLine);
  return ExitCode("capstan report", ReportCommand(*run_dir, (*flags)["output"], std::cout));
}

int Trace(Args args) {
  const auto run_dir = TakeArgument("RUN_DIR, the folder of a run", args);
  if (!run_dir.ok()) return Fail("capstan trace", run_dir.status(), kWrongCommandLine);
  auto flags = ParseCommandFlags(args, TraceFlags());
  if (!flags.ok()) return Fail("capstan trace", flags.status(), kWrongCommandLine);
  return ExitCode("capstan trace", TraceCommand(*run_dir, (*flags)["output"], std::cout));
}

struct Command {
  absl::string_view name;
  std::string (*help)();
  int (*run)(Args args);
};

constexpr Command kCommands[] = {{"run", RunHelp, Run},
                                 {"status", StatusHelp, Status},
                                 {"top", TopHelp, Top},
                                 {"set", SetHelp, Set},
                                 {"check", CheckHelp, Check},
                                 {"checkpoint", CheckpointHelp, Checkpoint},
                                 {"export", ExportHelp, Export},
                                 {"get", GetHelp, Get},
                                 {"evaluate", EvaluateHelp, EvaluateModel},
                                 {"job", JobHelp, Job},
                                 {"keys", KeysHelp, Keys},
                                 {"report", ReportHelp, Report},
                                 {"trace", TraceHelp, Trace},
                                 {"address", AddressHelp, Address}};

// Null when there is none.
const Command* FindCommand(absl::string_view name) {
  const Command* const found =
      std::find_if(std::begin(kCommands), std::end(kCommands),
                   [name](const Command& command) { return command.name == name; });
  return found == std::end(kCommands) ? nullptr : found;
}

// "a, b, c" for what has names.
template <typename Named>
std::string Names(const Named& all) {
  return absl::StrJoin(all, ", ",
                       [](std::string* out, const auto& one) { absl::StrAppend(out, one.name); });
}

std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  return names;
}

// Prints the overview, or what there is on the one word in `words`: a command, a topic or both.
int Help(const Args& words) {
  if (words.empty()) return PrintHelp(CapstanHelp());
  std::string help;
  for (const HelpTopic& topic : HelpTopics()) {
    if (topic.name != words[0]) continue;
    absl::StrAppend(&help, topic.text, topic.rest == nullptr ? "" : topic.rest());
  }
  if (const Command* const command = FindCommand(words[0]); command != nullptr) {
    absl::StrAppend(&help, help.empty() ? "" : "\n", command->help());
  }
  if (words.size() == 1 && !help.empty()) return PrintHelp(help);
  return Fail("capstan help",
              absl::InvalidArgumentError(
                  absl::StrCat("expected one command (", Names(kCommands), ") or one topic (",
                               Names(HelpTopics()), "), got \"", absl::StrJoin(words, " "), "\"")),
              kWrongCommandLine);
}

int RunWithFlagFiles(const Command& command, Args args) {
  const absl::Status expanded = ExpandFlagFiles(&args);
  if (AsksForHelp(args)) return PrintHelp(command.help());
  if (expanded.ok()) return command.run(std::move(args));
  return Fail(absl::StrCat("capstan ", command.name), expanded, kWrongCommandLine);
}

int Main(const Args& args) {
  const std::string name = args.empty() ? "help" : args[0];
  const Args rest(args.begin() + (args.empty() ? 0 : 1), args.end());
  if (const Command* const command = FindCommand(name); command != nullptr) {
    return RunWithFlagFiles(*command, rest);
  }
  if (name == "--version") {
    std::cout << "capstan " << kVersion << std::endl;
    return 0;
  }
  if (name == "help" || AsksForHelp({name})) return Help(rest);
  return Fail("capstan",
              absl::InvalidArgumentError(absl::StrCat("unknown command \"", name, "\"",
                                                      DidYouMean(name, CommandNames()),
                                                      "; expected ", Names(kCommands), " or help")),
              kWrongCommandLine);
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::SendGrpcLogsToVlog();
  capstan::ExitProgram(capstan::Main(std::vector<std::string>(argv + 1, argv + argc)));
}
