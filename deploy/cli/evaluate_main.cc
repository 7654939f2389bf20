// capstan_evaluate: tests a model in a file. `capstan evaluate` becomes this program.
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/flag_file.h"
#include "common/base/flag_help.h"
#include "common/base/program.h"
#include "common/job/job_flags.h"
#include "deploy/cli/cli_help.h"
#include "deploy/cli/command_flags.h"
#include "deploy/cli/command_line.h"
#include "deploy/cli/evaluate_command.h"
#include "proto/job.pb.h"

namespace capstan {
namespace {

constexpr char kName[] = "capstan evaluate";

int Main(std::vector<std::string> args) {
  const absl::Status expanded = ExpandFlagFiles(&args);
  if (AsksForHelp(args)) {
    std::cout << EvaluateHelp() << std::flush;
    return 0;
  }
  if (args == std::vector<std::string>{"--version"}) {
    std::cout << "capstan_evaluate " << kVersion << std::endl;
    return 0;
  }
  if (!expanded.ok()) return Fail(kName, expanded, kWrongCommandLine);
  const auto model = TakeArgument("FILE, a model", args);
  if (!model.ok()) return Fail(kName, model.status(), kWrongCommandLine);
  // The job flags are checked now, and applied when the job file has been read.
  std::vector<std::string> rest = args;
  v1::JobSpec unused;
  const absl::Status checked = ApplyJobFlags(&rest, &unused);
  if (!checked.ok()) return Fail(kName, checked, kWrongCommandLine);
  auto flags = ParseCommandFlags(rest, EvaluateFlags(), /*takes_job_flags=*/true);
  if (!flags.ok()) return Fail(kName, flags.status(), kWrongCommandLine);
  const absl::Status job = EffectiveJob((*flags)["job"], args).status();
  if (absl::IsInvalidArgument(job)) return Fail(kName, job, kWrongCommandLine);
  const absl::Status result = EvaluateCommand(*model, (*flags)["job"], args, std::cout);
  return result.ok() ? 0 : Fail(kName, result, /*exit_code=*/1);
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  return capstan::Main(std::vector<std::string>(argv + 1, argv + argc));
}
