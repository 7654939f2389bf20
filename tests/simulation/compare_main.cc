// Compares the simulation's predictions for 1 to 4 workers with real runs on this machine. Fits the
// network's model to three measurements. Prints a table with the error of each prediction, for the
// whole step and for the step less its computing. The real runs use the real servers, clients and
// transport (gRPC on the loopback interface), in one process. Only computing is scripted: workers
// sleep for the same drawn times as in the simulation.
#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/time/time.h"
#include "common/base/one_shot.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/routing/routing_table.h"
#include "common/transport/grpc/grpc_setup.h"
#include "server/coordinator/coordinator.h"
#include "server/service/parameter_server.h"
#include "tests/cluster/grpc_cluster_transport.h"
#include "tests/simulation/prediction.h"
#include "tests/simulation/scripted_engine.h"
#include "worker/runtime/worker.h"

ABSL_FLAG(int64_t, steps, 100, "steps of each worker");
ABSL_FLAG(double, compute_ms, 20, "mean of the log-normal time that a worker computes at a step");
ABSL_FLAG(double, compute_sigma, 0.5, "sigma of that log-normal");
ABSL_FLAG(double, short_compute_ms, 1, "that mean in the case that mostly communicates");

namespace capstan {
namespace {

constexpr uint64_t kLargeBytes = 1 << 20;
constexpr uint32_t kManySlices = 101;

Worker::Options WorkerOptions(const Scenario& scenario, uint32_t index, Clock* clock,
                              Coordinator* coordinator, ClusterTransport* transport) {
  Worker::Options options;
  options.clock = clock;
  options.coordinator = coordinator;
  options.incarnation = Incarnation(200 + index);
  options.prepare = ScriptedJobPreparer(scenario, index);
  options.connect = [transport](const v1::JobSpec&, ServerId, const ServerAddress& address) {
    return transport->Connect(address.grpc);
  };
  return options;
}

// Runs the workload in real time, on threads of this process and over gRPC on the loopback
// interface. Workers sleep for their compute times. Returns the time for one step of each worker.
absl::Duration MeasureStepTime(const Workload& workload) {
  const Scenario scenario = ScenarioOf(workload, SimulatedNetwork::Options());
  RealClock clock;
  GrpcClusterTransport transport(&clock);
  Coordinator::Options options;
  options.job = scenario.job;
  options.job_fingerprint = 1;
  Coordinator coordinator(std::move(options), clock);
  OneShot<JobOutcome> outcome(&clock);
  coordinator.OnEnd([&outcome](JobOutcome ended) { outcome.Set(std::move(ended)); });

  std::vector<std::unique_ptr<ParameterServer>> servers;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < workload.servers; ++i) {
    ParameterServer::Options server;
    server.clock = &clock;
    server.coordinator = &coordinator;
    server.incarnation = Incarnation(100 + i);
    servers.push_back(std::make_unique<ParameterServer>(server));
    threads.emplace_back(
        [started = servers.back().get(), address = transport.Listen(servers.back().get())] {
          const absl::Status status =
              started->Run([&address](const v1::JobSpec&) { return ServerAddress{address}; });
          CHECK(status.ok()) << status;
        });
  }
  for (uint32_t i = 0; i < workload.workers; ++i) {
    threads.emplace_back([&, i] {
      const absl::Status status =
          Worker(WorkerOptions(scenario, i, &clock, &coordinator, &transport)).Run();
      CHECK(status.ok()) << status;
    });
  }
  const JobOutcome ended = outcome.Wait();
  for (std::thread& thread : threads) thread.join();
  transport.StopListening();
  CHECK(ended.status.ok()) << ended.status;
  return ended.training_time / workload.steps;
}

// The step time of one worker without computing, as the median of three runs.
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

// The work of one step.
struct Case {
  const char* name;
  double compute_ms;  // in the mean
  uint32_t slices;
  uint64_t slice_bytes;
};

Workload MakeWorkload(const Case& of, uint32_t workers, v1::ConsistencySpec::Mode mode) {
  Workload workload;
  workload.mode = mode;
  if (mode == v1::ConsistencySpec::SSP) workload.staleness = 2;
  workload.workers = workers;
  workload.servers = 2;
  workload.slices = of.slices;
  workload.slice_bytes = of.slice_bytes;
  workload.steps = absl::GetFlag(FLAGS_steps);
  const double sigma = absl::GetFlag(FLAGS_compute_sigma);
  workload.compute_time = [mean_ms = of.compute_ms, sigma](Random& random) {
    return absl::Milliseconds(mean_ms * std::exp(sigma * random.Normal() - 0.5 * sigma * sigma));
  };
  return workload;
}

// On a network without delays.
SimulatedNetwork::Options NoNetwork() {
  SimulatedNetwork::Options network;
  network.latency = absl::ZeroDuration();
  network.per_message = absl::ZeroDuration();
  network.seconds_per_byte = 0;
  return network;
}

void Compare(const Workload& workload, const SimulatedNetwork::Options& network) {
  const double real = absl::ToDoubleMilliseconds(MeasureStepTime(workload));
  const double predicted = absl::ToDoubleMilliseconds(Predict(workload, network).step_time);
  const double computing = absl::ToDoubleMilliseconds(Predict(workload, NoNetwork()).step_time);
  const double real_rest = real - computing;
  const double predicted_rest = predicted - computing;
  std::printf("| %u | %s%s | %.2f | %.2f | %+.1f %% | %.2f | %.2f | %+.1f %% |\n", workload.workers,
              v1::ConsistencySpec::Mode_Name(workload.mode).c_str(),
              workload.mode == v1::ConsistencySpec::SSP ? " 2" : "", real, predicted,
              100 * (predicted / real - 1), real_rest, predicted_rest,
              100 * (predicted_rest / real_rest - 1));
  std::fflush(stdout);
}

void CompareAll(const Case& of, const SimulatedNetwork::Options& network) {
  std::printf("\n%s: %.1f ms of sleep for computing, %u slices of %llu bytes\n\n", of.name,
              of.compute_ms, of.slices, static_cast<unsigned long long>(of.slice_bytes));
  std::printf("| workers | consistency | real, ms a step | predicted | error ");
  std::printf("| real without computing and its waits | predicted | error |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  for (uint32_t workers = 1; workers <= 4; ++workers) {
    for (const auto mode :
         {v1::ConsistencySpec::BSP, v1::ConsistencySpec::SSP, v1::ConsistencySpec::ASYNC}) {
      Compare(MakeWorkload(of, workers, mode), network);
    }
  }
}

void Run() {
  std::printf("real: the real servers, clients and gRPC on this machine; computing is scripted\n");
  const SimulatedNetwork::Options network = MeasureNetwork();
  CompareAll({"mostly computing", absl::GetFlag(FLAGS_compute_ms), 8, 64 << 10}, network);
  CompareAll({"mostly communicating", absl::GetFlag(FLAGS_short_compute_ms), 64, 64 << 10},
             network);
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0], "compares the simulation's predictions with real runs.");
  const absl::Status parsed = capstan::ParseProgramFlags({argv, argv + argc});
  if (!parsed.ok()) capstan::EndProgram("compare", parsed, /*is_usage_error=*/true);
  FLAGS_minloglevel = google::GLOG_ERROR;
  capstan::SendGrpcLogsToVlog();
  capstan::Run();
  capstan::ExitProgram(0);
}
