// Predicts the speed of a job: simulates it in virtual time, with a model of the network and of the
// workers' compute times.
#include <glog/logging.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "tests/simulation/prediction.h"

ABSL_FLAG(uint32_t, workers, 1000, "number of workers");
ABSL_FLAG(uint32_t, servers, 100, "number of servers");
ABSL_FLAG(uint32_t, layers, 1, "number of layers of the model");
ABSL_FLAG(uint32_t, slices, 100, "number of slices of the parameters of each layer");
ABSL_FLAG(uint64_t, slice_bytes, 64, "bytes of a slice");
ABSL_FLAG(int64_t, steps, 30, "steps of each worker; with ssp, more than staleness + 1");
ABSL_FLAG(std::string, consistency, "bsp", "bsp, ssp or async");
ABSL_FLAG(int64_t, staleness, 0, "of ssp, in steps");
ABSL_FLAG(double, compute_ms, 100, "mean time that a worker computes at a step, in milliseconds");
ABSL_FLAG(double, compute_sigma, 0.2,
          "its distribution: sigma of a log-normal; 0: always the mean");
ABSL_FLAG(double, slowness, 1, "how many times longer the first worker computes than the others");
ABSL_FLAG(
    std::string, schedule, "priority",
    "what a worker sends first: priority (slices of the layer nearest the input) or slice_fifo "
    "(what is ready first)");
ABSL_FLAG(uint64_t, credit_bytes, 4 << 20, "bytes that a worker has on their way at once");
ABSL_FLAG(double, latency_us, 50, "of a message (alpha), in microseconds");
ABSL_FLAG(double, message_us, 2, "time that a message occupies each link, in microseconds");
ABSL_FLAG(double, gigabytes_per_second, 10, "of a link (1 / beta)");

namespace capstan {
namespace {

absl::StatusOr<v1::ConsistencySpec::Mode> ModeOfFlags() {
  const std::string mode = absl::GetFlag(FLAGS_consistency);
  if (mode == "bsp") return v1::ConsistencySpec::BSP;
  if (mode == "ssp") return v1::ConsistencySpec::SSP;
  if (mode == "async") return v1::ConsistencySpec::ASYNC;
  return absl::InvalidArgumentError(
      absl::StrCat("--consistency: expected bsp, ssp or async, got ", mode));
}

absl::StatusOr<v1::SchedulerSpec::Policy> PolicyOfFlags() {
  const std::string schedule = absl::GetFlag(FLAGS_schedule);
  if (schedule == "priority") return v1::SchedulerSpec::PRIORITY;
  if (schedule == "slice_fifo") return v1::SchedulerSpec::SLICE_FIFO;
  return absl::InvalidArgumentError(
      absl::StrCat("--schedule: expected priority or slice_fifo, got ", schedule));
}

absl::StatusOr<Workload> WorkloadOfFlags() {
  Workload workload;
  ASSIGN_OR_RETURN(workload.mode, ModeOfFlags());
  workload.staleness = absl::GetFlag(FLAGS_staleness);
  if (workload.staleness < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--staleness: expected 0 or more, got ", workload.staleness));
  }
  if (workload.staleness > 0 && workload.mode != v1::ConsistencySpec::SSP) {
    return absl::InvalidArgumentError(
        "--staleness says nothing without ssp: add --consistency=ssp");
  }
  ASSIGN_OR_RETURN(workload.policy, PolicyOfFlags());
  workload.credit_bytes = absl::GetFlag(FLAGS_credit_bytes);
  workload.workers = absl::GetFlag(FLAGS_workers);
  workload.servers = absl::GetFlag(FLAGS_servers);
  workload.slowness = absl::GetFlag(FLAGS_slowness);
  workload.layers = absl::GetFlag(FLAGS_layers);
  workload.slices = absl::GetFlag(FLAGS_slices);
  workload.slice_bytes = absl::GetFlag(FLAGS_slice_bytes);
  workload.steps = absl::GetFlag(FLAGS_steps);
  if (workload.steps <= workload.staleness + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--steps: expected more than ", workload.staleness + 1,
        ", within which nobody has to wait for others with --staleness=", workload.staleness,
        ", got ", workload.steps));
  }
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

// Simulates the workload, and prints a line with the result.
void Print(const std::string& name, const Workload& workload) {
  const absl::Time start = absl::Now();
  const Prediction prediction = Predict(workload, NetworkOfFlags());
  const double step_ms = absl::ToDoubleMilliseconds(prediction.step_time);
  std::printf("%s, %u workers, %u servers: %.3f ms a step, %.1f steps/s of all workers; ",
              name.c_str(), workload.workers, workload.servers, step_ms,
              1000 / step_ms * workload.workers);
  std::printf("staleness %.2f in the mean, at most %lld; ", prediction.mean_staleness,
              static_cast<long long>(prediction.max_staleness));
  std::printf("%llu messages simulated in %.1f s\n",
              static_cast<unsigned long long>(prediction.messages),
              absl::ToDoubleSeconds(absl::Now() - start));
  std::fflush(stdout);
}

absl::Status Run() {
  ASSIGN_OR_RETURN(Workload workload, WorkloadOfFlags());
  std::string name = absl::GetFlag(FLAGS_consistency);
  if (workload.mode == v1::ConsistencySpec::SSP) absl::StrAppend(&name, " ", workload.staleness);
  Print(name, workload);
  if (workload.mode != v1::ConsistencySpec::SSP) return absl::OkStatus();
  // Without the bound: the difference is its largest possible cost.
  workload.mode = v1::ConsistencySpec::ASYNC;
  workload.staleness = 0;
  Print("async", workload);
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0], "says how fast a job would be, by simulation in virtual time.");
  const absl::Status parsed = capstan::ParseProgramFlags({argv, argv + argc});
  if (!parsed.ok()) capstan::EndProgram("predict", parsed, /*is_usage_error=*/true);
  FLAGS_minloglevel = google::GLOG_ERROR;
  capstan::EndProgram("predict", capstan::Run(), /*is_usage_error=*/true);
}
