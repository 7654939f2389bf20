#include "tests/benchmark/straggler/straggler_charts.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace capstan {
namespace {

using Kind = StragglerPattern::Kind;

constexpr size_t kPointsOfALine = 120;

std::vector<std::string> Modes(const std::vector<StudyRun>& runs) {
  std::vector<std::string> modes;
  for (const StudyRun& run : runs) {
    if (std::find(modes.begin(), modes.end(), run.mode) == modes.end()) modes.push_back(run.mode);
  }
  return modes;
}

std::vector<Kind> Patterns(const std::vector<StudyRun>& runs) {
  std::vector<Kind> patterns;
  for (const StudyRun& run : runs) {
    if (std::find(patterns.begin(), patterns.end(), run.pattern) == patterns.end()) {
      patterns.push_back(run.pattern);
    }
  }
  return patterns;
}

// A bar for each run, by mode. A run without the figure has no bar.
Chart ModeChart(const std::vector<StudyRun>& runs, std::string id, std::string title,
                std::string y_label,
                const std::function<std::optional<double>(const StragglerRunResult&)>& figure) {
  Chart chart;
  chart.kind = Chart::Kind::kBars;
  chart.id = std::move(id);
  chart.title = std::move(title);
  chart.x_label = "consistency";
  chart.y_label = std::move(y_label);
  chart.categories = Modes(runs);
  for (const Kind pattern : Patterns(runs)) {
    ChartSeries series = {KindDescription(pattern), {}};
    for (const StudyRun& run : runs) {
      const std::optional<double> value = figure(run.result);
      if (run.pattern != pattern || !value.has_value()) continue;
      const auto mode = std::find(chart.categories.begin(), chart.categories.end(), run.mode);
      series.points.emplace_back(static_cast<double>(mode - chart.categories.begin()), *value);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart LossChart(const std::vector<StudyRun>& runs, Kind pattern) {
  Chart chart;
  chart.id = absl::StrCat("loss_", KindName(pattern));
  chart.title = absl::StrCat("Loss over time, ", KindDescription(pattern));
  chart.x_label = "time, s";
  chart.y_label = "training loss";
  chart.is_log = true;
  for (const StudyRun& run : runs) {
    if (run.pattern != pattern) continue;
    chart.series.push_back({run.mode, ThinOut(run.result.loss_over_time, kPointsOfALine),
                            /*is_emphasized=*/run.mode == "bsp"});
  }
  return chart;
}

}  // namespace

std::string StudySubtitle(const StragglerRunOptions& options) {
  return absl::StrFormat(
      "%d workers, %d servers, %d steps of %d samples each; %s of compute a step; plain SGD at %g "
      "(SSP, async: / %d); target loss %g; medians of %d trainings",
      options.num_workers, options.num_servers, options.steps, options.batch_size,
      absl::FormatDuration(options.pattern.compute), options.learning_rate, options.num_workers,
      options.target_loss, options.repeat);
}

ChartPageContent StudyPage(const std::vector<StudyRun>& runs, const StragglerRunOptions& options) {
  using Result = StragglerRunResult;
  ChartPageContent page;
  page.title = "Capstan: what bounded staleness buys when workers are slow";
  page.subtitle = StudySubtitle(options);
  page.charts.push_back(ModeChart(runs, "idle", "Share of time idle", "waiting for values, %",
                                  [](const Result& result) { return 100 * result.idle_share; }));
  page.charts.push_back(ModeChart(runs, "target", "Time to the target loss", "time, s",
                                  [](const Result& result) { return result.seconds_to_target; }));
  page.charts.push_back(ModeChart(runs, "speed", "Speed", "steps of all workers a second",
                                  [](const Result& result) { return result.steps_per_second; }));
  page.charts.push_back(ModeChart(runs, "steps", "Steps to the target loss", "steps of a worker",
                                  [](const Result& result) { return result.steps_to_target; }));
  for (const Kind pattern : Patterns(runs)) page.charts.push_back(LossChart(runs, pattern));
  return page;
}

}  // namespace capstan
