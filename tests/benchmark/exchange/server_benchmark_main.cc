// server_benchmark: the rates of a server's work on gradients, beside a memcpy of as many bytes.
#include <benchmark/benchmark.h>

#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "tests/benchmark/exchange/load_measurement.h"
#include "tests/benchmark/exchange/server_load.h"

ABSL_FLAG(std::string, filter, ".", "regular expression; measures the loads with matching names");
ABSL_FLAG(absl::Duration, min_time, absl::Milliseconds(300), "least time of each measurement");
ABSL_FLAG(uint64_t, slice_bytes, 4 << 20, "bytes of a slice");
ABSL_FLAG(int, slices, 1, "slices, exchanged or accumulated in turn");
ABSL_FLAG(uint64_t, large_bytes, 256 << 20,
          "bytes of each array of apply/.../large; more than the caches");
ABSL_FLAG(int, workers, 4, "workers; their gradients are summed");
ABSL_FLAG(bool, json, false, "print one JSON object as the last line");

namespace capstan {
namespace {

constexpr uint64_t kSmallSliceBytes = 16;
constexpr int kSmallSlices = 4096;
constexpr uint64_t kSharedSliceBytes = 64 << 10;

using MakeLoad = std::function<absl::StatusOr<std::unique_ptr<ServerLoad>>()>;

void RunLoad(benchmark::State& state, const MakeLoad& make_load) {
  const absl::StatusOr<std::unique_ptr<ServerLoad>> load = make_load();
  absl::Status status = load.status();
  if (status.ok()) {
    (*load)->Run();
    status = (*load)->Check();
  }
  if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  MeasureInTurn(state, **load);
}

benchmark::internal::Benchmark* Register(const std::string& name, MakeLoad make_load) {
  return benchmark::RegisterBenchmark(
      name.c_str(),
      [make_load = std::move(make_load)](benchmark::State& state) { RunLoad(state, make_load); });
}

// `clock` measures exchanges, as in capstan_server.
BenchmarkJob JobOf(const std::string& optimizer, uint64_t slice_bytes, int slices,
                   const Clock* clock = nullptr) {
  BenchmarkJob job;
  job.server_clock = clock;
  job.optimizer = optimizer;
  job.slice_bytes = slice_bytes;
  job.table_bytes = slice_bytes * static_cast<uint64_t>(slices);
  return job;
}

void RegisterOptimizer(const std::string& optimizer, const Clock* clock) {
  const uint64_t slice_bytes = absl::GetFlag(FLAGS_slice_bytes);
  const BenchmarkJob slice = JobOf(optimizer, slice_bytes, /*slices=*/1);
  const BenchmarkJob large = JobOf(optimizer, absl::GetFlag(FLAGS_large_bytes), /*slices=*/1);
  const BenchmarkJob exchange = JobOf(optimizer, slice_bytes, absl::GetFlag(FLAGS_slices), clock);
  BenchmarkJob step = exchange;
  step.consistency = ConsistencyMode::kBsp;
  step.num_workers = absl::GetFlag(FLAGS_workers);
  const BenchmarkJob small = JobOf(optimizer, kSmallSliceBytes, kSmallSlices, clock);
  for (benchmark::internal::Benchmark* each :
       {Register("apply/" + optimizer + "/slice", [=] { return ApplyLoad::Create(slice); }),
        Register("apply/" + optimizer + "/large", [=] { return ApplyLoad::Create(large); }),
        Register("exchange/" + optimizer, [=] { return HostLoad::Create(exchange); }),
        Register("accumulate/" + optimizer, [=] { return HostLoad::Create(step); }),
        Register("lookup/" + optimizer, [=] { return HostLoad::Create(small); })}) {
    each->UseManualTime()->Unit(benchmark::kMicrosecond);
  }
}

// One worker a thread, each with its own slice. An exchange beside another one of the same shard
// waits for the lock; beside one of another shard it does not.
absl::Status RegisterLock(const std::string& optimizer, const std::string& name, int threads,
                          uint32_t shard_count, const Clock* clock) {
  BenchmarkJob job = JobOf(optimizer, kSharedSliceBytes, /*slices=*/threads, clock);
  job.num_workers = threads;
  job.shard_count = shard_count;
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardHost> host, job.MakeHost(/*server=*/0));
  std::vector<std::shared_ptr<HostLoad>> loads;
  for (int thread = 0; thread < threads; ++thread) {
    const HostLoad::Part part = {thread, 1, static_cast<uint32_t>(thread), 1};
    loads.push_back(std::make_shared<HostLoad>(job, host, part));
    loads.back()->Run();
    RETURN_IF_ERROR(loads.back()->Check());
  }
  benchmark::RegisterBenchmark(
      absl::StrCat("lock/", optimizer, "/", name).c_str(),
      [loads](benchmark::State& state) { MeasureApart(state, *loads[state.thread_index()]); })
      ->Threads(threads)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
  return absl::OkStatus();
}

absl::Status RegisterAll(const Clock* clock) {
  for (const char* optimizer : {"sgd", "momentum", "nesterov", "adagrad", "adam", "adamw"}) {
    RegisterOptimizer(optimizer, clock);
    RETURN_IF_ERROR(RegisterLock(optimizer, "alone", /*threads=*/1, /*shard_count=*/1, clock));
    RETURN_IF_ERROR(RegisterLock(optimizer, "shards", /*threads=*/2, /*shard_count=*/2, clock));
    RETURN_IF_ERROR(RegisterLock(optimizer, "shard", /*threads=*/2, /*shard_count=*/1, clock));
  }
  return absl::OkStatus();
}

// Prints a table, and keeps its figures.
class Reporter : public benchmark::ConsoleReporter {
 public:
  Reporter() : ConsoleReporter(OO_Tabular) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      if (run.error_occurred) status_ = absl::InternalError(run.error_message);
      nlohmann::ordered_json& figures = figures_[run.run_name.function_name];
      for (const auto& [name, counter] : run.counters) figures[name] = counter.value;
    }
  }

  const absl::Status& status() const { return status_; }
  const nlohmann::ordered_json& figures() const { return figures_; }

 private:
  absl::Status status_;
  nlohmann::ordered_json figures_;
};

absl::Status Run() {
  RealClock clock;
  RETURN_IF_ERROR(RegisterAll(&clock));
  std::string arguments[] = {
      "server_benchmark", "--benchmark_filter=" + absl::GetFlag(FLAGS_filter),
      absl::StrCat("--benchmark_min_time=", absl::ToDoubleSeconds(absl::GetFlag(FLAGS_min_time)))};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  int argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  Reporter reporter;
  if (benchmark::RunSpecifiedBenchmarks(&reporter) == 0) {
    return absl::InvalidArgumentError(
        "--filter: nothing has such a name; names are as in "
        "apply/adam/slice");
  }
  if (absl::GetFlag(FLAGS_json)) std::cout << reporter.figures().dump() << std::endl;
  return reporter.status();
}

absl::Status CheckFlags() {
  for (const uint64_t bytes :
       {absl::GetFlag(FLAGS_slice_bytes), absl::GetFlag(FLAGS_large_bytes)}) {
    if (bytes >= 4 && bytes % 4 == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--slice_bytes, --large_bytes: expected whole float32, a multiple of 4, got ", bytes));
  }
  if (absl::GetFlag(FLAGS_workers) < 1 || absl::GetFlag(FLAGS_slices) < 1) {
    return absl::InvalidArgumentError("expected --workers and --slices of 1 or more");
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "measures a server's work on gradients, in one process. Rates are also "
                       "shares of memcpy's, when it reads and writes as much memory.\n"
                       "  server_benchmark [--filter=apply/adam] [--json]");
  absl::Status status = capstan::ParseProgramFlags({argv, argv + argc});
  if (status.ok()) status = capstan::CheckFlags();
  if (!status.ok()) capstan::EndProgram("server_benchmark", status, /*is_usage_error=*/true);
  capstan::EndProgram("server_benchmark", capstan::Run());
}
