// preemption_benchmark: the wait of a new slice of the first layer on a full link.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/transport/grpc/grpc_server.h"
#include "tests/benchmark/common/benchmark_transport.h"
#include "tests/benchmark/schedule/preemption_load.h"

ABSL_FLAG(std::string, serve, "", "host:port to serve on, until killed: this is the server");
ABSL_FLAG(std::string, connect, "", "host:port of the server: this is the worker");
ABSL_FLAG(std::string, schedule, "priority", "slice_fifo or priority");
ABSL_FLAG(double, gbit, 0, "rate of the link in Gbit/s, for the bound; required of the worker");
ABSL_FLAG(uint64_t, credit_bytes, 4 << 20, "most bytes of the worker on their way");
ABSL_FLAG(uint64_t, slice_bytes, 1 << 20, "bytes of each slice; the same for the server");
ABSL_FLAG(int, queued_slices, 32, "slices of another layer to send; the same for the server");
ABSL_FLAG(int, grpc_connections, 4, "of the worker; they share the link");
ABSL_FLAG(int, tries, 100, "slices of the first layer");

namespace capstan {
namespace {

PreemptionLoad LoadOfFlags() {
  PreemptionLoad load;
  load.slice_bytes = absl::GetFlag(FLAGS_slice_bytes);
  load.queued_slices = absl::GetFlag(FLAGS_queued_slices);
  load.tries = absl::GetFlag(FLAGS_tries);
  return load;
}

absl::Status Serve(const std::string& listen) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardHost> host, LoadOfFlags().Job().MakeHost(0));
  RealClock clock;
  CallGuard::Options guarded;
  guarded.clock = &clock;
  // Benchmarks have a network of their own.
  ASSIGN_OR_RETURN(guarded.security,
                   GrpcSecurity::Open({/*keys=*/"", /*is_insecure=*/true, &clock}));
  CallGuard guard(guarded);
  GrpcParameterService service(host.get());
  GrpcServer::Options options;
  options.guard = &guard;
  options.max_connections = 64;
  ASSIGN_OR_RETURN(const std::unique_ptr<GrpcServer> listening,
                   GrpcServer::Start(listen, {&service}, options));
  std::cout << listening->address() << std::endl;
  for (;;) pause();
}

absl::StatusOr<PreemptionTimes> Measure(const PreemptionLoad& load, const std::string& server,
                                        v1::SchedulerSpec::Policy policy) {
  RealClock clock;
  BenchmarkTransport transport;
  transport.transport = "grpc";
  transport.grpc_connections = absl::GetFlag(FLAGS_grpc_connections);
  const ServerConnector connect = transport.Connector(&clock);
  Scheduler scheduler(absl::GetFlag(FLAGS_credit_bytes), MakeTransferQueue(policy));
  const std::unique_ptr<ParameterClient> client = load.Job().MakeClient({server}, connect, &clock);
  return MeasurePreemption(load, client.get(), &scheduler, &clock);
}

absl::Status RunWorker(const std::string& server) {
  const bool is_priority = absl::GetFlag(FLAGS_schedule) == "priority";
  const PreemptionLoad load = LoadOfFlags();
  ASSIGN_OR_RETURN(PreemptionTimes times, Measure(load, server,
                                                  is_priority ? v1::SchedulerSpec::PRIORITY
                                                              : v1::SchedulerSpec::SLICE_FIFO));
  std::sort(times.waited.begin(), times.waited.end());
  const auto seconds_of = [](uint64_t bytes) {
    return static_cast<double>(bytes) * 8 / (absl::GetFlag(FLAGS_gbit) * 1e9);
  };
  const uint64_t credit_bytes = absl::GetFlag(FLAGS_credit_bytes);
  nlohmann::ordered_json figures;
  figures["schedule"] = absl::GetFlag(FLAGS_schedule);
  figures["gbit"] = absl::GetFlag(FLAGS_gbit);
  figures["slice_bytes"] = load.slice_bytes;
  figures["credit_bytes"] = credit_bytes;
  figures["grpc_connections"] = absl::GetFlag(FLAGS_grpc_connections);
  figures["tries"] = load.tries;
  figures["slice_s"] = seconds_of(load.slice_bytes);
  figures["alone_s"] = absl::ToDoubleSeconds(times.alone);
  figures["wait_p50_s"] = absl::ToDoubleSeconds(times.waited[times.waited.size() / 2]);
  figures["wait_max_s"] = absl::ToDoubleSeconds(times.waited.back());
  figures["bound_s"] = seconds_of(credit_bytes + load.slice_bytes);
  std::cout << figures.dump() << std::endl;
  return absl::OkStatus();
}

absl::Status CheckFlags() {
  const bool is_server = !absl::GetFlag(FLAGS_serve).empty();
  if (is_server == !absl::GetFlag(FLAGS_connect).empty()) {
    return absl::InvalidArgumentError("expected either --serve=HOST:PORT or --connect=HOST:PORT");
  }
  if (!is_server && !(absl::GetFlag(FLAGS_gbit) > 0)) {
    return absl::InvalidArgumentError("--gbit: expected the rate of the link, above 0");
  }
  const std::string schedule = absl::GetFlag(FLAGS_schedule);
  if (schedule != "priority" && schedule != "slice_fifo") {
    return absl::InvalidArgumentError("--schedule: expected slice_fifo or priority, got " +
                                      schedule);
  }
  const uint64_t slice_bytes = absl::GetFlag(FLAGS_slice_bytes);
  if (slice_bytes == 0 || slice_bytes % 4 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--slice_bytes: expected whole float32, a multiple of 4, got ", slice_bytes));
  }
  if (absl::GetFlag(FLAGS_credit_bytes) == 0 || absl::GetFlag(FLAGS_queued_slices) < 1 ||
      absl::GetFlag(FLAGS_grpc_connections) < 1 || absl::GetFlag(FLAGS_tries) < 1) {
    return absl::InvalidArgumentError(
        "expected --credit_bytes, --queued_slices, --grpc_connections and --tries of 1 or more");
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(
      argv[0],
      "measures the wait of a new slice of the first layer, while slices of another layer fill the "
      "link.\n"
      "  preemption_benchmark --serve=0.0.0.0:4000\n"
      "  preemption_benchmark --connect=HOST:4000 --gbit=1 [--schedule=slice_fifo]");
  absl::Status status = capstan::ParseProgramFlags({argv, argv + argc});
  if (status.ok()) status = capstan::CheckFlags();
  if (!status.ok()) capstan::EndProgram("preemption_benchmark", status, /*is_usage_error=*/true);
  const std::string serve = absl::GetFlag(FLAGS_serve);
  capstan::EndProgram("preemption_benchmark", serve.empty()
                                                  ? capstan::RunWorker(absl::GetFlag(FLAGS_connect))
                                                  : capstan::Serve(serve));
}
