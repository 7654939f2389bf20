#include "deploy/cli/report/run_report.h"

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/input_file.h"
#include "common/base/json_fields.h"
#include "common/base/status_macros.h"
#include "deploy/cli/report/progress_log.h"
#include "deploy/cli/report/run_charts.h"
#include "deploy/cli/text/number_text.h"
#include "deploy/cli/text/summary.h"
#include "deploy/launch/run_folder.h"

namespace capstan {
namespace {

using ::nlohmann::json;

// Bounds of a run's progress and of its summary.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

void AddText(const json& summary, const char* key, const char* what, ChartPageContent* content) {
  if (!summary.contains(key)) return;
  const json& value = summary[key];
  content->facts.emplace_back(what, value.is_string() ? value.get<std::string>() : value.dump());
}

void AddNumber(const json& summary, const char* key, const char* what,
               const absl::FormatSpec<double>& format, double factor, ChartPageContent* content) {
  if (!summary.contains(key) || !summary[key].is_number()) return;
  content->facts.emplace_back(what, absl::StrFormat(format, factor * summary[key].get<double>()));
}

// Adds the figures of the coordinator's summary. A job that was killed has none.
void AddFacts(const json& summary, ChartPageContent* content) {
  if (summary.contains("reason")) {
    AddText(summary, "outcome", "outcome", content);
    AddText(summary, "reason", "reason", content);
  }
  if (const std::string consistency = SummaryConsistencyText(summary); !consistency.empty()) {
    content->facts.emplace_back("consistency", consistency);
  } else {
    AddText(summary, "consistency", "consistency", content);
  }
  AddText(summary, "model", "model", content);
  AddText(summary, "workers", "workers", content);
  AddText(summary, "servers", "servers", content);
  AddNumber(summary, "test_accuracy", "test accuracy", "%.2f %%", 100, content);
  AddNumber(summary, "test_loss", "test loss", "%.4f", 1, content);
  AddNumber(summary, "test_auc", "test AUC", "%.4f", 1, content);
  AddNumber(summary, "best_auc", "best possible AUC", "%.4f", 1, content);
  AddNumber(summary, "nonzero_weights", "weights not 0", "%.2f %%", 100, content);
  AddNumber(summary, "seconds", "training", "%.2f s", 1, content);
  if (summary.contains("samples_per_s") && summary["samples_per_s"].is_number()) {
    const double speed = summary["samples_per_s"].get<double>();
    content->facts.emplace_back("speed", absl::StrCat(RoundedCountText(speed), " samples/s"));
  }
  AddText(summary, "transport", "transport", content);
  AddText(summary, "max_staleness_seen", "largest staleness", content);
  if (const std::string links = SummaryLinkText(summary); !links.empty()) {
    content->facts.emplace_back("links", links);
  }
  if (const std::string tuning = SummaryTuningText(summary); !tuning.empty()) {
    content->facts.emplace_back("tuned", tuning);
  }
  for (auto& row : SummaryCodecRows(summary)) content->facts.push_back(std::move(row));
  AddText(summary, "workers_lost", "workers lost", content);
  AddText(summary, "workers_replaced", "workers replaced", content);
}

}  // namespace

absl::StatusOr<ChartPageContent> RunReport(const std::string& run_dir) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(run_dir, ignored)) {
    return absl::NotFoundError(
        absl::StrCat("expected the folder of a run, but there is no folder ", run_dir,
                     "; capstan run prints its name, and --run_dir sets it"));
  }
  const std::string path = absl::StrCat(run_dir, "/", kProgressFile);
  const absl::StatusOr<std::string> progress = ReadInputText(path, kMostBytes);
  if (!progress.ok()) {
    return absl::NotFoundError(absl::StrCat("expected a job's progress in ", path, ", got \"",
                                            progress.status().message(), "\"; is ", run_dir,
                                            " the folder of a capstan run?"));
  }
  absl::StatusOr<std::vector<RunSample>> samples = ParseRunCourse(*progress);
  RETURN_IF_ERROR(Annotate(samples.status(), path));
  ChartPageContent content;
  content.charts = RunCharts(*samples);
  if (content.charts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": expected at least one step of a worker, got none: the job ended "
                     "before its first one; see the logs beside it"));
  }
  const json summary =
      ParseJson(ReadInputText(absl::StrCat(run_dir, "/", kSummaryFile), kMostBytes).value_or(""));
  content.title = "Capstan run";
  if (summary.is_object()) {
    if (summary.contains("job") && summary["job"].is_string()) {
      content.title = absl::StrCat("Capstan run: ", summary["job"].get<std::string>());
    }
    AddFacts(summary, &content);
    if (summary.contains("warning") && summary["warning"].is_string()) {
      content.warning = absl::StrCat("Warning: ", summary["warning"].get<std::string>());
    }
  } else {
    content.facts.emplace_back("outcome", "not done");
  }
  content.subtitle =
      absl::StrCat(run_dir, ". One point for each report of a worker (--heartbeat_seconds).");
  return content;
}

absl::Status ReportCommand(const std::string& run_dir, const std::string& output,
                           std::ostream& out) {
  ASSIGN_OR_RETURN(const ChartPageContent content, RunReport(run_dir));
  const std::string path = output.empty() ? absl::StrCat(run_dir, "/", kReportFile) : output;
  std::ofstream file(path, std::ios::trunc);
  file << ChartPage(content);
  file.close();
  if (file.fail()) {
    return absl::UnavailableError(absl::StrCat("expected to write the page to ", path,
                                               ", but cannot; choose another --output"));
  }
  out << path << ": " << content.charts.size() << " charts; open it in a browser" << std::endl;
  return absl::OkStatus();
}

}  // namespace capstan
