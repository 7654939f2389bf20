// straggler_study: each consistency mode with workers of different speeds. It trains in this
// process. The workers' compute time is padded: many workers fit on few cores.
#include <glog/logging.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "deploy/cli/report/chart_page.h"
#include "kernels/gemm.h"
#include "tests/benchmark/straggler/straggler_charts.h"
#include "tests/benchmark/straggler/straggler_run.h"

ABSL_FLAG(std::vector<std::string>, patterns,
          std::vector<std::string>({"none", "one_slow", "random_slow", "pauses"}),
          "patterns of slow workers");
ABSL_FLAG(std::vector<std::string>, modes,
          std::vector<std::string>({"bsp", "ssp1", "ssp2", "ssp4", "ssp8", "ssp16", "async"}),
          "consistency modes; ssp with its staleness, as in ssp8");
ABSL_FLAG(int, workers, 8, "workers of a training");
ABSL_FLAG(int, steps, 400, "steps of each worker");
ABSL_FLAG(int, batch, 8, "samples of a worker's step");
ABSL_FLAG(absl::Duration, compute, absl::Milliseconds(15), "time of an ordinary step");
ABSL_FLAG(absl::Duration, pause, absl::Seconds(2), "length of a pause");
ABSL_FLAG(double, learning_rate, 0.5,
          "of plain SGD under BSP; SSP and async have it divided by the number of workers");
ABSL_FLAG(double, target_loss, 0.1, "mean loss of the latest 25 batches of each worker");
ABSL_FLAG(uint64_t, seed, 1, "of the first job and of the slow steps");
ABSL_FLAG(int, repeat, 5, "trainings of each mode, with seeds from --seed on; medians are printed");
ABSL_FLAG(bool, json, false, "print one JSON object as the last line");
ABSL_FLAG(std::string, html, "", "file for a page of charts; empty: none");

namespace capstan {
namespace {

std::string OrNone(const std::optional<double>& number, const char* unit) {
  return number.has_value() ? absl::StrFormat("%.1f%s", *number, unit) : "not reached";
}

void PrintHeader(const char* pattern) {
  std::cout << "\n"
            << pattern << "\n"
            << absl::StrFormat("%-12s %8s %7s %16s %12s %12s %10s\n", "mode", "steps/s", "idle",
                               "staleness, max", "to target", "steps to it", "accuracy");
}

void Print(const StudyRun& run) {
  const StragglerRunResult& result = run.result;
  std::cout << absl::StrFormat("%-12s %8.0f %5.1f %% %9.2f, %5d %12s %12s %8.2f %%\n", run.mode,
                               result.steps_per_second, 100 * result.idle_share,
                               result.mean_staleness, result.max_staleness,
                               OrNone(result.seconds_to_target, " s"),
                               OrNone(result.steps_to_target, ""), 100 * result.accuracy)
            << std::flush;
}

nlohmann::ordered_json Json(const StudyRun& run) {
  const StragglerRunResult& result = run.result;
  nlohmann::ordered_json json;
  json["pattern"] = KindName(run.pattern);
  json["mode"] = run.mode;
  json["steps_per_second"] = result.steps_per_second;
  json["idle_share"] = result.idle_share;
  json["mean_staleness"] = result.mean_staleness;
  json["max_staleness"] = result.max_staleness;
  json["seconds_to_target"] = nullptr;
  json["steps_to_target"] = nullptr;
  if (result.seconds_to_target.has_value()) json["seconds_to_target"] = *result.seconds_to_target;
  if (result.steps_to_target.has_value()) json["steps_to_target"] = *result.steps_to_target;
  json["accuracy"] = result.accuracy;
  json["seconds"] = result.seconds;
  return json;
}

absl::StatusOr<StragglerRunOptions> OptionsOfFlags() {
  StragglerRunOptions options;
  options.num_workers = absl::GetFlag(FLAGS_workers);
  options.steps = absl::GetFlag(FLAGS_steps);
  options.batch_size = absl::GetFlag(FLAGS_batch);
  options.learning_rate = absl::GetFlag(FLAGS_learning_rate);
  options.target_loss = absl::GetFlag(FLAGS_target_loss);
  options.seed = absl::GetFlag(FLAGS_seed);
  options.repeat = absl::GetFlag(FLAGS_repeat);
  options.pattern.compute = absl::GetFlag(FLAGS_compute);
  options.pattern.pause = absl::GetFlag(FLAGS_pause);
  if (options.num_workers < 1 || options.steps < 1 || options.batch_size < 1 ||
      options.repeat < 1) {
    return absl::InvalidArgumentError(
        "expected --workers, --steps, --batch and --repeat of 1 or more");
  }
  return options;
}

absl::StatusOr<StragglerRunResult> RunRepeatedly(StragglerRunOptions options) {
  RealClock clock;
  std::vector<StragglerRunResult> results;
  for (int run = 0; run < options.repeat; ++run, ++options.seed) {
    options.pattern.seed = options.seed;
    ASSIGN_OR_RETURN(StragglerRunResult result, RunStragglers(options, clock));
    results.push_back(std::move(result));
  }
  return MedianOf(results);
}

// Trains in every mode under every pattern, and prints each result at once.
absl::StatusOr<std::vector<StudyRun>> RunAll(const std::vector<StragglerPattern::Kind>& patterns,
                                             const std::vector<v1::ConsistencySpec>& modes,
                                             StragglerRunOptions options) {
  std::vector<StudyRun> runs;
  for (const StragglerPattern::Kind pattern : patterns) {
    PrintHeader(KindDescription(pattern));
    for (const v1::ConsistencySpec& mode : modes) {
      options.pattern.kind = pattern;
      options.consistency = mode;
      absl::StatusOr<StragglerRunResult> result = RunRepeatedly(options);
      RETURN_IF_ERROR(
          Annotate(result.status(), absl::StrCat(ModeName(mode), " under ", KindName(pattern))));
      runs.push_back({pattern, ModeName(mode), *std::move(result)});
      Print(runs.back());
    }
  }
  return runs;
}

absl::Status WritePage(const std::vector<StudyRun>& runs, const StragglerRunOptions& options,
                       const std::string& path) {
  std::ofstream file(path, std::ios::trunc);
  file << ChartPage(StudyPage(runs, options));
  file.close();
  return file.fail() ? absl::UnavailableError(absl::StrCat("--html: cannot write ", path))
                     : absl::OkStatus();
}

absl::Status Run() {
  UseOneBlasThread();
  ASSIGN_OR_RETURN(const StragglerRunOptions options, OptionsOfFlags());
  std::vector<StragglerPattern::Kind> patterns;
  for (const std::string& name : absl::GetFlag(FLAGS_patterns)) {
    const absl::StatusOr<StragglerPattern::Kind> pattern = KindOfName(name);
    RETURN_IF_ERROR(Annotate(pattern.status(), "--patterns"));
    patterns.push_back(*pattern);
  }
  std::vector<v1::ConsistencySpec> modes;
  for (const std::string& name : absl::GetFlag(FLAGS_modes)) {
    const absl::StatusOr<v1::ConsistencySpec> mode = ModeOfName(name);
    RETURN_IF_ERROR(Annotate(mode.status(), "--modes"));
    modes.push_back(*mode);
  }
  std::cout << StudySubtitle(options) << std::endl;
  ASSIGN_OR_RETURN(const std::vector<StudyRun> runs, RunAll(patterns, modes, options));
  const std::string html = absl::GetFlag(FLAGS_html);
  if (!html.empty()) RETURN_IF_ERROR(WritePage(runs, options, html));
  if (absl::GetFlag(FLAGS_json)) {
    nlohmann::ordered_json json;
    for (const StudyRun& run : runs) json["runs"].push_back(Json(run));
    std::cout << json.dump() << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  // The log of a training would hide the table.
  FLAGS_minloglevel = google::GLOG_WARNING;
  capstan::InitProgram(argv[0],
                       "trains under each consistency mode while some workers are slow.\n"
                       "  straggler_study [--steps=400] [--html=study.html] [--json]");
  const absl::Status parsed = capstan::ParseProgramFlags({argv, argv + argc});
  if (!parsed.ok()) capstan::EndProgram("straggler_study", parsed, /*is_usage_error=*/true);
  capstan::EndProgram("straggler_study", capstan::Run());
}
