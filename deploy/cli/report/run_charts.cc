#include "deploy/cli/report/run_charts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/cli/text/number_text.h"

namespace capstan {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr size_t kPointsOfALine = 300;
constexpr double kMebibyte = 1 << 20;

Chart MakeChart(Chart::Kind kind, std::string id, std::string title, std::string x_label,
                std::string y_label) {
  Chart chart;
  chart.kind = kind;
  chart.id = std::move(id);
  chart.title = std::move(title);
  chart.x_label = std::move(x_label);
  chart.y_label = std::move(y_label);
  return chart;
}

std::string WorkerName(int64_t worker) { return absl::StrCat("worker ", worker); }

// Leaves out what comes between two lives of a job that starts again: no worker has reported yet.
std::vector<RunSample> WithoutGaps(const std::vector<RunSample>& samples) {
  std::vector<RunSample> kept;
  bool has_begun = false;
  for (const RunSample& sample : samples) {
    const bool has_steps =
        std::any_of(sample.workers.begin(), sample.workers.end(),
                    [](const WorkerSample& worker) { return worker.steps_done > 0; });
    has_begun = has_begun || has_steps;
    if (has_steps || !has_begun) kept.push_back(sample);
  }
  return kept;
}

// Leaves out the points of steps that a job did again after a restart.
Points WithoutRepeatedSteps(const Points& points) {
  Points kept;
  for (const auto& point : points) {
    while (!kept.empty() && kept.back().first >= point.first) kept.pop_back();
    kept.push_back(point);
  }
  return kept;
}

// One line for each worker. Each sample with other steps of the worker has a point, made by
// `point`. After a restart a worker has fewer steps than before.
template <typename PointOf>
std::map<int64_t, Points> WorkerPoints(const std::vector<RunSample>& samples, PointOf point) {
  std::map<int64_t, Points> lines;
  std::map<int64_t, double> steps;
  for (const RunSample& sample : samples) {
    for (const WorkerSample& worker : sample.workers) {
      if (worker.steps_done <= 0 || worker.steps_done == steps[worker.worker]) continue;
      steps[worker.worker] = worker.steps_done;
      lines[worker.worker].push_back(point(sample, worker));
    }
  }
  return lines;
}

std::vector<ChartSeries> WorkerLines(const std::map<int64_t, Points>& lines) {
  std::vector<ChartSeries> series;
  for (const auto& [worker, points] : lines) {
    series.push_back({WorkerName(worker), ThinOut(points, kPointsOfALine)});
  }
  return series;
}

// The mean loss of the workers with a step. Each sample with other steps has a point.
ChartSeries MeanLoss(const std::vector<RunSample>& samples) {
  Points points;
  double steps_before = 0;
  for (const RunSample& sample : samples) {
    double loss = 0, steps = 0;
    int count = 0;
    for (const WorkerSample& worker : sample.workers) {
      if (worker.steps_done <= 0) continue;
      loss += worker.loss;
      steps += worker.steps_done;
      ++count;
    }
    if (count == 0 || steps == steps_before) continue;
    steps_before = steps;
    points.push_back({sample.seconds, loss / count});
  }
  return {"mean", ThinOut(points, kPointsOfALine), /*is_emphasized=*/true};
}

Chart StalenessChart(const RunSample& end) {
  Chart chart =
      MakeChart(Chart::Kind::kBars, "staleness", "Staleness of the values",
                "steps by which the slowest worker was behind the pull", "share of the replies, %");
  std::vector<double> counts;
  double total = 0, weighted = 0;
  for (const WorkerSample& worker : end.workers) {
    double replies = 0;
    for (size_t i = 0; i < worker.replies_of_staleness.size(); ++i) {
      if (i >= counts.size()) counts.resize(i + 1);
      counts[i] += worker.replies_of_staleness[i];
      replies += worker.replies_of_staleness[i];
    }
    total += replies;
    weighted += replies * worker.mean_staleness_seen;
  }
  if (total > 0) chart.note = absl::StrFormat("mean %.2f steps", weighted / total);
  ChartSeries replies = {"replies", {}};
  for (size_t i = 0; i < counts.size(); ++i) {
    chart.categories.push_back(absl::StrCat(i));
    replies.points.push_back({static_cast<double>(i), 100 * counts[i] / total});
  }
  chart.series = {std::move(replies)};
  return chart;
}

// Sums over all workers. Workers that were replaced count, too.
struct Totals {
  double pushed = 0;
  double pulled = 0;
  double float_pushed = 0;  // 0 in a job without codecs
  double float_pulled = 0;
  double seconds_coding = 0;
};

Totals AddUp(const RunSample& sample) {
  Totals totals;
  for (const auto* workers : {&sample.workers, &sample.replaced_workers}) {
    for (const WorkerSample& worker : *workers) {
      totals.pushed += worker.bytes_pushed;
      totals.pulled += worker.bytes_pulled;
      totals.float_pushed += worker.float_bytes_pushed;
      totals.float_pulled += worker.float_bytes_pulled;
      totals.seconds_coding += worker.seconds_coding;
    }
  }
  return totals;
}

bool HasCodec(const RunSample& end) { return AddUp(end).float_pulled > 0; }

// Adds the codecs' time to a chart of times.
void NoteCodingTime(const RunSample& end, Chart& chart) {
  if (!HasCodec(end)) return;
  chart.note = absl::StrFormat("codecs: %.1f s, all workers together", AddUp(end).seconds_coding);
}

Chart TimeChart(const RunSample& end) {
  Chart chart = MakeChart(Chart::Kind::kStackedBars, "time", "Where each worker's time went",
                          "worker", "time, s");
  ChartSeries compute = {"compute", {}}, waiting = {"waiting for values", {}},
              sending = {"sending", {}};
  for (const WorkerSample& worker : end.workers) {
    const double index = static_cast<double>(chart.categories.size());
    chart.categories.push_back(absl::StrCat(worker.worker));
    compute.points.push_back(
        {index, std::max(0.0, worker.seconds - worker.seconds_waiting - worker.seconds_sending)});
    waiting.points.push_back({index, worker.seconds_waiting});
    sending.points.push_back({index, worker.seconds_sending});
  }
  chart.series = {std::move(compute), std::move(waiting), std::move(sending)};
  NoteCodingTime(end, chart);
  return chart;
}

// In a job with codecs also the bytes of the same values as float32.
Chart BytesChart(const std::vector<RunSample>& samples) {
  Chart chart = MakeChart(Chart::Kind::kLines, "bytes", "Bytes of all workers, added up", "time, s",
                          "payload, MiB");
  Points pushed, pulled, float_pushed, float_pulled;
  for (const RunSample& sample : samples) {
    const Totals bytes = AddUp(sample);
    pushed.push_back({sample.seconds, bytes.pushed / kMebibyte});
    pulled.push_back({sample.seconds, bytes.pulled / kMebibyte});
    float_pushed.push_back({sample.seconds, bytes.float_pushed / kMebibyte});
    float_pulled.push_back({sample.seconds, bytes.float_pulled / kMebibyte});
  }
  chart.series = {{"pushed", ThinOut(pushed, kPointsOfALine)},
                  {"pulled", ThinOut(pulled, kPointsOfALine)}};
  if (!HasCodec(samples.back())) return chart;
  const Totals end = AddUp(samples.back());
  chart.note = absl::StrCat("pushed ", RatioText(end.float_pushed / end.pushed), ", pulled ",
                            RatioText(end.float_pulled / end.pulled));
  chart.series.push_back({"pushed, as float32", ThinOut(float_pushed, kPointsOfALine)});
  chart.series.push_back({"pulled, as float32", ThinOut(float_pulled, kPointsOfALine)});
  return chart;
}

// The norm of each worker's residual divided by that of its gradient, as root mean squares over all
// pushes so far.
Chart ResidualChart(const std::vector<RunSample>& samples) {
  Chart chart = MakeChart(Chart::Kind::kLines, "residual", "Residual of the pushes", "time, s",
                          "residual / gradient");
  chart.series =
      WorkerLines(WorkerPoints(samples, [](const RunSample& sample, const WorkerSample& worker) {
        return std::make_pair(sample.seconds,
                              std::sqrt(worker.residual_squares / worker.gradient_squares));
      }));
  return chart;
}

bool HasResidual(const RunSample& end) {
  return std::any_of(end.workers.begin(), end.workers.end(),
                     [](const WorkerSample& worker) { return worker.gradient_squares > 0; });
}

Chart LossOverTimeChart(const std::vector<RunSample>& samples) {
  Chart chart =
      MakeChart(Chart::Kind::kLines, "loss_over_time", "Loss over time", "time, s", "loss");
  chart.series =
      WorkerLines(WorkerPoints(samples, [](const RunSample& sample, const WorkerSample& worker) {
        return std::make_pair(sample.seconds, worker.loss);
      }));
  chart.series.push_back(MeanLoss(samples));
  return chart;
}

Chart LossOverStepsChart(const std::vector<RunSample>& samples) {
  Chart chart =
      MakeChart(Chart::Kind::kLines, "loss_over_steps", "Loss over steps", "steps done", "loss");
  std::map<int64_t, Points> lines =
      WorkerPoints(samples, [](const RunSample&, const WorkerSample& worker) {
        return std::make_pair(worker.steps_done, worker.loss);
      });
  for (auto& [worker, points] : lines) points = WithoutRepeatedSteps(points);
  chart.series = WorkerLines(lines);
  return chart;
}

Chart StepsChart(const std::vector<RunSample>& samples) {
  Chart chart =
      MakeChart(Chart::Kind::kLines, "steps", "Steps of each worker", "time, s", "steps done");
  chart.series =
      WorkerLines(WorkerPoints(samples, [](const RunSample& sample, const WorkerSample& worker) {
        return std::make_pair(sample.seconds, worker.steps_done);
      }));
  return chart;
}

}  // namespace

std::vector<Chart> RunCharts(const std::vector<RunSample>& all_samples) {
  const std::vector<RunSample> samples = WithoutGaps(all_samples);
  Chart steps = StepsChart(samples);
  if (steps.series.empty()) return {};
  std::vector<Chart> charts = {LossOverTimeChart(samples), LossOverStepsChart(samples),
                               std::move(steps),           StalenessChart(samples.back()),
                               TimeChart(samples.back()),  BytesChart(samples)};
  if (HasResidual(samples.back())) charts.push_back(ResidualChart(samples));
  return charts;
}

}  // namespace capstan
