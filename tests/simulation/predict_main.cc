// Says how fast a job would be: simulates it in virtual time with a model of the network and of the
// time that a worker computes.
#include <glog/logging.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/time/clock.h"
#include "tests/simulation/prediction.h"

ABSL_FLAG(uint32_t, workers, 1000, "number of workers");
ABSL_FLAG(uint32_t, servers, 100, "number of servers");
ABSL_FLAG(uint32_t, layers, 1, "number of layers of the model");
ABSL_FLAG(uint32_t, slices, 100, "number of slices of the parameters of each layer");
ABSL_FLAG(uint64_t, slice_bytes, 64, "bytes of a slice");
ABSL_FLAG(int64_t, steps, 5, "steps of each worker");
ABSL_FLAG(std::string, consistency, "bsp", "bsp, ssp or async");
ABSL_FLAG(int64_t, staleness, 0, "of ssp, in steps");
ABSL_FLAG(bool, eager, false, "servers send new values as soon as min_step advances");
ABSL_FLAG(double, compute_ms, 100, "mean time that a worker computes at a step, in milliseconds");
ABSL_FLAG(double, compute_sigma, 0.2,
          "its distribution: sigma of a log-normal; 0: always the mean");
ABSL_FLAG(double, slowness, 1, "how many times longer the first worker computes than the others");
ABSL_FLAG(double, latency_us, 50, "of a message (alpha), in microseconds");
ABSL_FLAG(double, message_us, 2, "time that a message occupies each link, in microseconds");
ABSL_FLAG(double, gigabytes_per_second, 10, "of a link (1 / beta)");

namespace capstan {
namespace {

Workload WorkloadOfFlags() {
  Workload workload;
  const std::string mode = absl::GetFlag(FLAGS_consistency);
  workload.mode = mode == "bsp"   ? v1::ConsistencySpec::BSP
                  : mode == "ssp" ? v1::ConsistencySpec::SSP
                                  : v1::ConsistencySpec::ASYNC;
  workload.staleness = absl::GetFlag(FLAGS_staleness);
  workload.workers = absl::GetFlag(FLAGS_workers);
  workload.servers = absl::GetFlag(FLAGS_servers);
  workload.is_eager = absl::GetFlag(FLAGS_eager);
  workload.slowness = absl::GetFlag(FLAGS_slowness);
  workload.layers = absl::GetFlag(FLAGS_layers);
  workload.slices = absl::GetFlag(FLAGS_slices);
  workload.slice_bytes = absl::GetFlag(FLAGS_slice_bytes);
  workload.steps = absl::GetFlag(FLAGS_steps);
  const double mean_ms = absl::GetFlag(FLAGS_compute_ms);
  const double sigma = absl::GetFlag(FLAGS_compute_sigma);
  workload.compute_time = [mean_ms, sigma](Random& random) {
    return absl::Milliseconds(mean_ms * std::exp(sigma * random.Normal() - 0.5 * sigma * sigma));
  };
  return workload;
}

SimulatedNetwork::Options NetworkOfFlags() {
  SimulatedNetwork::Options network;
  network.latency = absl::Microseconds(absl::GetFlag(FLAGS_latency_us));
  network.per_message = absl::Microseconds(absl::GetFlag(FLAGS_message_us));
  network.seconds_per_byte = 1e-9 / absl::GetFlag(FLAGS_gigabytes_per_second);
  return network;
}

void Run() {
  const Workload workload = WorkloadOfFlags();
  const absl::Time start = absl::Now();
  const Prediction prediction = Predict(workload, NetworkOfFlags());
  const double step_ms = absl::ToDoubleMilliseconds(prediction.step_time);
  std::printf("%u workers, %u servers: %.3f ms a step, %.1f steps/s of all workers; ",
              workload.workers, workload.servers, step_ms, 1000 / step_ms * workload.workers);
  std::printf("staleness %.2f in the mean, at most %lld; ", prediction.mean_staleness,
              static_cast<long long>(prediction.max_staleness));
  std::printf("%llu messages simulated in %.1f s\n",
              static_cast<unsigned long long>(prediction.messages),
              absl::ToDoubleSeconds(absl::Now() - start));
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("says how fast a job would be, by simulation in virtual time.");
  absl::ParseCommandLine(argc, argv);
  FLAGS_minloglevel = google::GLOG_ERROR;
  google::InitGoogleLogging(argv[0]);
  capstan::Run();
}
