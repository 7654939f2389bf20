#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/trace/merge_traces.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/text/number_text.h"
#include "deploy/launch/run_folder.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

// Those in the folder itself, without `output`.
std::vector<std::string> TracesIn(const fs::path& folder, const std::string& output) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (!absl::EndsWith(entry.path().filename().string(), kTraceEnding)) continue;
    // An older output may have this ending, too.
    if (!fs::equivalent(entry.path(), output, error)) paths.push_back(entry.path().string());
  }
  return paths;
}

// Those of the run, also of other machines: each has a folder in the folder of the run.
absl::StatusOr<std::vector<std::string>> TracesOf(const std::string& run_dir,
                                                  const std::string& output) {
  std::error_code error;
  std::vector<std::string> paths = TracesIn(run_dir, output);
  for (const fs::directory_entry& entry : fs::directory_iterator(run_dir, error)) {
    if (!entry.is_directory(error)) continue;
    for (std::string& path : TracesIn(entry.path(), output)) paths.push_back(std::move(path));
  }
  if (!fs::is_directory(run_dir, error)) {
    return absl::NotFoundError(
        absl::StrCat("expected the folder of a run, got ", run_dir, ": there is no such folder"));
  }
  if (paths.empty()) {
    return absl::NotFoundError(absl::StrCat("folder ", run_dir,
                                            " has no traces (*.trace.json); make them with capstan "
                                            "run --trace --run_dir=",
                                            run_dir));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string ProcessLine(const MergedProcess& process) {
  std::string line = absl::StrCat(
      PrintableText(process.name), ": ", CountText(process.events), " events, clock within ",
      absl::FormatDuration(absl::Ceil(process.clock_uncertainty, absl::Microseconds(1))));
  if (process.left_out > 0) {
    absl::StrAppend(&line, "; ", CountText(process.left_out),
                    " later events had no room: trace a shorter run");
  }
  if (!process.has_end) absl::StrAppend(&line, "; no end: the process was killed or still runs");
  return line;
}

}  // namespace

absl::Status TraceCommand(const std::string& run_dir, const std::string& output,
                          std::ostream& out) {
  const std::string path = output.empty() ? absl::StrCat(run_dir, "/", kMergedTraceFile) : output;
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, TracesOf(run_dir, path));
  ASSIGN_OR_RETURN(const MergedTrace merged, MergeTraces(paths, path));
  for (const MergedProcess& process : merged.processes) out << ProcessLine(process) << "\n";
  out << path << ": " << CountText(merged.events) << " events of " << merged.processes.size()
      << " processes, " << absl::StrFormat("%.3f", absl::ToDoubleSeconds(merged.duration))
      << " s; open it at https://ui.perfetto.dev or chrome://tracing" << std::endl;
  return absl::OkStatus();
}

}  // namespace capstan
