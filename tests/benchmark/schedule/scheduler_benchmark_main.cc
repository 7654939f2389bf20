// scheduler_benchmark: the communication scheduler's own time for a slice.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/program.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"
#include "proto/job.pb.h"

ABSL_FLAG(int, slices, 10000, "queued slices");
ABSL_FLAG(int, layers, 50, "layers, each with as many slices; the last layer is queued first");
ABSL_FLAG(absl::Duration, min_time, absl::Milliseconds(500), "least time of each measurement");

namespace capstan {
namespace {

constexpr uint64_t kSliceBytes = 1 << 20;
constexpr uint64_t kCreditBytes = 4 * kSliceBytes;

using Sent = absl::AnyInvocable<void()>;

// Makes a closure as large as the one of a worker's ParameterStore for a slice.
struct Captured {
  void* pointers[5] = {};
  uint64_t numbers[5] = {};
};

// All slices of a step come in while the credit is used up. Then each delivered slice lets the next
// one go. The credit stays used up until the end, as when the link is slower than the worker.
int64_t RunStep(Scheduler& scheduler, int slices, int layers, std::deque<Sent>& on_their_way) {
  int64_t started = 0;
  for (int slice = 0; slice < slices; ++slice) {
    Transfer transfer;
    transfer.layer = layers - 1 - static_cast<int>(int64_t{slice} * layers / slices);
    transfer.bytes = kSliceBytes;
    transfer.start = [&started, &on_their_way, captured = Captured()](Sent sent) {
      benchmark::DoNotOptimize(captured);
      ++started;
      on_their_way.push_back(std::move(sent));
    };
    scheduler.Submit(std::move(transfer));
  }
  while (!on_their_way.empty()) {
    Sent sent = std::move(on_their_way.front());
    on_their_way.pop_front();
    sent();
  }
  return started;
}

void Measure(benchmark::State& state, v1::SchedulerSpec::Policy policy) {
  const int slices = absl::GetFlag(FLAGS_slices);
  Scheduler scheduler(kCreditBytes, MakeTransferQueue(policy));
  std::deque<Sent> on_their_way;
  for (auto unused : state) {
    const int64_t started = RunStep(scheduler, slices, absl::GetFlag(FLAGS_layers), on_their_way);
    if (started != slices) state.SkipWithError("not every slice has started once");
  }
  state.counters["us_per_slice"] = benchmark::Counter(
      static_cast<double>(slices) * 1e-6,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.SetItemsProcessed(state.iterations() * slices);
}

absl::Status Run() {
  for (const auto& [name, policy] : {std::pair("slice_fifo", v1::SchedulerSpec::SLICE_FIFO),
                                     std::pair("priority", v1::SchedulerSpec::PRIORITY)}) {
    benchmark::RegisterBenchmark(
        absl::StrCat(name, "/", absl::GetFlag(FLAGS_slices)).c_str(),
        [policy = policy](benchmark::State& state) { Measure(state, policy); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
  std::string arguments[] = {
      "scheduler_benchmark",
      absl::StrCat("--benchmark_min_time=", absl::ToDoubleSeconds(absl::GetFlag(FLAGS_min_time)))};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  int argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  benchmark::RunSpecifiedBenchmarks();
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "measures the communication scheduler's own time for a slice, from Submit "
                       "to the next slice's start.\n"
                       "  scheduler_benchmark [--slices=10000]");
  absl::Status status = capstan::ParseProgramFlags({argv, argv + argc});
  if (status.ok() && (absl::GetFlag(FLAGS_slices) < 1 || absl::GetFlag(FLAGS_layers) < 1)) {
    status = absl::InvalidArgumentError("expected --slices and --layers of 1 or more");
  }
  if (!status.ok()) capstan::EndProgram("scheduler_benchmark", status, /*is_usage_error=*/true);
  capstan::EndProgram("scheduler_benchmark", capstan::Run());
}
