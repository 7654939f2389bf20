// capstan: runs a whole job on this machine, asks a running one for its status or changes its
// consistency, or checks, draws or merges what a job has recorded.
#include <unistd.h>

#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/printable_text.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/job/job_flags.h"
#include "deploy/cli/check_command.h"
#include "deploy/cli/cli_help.h"
#include "deploy/cli/command_line.h"
#include "deploy/cli/interrupt_signals.h"
#include "deploy/cli/program_path.h"
#include "deploy/cli/progress_display.h"
#include "deploy/cli/report_command.h"
#include "deploy/cli/run_command.h"
#include "deploy/cli/set_command.h"
#include "deploy/cli/status_command.h"
#include "deploy/cli/trace_command.h"
#include "worker/engine/device_name.h"

namespace capstan {
namespace {

using Args = std::vector<std::string>;

constexpr int kWrongCommandLine = 2;

int PrintHelp(const std::string& help) {
  std::cout << help << std::flush;
  return 0;
}

int Fail(absl::string_view command, const absl::Status& status, int exit_code) {
  std::cerr << command << ": " << PrintableLines(status.message()) << std::endl;
  return exit_code;
}

// The devices in a list with commas.
absl::StatusOr<Args> ReadDevices(const std::string& list) {
  Args devices = absl::StrSplit(list, ',');
  for (const std::string& device : devices) RETURN_IF_ERROR(ParseDeviceName(device).status());
  return devices;
}

int Run(const Args& args) {
  if (AsksForHelp(args)) return PrintHelp(RunHelp());
  // The job flags are checked now, and applied when the job file has been read.
  Args rest = args;
  v1::JobSpec unused;
  const absl::Status checked = ApplyJobFlags(&rest, &unused);
  if (!checked.ok()) return Fail("capstan run", checked, kWrongCommandLine);
  auto flags = ParseCommandFlags(rest, RunFlags());
  if (!flags.ok()) return Fail("capstan run", flags.status(), kWrongCommandLine);
  const absl::StatusOr<Args> devices =
      ReadDevices(flags->count("device") > 0 ? (*flags)["device"] : "cpu");
  if (!devices.ok()) return Fail("capstan run", devices.status(), kWrongCommandLine);
  const absl::StatusOr<std::string> own_path = OwnProgramPath();
  if (!own_path.ok()) return Fail("capstan run", own_path.status(), 1);

  InterruptSignals signals;
  RealClock clock;
  RunOptions options;
  options.job_file = (*flags)["job"];
  options.job_flags = args;
  options.devices = *devices;
  options.run_dir = (*flags)["run_dir"];
  options.summary_json = (*flags)["summary_json"];
  options.record_history = (*flags)["record_history"];
  options.has_trace = (*flags)["trace"] == "true";
  options.own_path = *own_path;
  options.take_interrupt = [&signals] { return signals.Take(); };
  options.terminal = [] { return GetTerminalSize(STDOUT_FILENO); };
  options.out = &std::cout;
  options.clock = &clock;
  const absl::Status result = RunCommand(options);
  if (result.ok()) return 0;
  return Fail("capstan run", result, absl::IsCancelled(result) ? 130 : 1);
}

int Status(const Args& args) {
  if (AsksForHelp(args)) return PrintHelp(StatusHelp());
  auto flags = ParseCommandFlags(args, StatusFlags());
  if (!flags.ok()) return Fail("capstan status", flags.status(), kWrongCommandLine);
  const std::string address = (*flags)["coordinator"];
  if (address.empty()) {
    return Fail("capstan status",
                absl::InvalidArgumentError("expected --coordinator=HOST:PORT, got none"),
                kWrongCommandLine);
  }
  RealClock clock;
  const absl::Status result = StatusCommand(address, &clock, std::cout);
  return result.ok() ? 0 : Fail("capstan status", result, 1);
}

int Set(const Args& args) {
  if (AsksForHelp(args)) return PrintHelp(SetHelp());
  auto flags = ParseCommandFlags(args, SetFlags());
  if (!flags.ok()) return Fail("capstan set", flags.status(), kWrongCommandLine);
  const std::string address = (*flags)["coordinator"];
  if (address.empty()) {
    return Fail("capstan set",
                absl::InvalidArgumentError("expected --coordinator=HOST:PORT, got none"),
                kWrongCommandLine);
  }
  const absl::StatusOr<v1::SetConsistencyRequest> request = ReadConsistencyChange(*flags);
  if (!request.ok()) return Fail("capstan set", request.status(), kWrongCommandLine);
  RealClock clock;
  const absl::Status result = SetCommand(address, *request, &clock, std::cout);
  return result.ok() ? 0 : Fail("capstan set", result, 1);
}

int Check(Args args) {
  if (AsksForHelp(args)) return PrintHelp(CheckHelp());
  const std::string history = args.empty() ? "" : args[0];
  if (history.empty() || history[0] == '-') {
    return Fail("capstan check",
                absl::InvalidArgumentError("expected HISTORY, a file or a folder, got " +
                                           (args.empty() ? "none" : "\"" + history + "\"")),
                kWrongCommandLine);
  }
  args.erase(args.begin());
  auto flags = ParseCommandFlags(args, CheckFlags());
  if (!flags.ok()) return Fail("capstan check", flags.status(), kWrongCommandLine);
  const auto clock_skew = ReadClockSkew((*flags)["clock_skew_ms"]);
  if (!clock_skew.ok()) return Fail("capstan check", clock_skew.status(), kWrongCommandLine);
  const absl::Status result = CheckCommand(history, *clock_skew, std::cout);
  return result.ok() ? 0 : Fail("capstan check", result, 1);
}

int Report(Args args) {
  if (AsksForHelp(args)) return PrintHelp(ReportHelp());
  const std::string run_dir = args.empty() ? "" : args[0];
  if (run_dir.empty() || run_dir[0] == '-') {
    return Fail("capstan report",
                absl::InvalidArgumentError("expected RUN_DIR, the folder of a run, got " +
                                           (args.empty() ? "none" : "\"" + run_dir + "\"")),
                kWrongCommandLine);
  }
  args.erase(args.begin());
  auto flags = ParseCommandFlags(args, ReportFlags());
  if (!flags.ok()) return Fail("capstan report", flags.status(), kWrongCommandLine);
  const absl::Status result = ReportCommand(run_dir, (*flags)["output"], std::cout);
  return result.ok() ? 0 : Fail("capstan report", result, 1);
}

int Trace(Args args) {
  if (AsksForHelp(args)) return PrintHelp(TraceHelp());
  const std::string run_dir = args.empty() ? "" : args[0];
  if (run_dir.empty() || run_dir[0] == '-') {
    return Fail("capstan trace",
                absl::InvalidArgumentError("expected RUN_DIR, the folder of a run, got " +
                                           (args.empty() ? "none" : "\"" + run_dir + "\"")),
                kWrongCommandLine);
  }
  args.erase(args.begin());
  auto flags = ParseCommandFlags(args, TraceFlags());
  if (!flags.ok()) return Fail("capstan trace", flags.status(), kWrongCommandLine);
  const absl::Status result = TraceCommand(run_dir, (*flags)["output"], std::cout);
  return result.ok() ? 0 : Fail("capstan trace", result, 1);
}

int Main(const Args& args) {
  const std::string command = args.empty() ? "help" : args[0];
  const Args rest(args.begin() + (args.empty() ? 0 : 1), args.end());
  if (command == "run") return Run(rest);
  if (command == "status") return Status(rest);
  if (command == "set") return Set(rest);
  if (command == "check") return Check(rest);
  if (command == "report") return Report(rest);
  if (command == "trace") return Trace(rest);
  if (command == "--version") {
    std::cout << "capstan " << kVersion << std::endl;
    return 0;
  }
  if (command == "help" || AsksForHelp({command})) {
    if (rest == Args{"run"}) return PrintHelp(RunHelp());
    if (rest == Args{"status"}) return PrintHelp(StatusHelp());
    if (rest == Args{"set"}) return PrintHelp(SetHelp());
    if (rest == Args{"check"}) return PrintHelp(CheckHelp());
    if (rest == Args{"report"}) return PrintHelp(ReportHelp());
    if (rest == Args{"trace"}) return PrintHelp(TraceHelp());
    return PrintHelp(CapstanHelp());
  }
  return Fail(
      "capstan",
      absl::InvalidArgumentError("unknown command \"" + command +
                                 "\"; expected run, status, set, check, report, trace or help"),
      kWrongCommandLine);
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::ExitProgram(capstan::Main(std::vector<std::string>(argv + 1, argv + argc)));
}
