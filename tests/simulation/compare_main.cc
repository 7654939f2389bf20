// Compares what the simulation predicts for 1 to 4 workers with what this machine does: fits the
// network's model to three measurements, and prints a table with the error of each prediction.
#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "common/transport/grpc_logging.h"
#include "tests/simulation/prediction.h"
#include "tests/simulation/real_run.h"

ABSL_FLAG(int64_t, steps, 100, "steps of each worker");
ABSL_FLAG(double, compute_ms, 20, "mean of the log-normal time that a worker computes at a step");
ABSL_FLAG(double, compute_sigma, 0.5, "sigma of that log-normal");

namespace capstan {
namespace {

constexpr uint64_t kLargeBytes = 1 << 20;
constexpr uint32_t kManySlices = 101;

// Of one worker that only talks; the median of three.
absl::Duration MeasureExchanges(uint32_t slices, uint64_t slice_bytes) {
  Workload workload;
  workload.steps = 200;
  workload.slices = slices;
  workload.slice_bytes = slice_bytes;
  workload.compute_time = [](Random&) { return absl::ZeroDuration(); };
  std::vector<absl::Duration> times;
  for (int i = 0; i < 3; ++i) times.push_back(MeasureStepTime(workload));
  std::sort(times.begin(), times.end());
  return times[1];
}

SimulatedNetwork::Options MeasureNetwork() {
  const absl::Duration alone = MeasureExchanges(/*slices=*/1, /*slice_bytes=*/64);
  const absl::Duration many = MeasureExchanges(kManySlices, /*slice_bytes=*/64);
  const absl::Duration large = MeasureExchanges(/*slices=*/1, kLargeBytes);
  const SimulatedNetwork::Options network =
      FitNetwork(alone, (many - alone) / (kManySlices - 1), large, kLargeBytes);
  std::printf("network: latency %.0f us, %.1f us a message, %.2f GB/s\n",
              absl::ToDoubleMicroseconds(network.latency),
              absl::ToDoubleMicroseconds(network.per_message), 1e-9 / network.seconds_per_byte);
  return network;
}

Workload MakeWorkload(uint32_t workers, v1::ConsistencySpec::Mode mode) {
  Workload workload;
  workload.mode = mode;
  if (mode == v1::ConsistencySpec::SSP) workload.staleness = 2;
  workload.workers = workers;
  workload.servers = 2;
  workload.slices = 8;
  workload.slice_bytes = 64 << 10;
  workload.steps = absl::GetFlag(FLAGS_steps);
  const double mean_ms = absl::GetFlag(FLAGS_compute_ms);
  const double sigma = absl::GetFlag(FLAGS_compute_sigma);
  workload.compute_time = [mean_ms, sigma](Random& random) {
    return absl::Milliseconds(mean_ms * std::exp(sigma * random.Normal() - 0.5 * sigma * sigma));
  };
  return workload;
}

void Run() {
  const SimulatedNetwork::Options network = MeasureNetwork();
  std::printf("| workers | consistency | real, ms a step | predicted | error |\n");
  std::printf("|---|---|---|---|---|\n");
  for (uint32_t workers = 1; workers <= 4; ++workers) {
    for (const auto mode :
         {v1::ConsistencySpec::BSP, v1::ConsistencySpec::SSP, v1::ConsistencySpec::ASYNC}) {
      const Workload workload = MakeWorkload(workers, mode);
      const double real = absl::ToDoubleMilliseconds(MeasureStepTime(workload));
      const double predicted = absl::ToDoubleMilliseconds(Predict(workload, network).step_time);
      std::printf("| %u | %s%s | %.2f | %.2f | %+.1f %% |\n", workers,
                  v1::ConsistencySpec::Mode_Name(mode).c_str(),
                  mode == v1::ConsistencySpec::SSP ? " 2" : "", real, predicted,
                  100 * (predicted / real - 1));
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("compares the simulation's predictions with real runs.");
  absl::ParseCommandLine(argc, argv);
  FLAGS_minloglevel = google::GLOG_ERROR;
  google::InitGoogleLogging(argv[0]);
  capstan::SendGrpcLogsToVlog();
  capstan::Run();
}
