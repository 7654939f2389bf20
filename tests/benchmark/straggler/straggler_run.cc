#include "tests/benchmark/straggler/straggler_run.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/local_cluster.h"
#include "worker/engine/cpu_engine.h"

namespace capstan {
namespace {

// The loss is an average over this many batches of each worker: about once through the data,
// because some samples are much harder than others.
constexpr size_t kLossWindow = 25;

EngineFactory PaddedEngines(const StragglerPattern& pattern, Clock& clock, std::atomic<int>* count,
                            std::vector<std::vector<StepRecord>>* records) {
  return [&pattern, &clock, count,
          records](const EngineOptions& options) -> absl::StatusOr<std::unique_ptr<Engine>> {
    ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, MakeCpuEngine(options));
    const int worker = (*count)++;
    return std::make_unique<PaddedEngine>(
        std::move(engine), &clock,
        [&pattern, worker](Step step) { return pattern.ComputeTime(worker, step); },
        &(*records)[worker]);
  };
}

// Adds up the last reports of the workers.
void AddProgress(const JobOutcome& outcome, StragglerRunResult* result) {
  double steps = 0, seconds = 0, waiting = 0, staleness = 0;
  for (const v1::Progress& progress : outcome.last_status.progress()) {
    steps += static_cast<double>(progress.steps_done());
    seconds += progress.seconds();
    waiting += progress.seconds_waiting();
    staleness += progress.mean_staleness_seen();
    result->max_staleness = std::max(result->max_staleness, progress.max_staleness_seen());
    result->seconds = std::max(result->seconds, progress.seconds());
  }
  result->steps_per_second = steps / result->seconds;
  result->idle_share = waiting / seconds;
  // All workers have had the same number of replies.
  result->mean_staleness = staleness / outcome.last_status.progress_size();
}

// The median of `figure` over the runs. The upper one, if their number is even.
template <typename Figure>
auto MedianOfFigure(const std::vector<StragglerRunResult>& runs, Figure figure) {
  std::vector<decltype(figure(runs[0]))> values;
  for (const StragglerRunResult& run : runs) values.push_back(figure(run));
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::optional<double> MedianOfOptional(const std::vector<StragglerRunResult>& runs,
                                       std::optional<double> StragglerRunResult::*figure) {
  const double never = std::numeric_limits<double>::infinity();
  const double median = MedianOfFigure(
      runs, [&](const StragglerRunResult& run) { return (run.*figure).value_or(never); });
  return median == never ? std::nullopt : std::optional(median);
}

}  // namespace

v1::JobSpec JobOf(const StragglerRunOptions& options) {
  v1::JobSpec job;
  job.set_seed(options.seed);
  job.mutable_cluster()->set_num_workers(static_cast<uint32_t>(options.num_workers));
  job.mutable_cluster()->set_num_servers(static_cast<uint32_t>(options.num_servers));
  job.mutable_training()->set_batch_size(static_cast<uint32_t>(options.batch_size));
  job.mutable_training()->set_steps(static_cast<uint64_t>(options.steps));
  *job.mutable_consistency() = options.consistency;
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  job.mutable_consistency()->set_update_scale(v1::ConsistencySpec::MEAN);
  job.mutable_optimizer()->set_learning_rate(options.learning_rate);
  return job;
}

std::vector<std::pair<double, double>> LossOverTime(
    const std::vector<std::vector<StepRecord>>& records, absl::Time start, size_t window) {
  std::vector<StepRecord> all;
  for (const std::vector<StepRecord>& worker : records) {
    all.insert(all.end(), worker.begin(), worker.end());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const StepRecord& a, const StepRecord& b) { return a.end < b.end; });
  std::vector<std::pair<double, double>> losses;
  for (size_t i = window; i <= all.size(); ++i) {
    double sum = 0;
    for (size_t j = i - window; j < i; ++j) sum += all[j].loss;
    losses.emplace_back(absl::ToDoubleSeconds(all[i - 1].end - start),
                        sum / static_cast<double>(window));
  }
  return losses;
}

absl::StatusOr<StragglerRunResult> RunStragglers(const StragglerRunOptions& options, Clock& clock) {
  const StragglerPattern pattern(options.pattern);
  std::atomic<int> engines = 0;
  std::vector<std::vector<StepRecord>> records(options.num_workers);
  InProcessClusterTransport transport;
  const ClusterResult cluster = RunCluster(JobOf(options), transport, clock, /*faults=*/{},
                                           PaddedEngines(pattern, clock, &engines, &records));
  RETURN_IF_ERROR(cluster.outcome.status);
  StragglerRunResult result;
  AddProgress(cluster.outcome, &result);
  result.accuracy = cluster.outcome.result.test_accuracy();
  absl::Time start = absl::InfiniteFuture();
  for (int worker = 0; worker < options.num_workers; ++worker) {
    if (records[worker].empty()) continue;
    const StepRecord& first = records[worker].front();
    start = std::min(start, first.end - pattern.ComputeTime(worker, Step(0)));
  }
  const size_t window = std::min<size_t>(kLossWindow, options.steps) * options.num_workers;
  result.loss_over_time = LossOverTime(records, start, window);
  const auto reached = std::find_if(
      result.loss_over_time.begin(), result.loss_over_time.end(),
      [&options](const std::pair<double, double>& at) { return at.second <= options.target_loss; });
  if (reached != result.loss_over_time.end()) {
    result.seconds_to_target = reached->first;
    const size_t batches = static_cast<size_t>(reached - result.loss_over_time.begin()) + window;
    result.steps_to_target = static_cast<double>(batches) / options.num_workers;
  }
  return result;
}

StragglerRunResult MedianOf(const std::vector<StragglerRunResult>& runs) {
  using Result = StragglerRunResult;
  Result median = runs[0];
  for (double Result::*figure : {&Result::steps_per_second, &Result::idle_share,
                                 &Result::mean_staleness, &Result::accuracy, &Result::seconds}) {
    median.*figure = MedianOfFigure(runs, [&](const Result& run) { return run.*figure; });
  }
  median.max_staleness = MedianOfFigure(runs, [](const Result& run) { return run.max_staleness; });
  median.seconds_to_target = MedianOfOptional(runs, &Result::seconds_to_target);
  median.steps_to_target = MedianOfOptional(runs, &Result::steps_to_target);
  return median;
}

std::string ModeName(const v1::ConsistencySpec& consistency) {
  switch (consistency.mode()) {
    case v1::ConsistencySpec::BSP:
      return "bsp";
    case v1::ConsistencySpec::SSP:
      return absl::StrCat("ssp ", consistency.staleness());
    default:
      return "async";
  }
}

absl::StatusOr<v1::ConsistencySpec> ModeOfName(absl::string_view name) {
  v1::ConsistencySpec consistency;
  int64_t staleness = 0;
  absl::string_view rest = name;
  const bool is_ssp = absl::ConsumePrefix(&rest, "ssp");
  if (name == "bsp") {
    consistency.set_mode(v1::ConsistencySpec::BSP);
  } else if (name == "async") {
    consistency.set_mode(v1::ConsistencySpec::ASYNC);
  } else if (is_ssp && absl::SimpleAtoi(rest, &staleness) && staleness >= 0) {
    consistency.set_mode(v1::ConsistencySpec::SSP);
    consistency.set_staleness(staleness);
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected bsp, async or ssp with its staleness, as in ssp4; got \"", name, "\""));
  }
  return consistency;
}

}  // namespace capstan
