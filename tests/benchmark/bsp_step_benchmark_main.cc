// bsp_step_benchmark: how long one BSP step takes, beside an all-reduce of the same bytes by
// others.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc/grpc_setup.h"
#include "deploy/cli/job/local_job.h"
#include "tests/benchmark/allreduce_load.h"
#include "tests/benchmark/baseline_program.h"
#include "tests/benchmark/benchmark_figures.h"
#include "tests/benchmark/benchmark_transport.h"
#include "tests/benchmark/bsp_step_load.h"
#include "tests/benchmark/machine_canary.h"
#include "tests/process/child_results.h"
#include "tests/process/forked_process.h"
#include "tests/process/shared_barrier.h"

ABSL_FLAG(std::string, transport, "ucx", "grpc or ucx");
ABSL_FLAG(std::string, ucx_poll, "sleep",
          "what UCX threads do while nothing happens: sleep, or busy, which takes a core for each");
ABSL_FLAG(std::string, ucx_transports, "",
          "transports that UCX may use, as in tcp,self; empty: shared memory");
ABSL_FLAG(
    std::optional<int>, owner_threads, std::nullopt,
    "threads to which a server hands large exchanges over UCX, 0 or more; without: as many as "
    "capstan_server has on this machine");
ABSL_FLAG(uint64_t, bytes, 64 << 20, "bytes of float32 that each worker pushes, and gets");
ABSL_FLAG(uint64_t, slice_bytes, 1 << 20, "largest bytes of a slice");
ABSL_FLAG(uint64_t, credit_bytes, 4 << 20,
          "bytes on their way to servers from which on a worker sends no more");
ABSL_FLAG(int, workers, 2, "worker processes, and processes of the all-reduces");
ABSL_FLAG(int, servers, 1, "server processes");
ABSL_FLAG(int, steps, 20, "steps that are timed, after 3 that are not");
ABSL_FLAG(int, repeat, 1, "measurements, of whose figures medians are printed");
ABSL_FLAG(bool, baselines, true, "also time all-reduces by Gloo and Open MPI");
ABSL_FLAG(bool, json, false, "print one JSON object as the last line");

namespace capstan {
namespace {

using Parent = ForkedProcess::Parent;

BenchmarkTransport TransportOfFlags() {
  BenchmarkTransport transport;
  transport.transport = absl::GetFlag(FLAGS_transport);
  transport.ucx_poll = absl::GetFlag(FLAGS_ucx_poll);
  transport.ucx_transports = absl::GetFlag(FLAGS_ucx_transports);
  transport.owner_threads = absl::GetFlag(FLAGS_owner_threads);
  return transport;
}

BspStepLoad LoadOfFlags() {
  BspStepLoad load;
  load.bytes = absl::GetFlag(FLAGS_bytes);
  load.slice_bytes = absl::GetFlag(FLAGS_slice_bytes);
  load.credit_bytes = absl::GetFlag(FLAGS_credit_bytes);
  load.num_workers = absl::GetFlag(FLAGS_workers);
  load.num_servers = absl::GetFlag(FLAGS_servers);
  load.steps = absl::GetFlag(FLAGS_steps);
  return load;
}

absl::Status Serve(int server, Parent& parent) {
  SendGrpcLogsToVlog();
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardHost> host, LoadOfFlags().Job().MakeHost(server));
  return TransportOfFlags().Serve(host.get(), parent);
}

// Says its times.
absl::Status Work(int worker, const std::vector<std::string>& addresses, SharedBarrier* barrier,
                  Parent& parent) {
  SendGrpcLogsToVlog();
  RealClock clock;
  const BspStepLoad load = LoadOfFlags();
  const ServerConnector connect = TransportOfFlags().Connector(&clock);
  const std::unique_ptr<ParameterClient> client = load.Job().MakeClient(addresses, connect, &clock);
  ASSIGN_OR_RETURN(const StepTimes times,
                   RunBspSteps(
                       load, worker, client.get(), [barrier] { barrier->Wait(); }, &clock));
  parent.WriteLine(FormatStepTimes(times));
  parent.ReadLine();  // Nobody's connections end before all are done.
  return absl::OkStatus();
}

// Time of a step, and the CPU time of all servers for one.
absl::Status MeasureSteps(BenchmarkFigures& figures) {
  const BspStepLoad load = LoadOfFlags();
  std::vector<std::unique_ptr<ForkedProcess>> servers, workers;
  for (int i = 0; i < load.num_servers; ++i) {
    servers.push_back(StartChild([i](Parent& parent) { return Serve(i, parent); }));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ChildResults(servers));
  SharedBarrier barrier(load.num_workers);
  for (int i = 0; i < load.num_workers; ++i) {
    workers.push_back(
        StartChild([&, i](Parent& parent) { return Work(i, addresses, &barrier, parent); }));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ChildResults(workers));
  std::vector<StepTimes> times;
  for (const std::string& line : lines) {
    ASSIGN_OR_RETURN(StepTimes of_worker, ParseStepTimes(line));
    times.push_back(std::move(of_worker));
  }
  ASSIGN_OR_RETURN(const double step_ms, MedianStepMilliseconds(times));
  absl::Duration cpu;
  for (const auto& server : servers) cpu += server->CpuTime();
  figures["step_ms"] = step_ms;
  figures["gb_per_s"] = 2.0 * static_cast<double>(load.bytes) * load.num_workers / step_ms / 1e6;
  figures["server_cpu_ms"] = absl::ToDoubleMilliseconds(cpu) / (load.warmup_steps + load.steps);
  return absl::OkStatus();
}

absl::Status MeasureBaselines(BenchmarkFigures& figures) {
  ASSIGN_OR_RETURN(const std::string own, OwnProgramPath());
  ASSIGN_OR_RETURN(const std::string gloo, FindProgram(own, "tests/benchmark/gloo_allreduce"));
  ASSIGN_OR_RETURN(const std::string mpi, FindProgram(own, "tests/benchmark/mpi_allreduce"));
  const int processes = absl::GetFlag(FLAGS_workers);
  const std::string load = absl::StrCat(" --bytes=", absl::GetFlag(FLAGS_bytes),
                                        " --steps=", absl::GetFlag(FLAGS_steps));
  // Of Open MPI's ways, neither UCX nor others, which it would choose by itself.
  const std::string mpirun = absl::StrCat("mpirun --allow-run-as-root --oversubscribe -n ",
                                          processes, " --mca pml ob1 --mca btl self,");
  const std::string gloo_run =
      absl::StrCat(gloo, load, " --processes=", processes, " --algorithm=");
  const std::pair<const char*, std::string> commands[] = {
      {"gloo_ms", gloo_run + "ring"},
      {"gloo_chunked_ms", gloo_run + "ring_chunked"},
      {"mpi_shm_ms", absl::StrCat(mpirun, "vader ", mpi, load)},
      {"mpi_tcp_ms", absl::StrCat(mpirun, "tcp ", mpi, load)},
  };
  for (const auto& [name, command] : commands) {
    ASSIGN_OR_RETURN(figures[name], StepMillisecondsOf(command));
  }
  const double step_ms = figures["step_ms"];
  figures["ratio_to_gloo"] = step_ms / figures["gloo_ms"].get<double>();
  figures["ratio_to_mpi_shm"] = step_ms / figures["mpi_shm_ms"].get<double>();
  return absl::OkStatus();
}

absl::StatusOr<BenchmarkFigures> Measure() {
  BenchmarkFigures figures;
  const double memcpy = MemcpyGigabytesPerSecond();
  RETURN_IF_ERROR(MeasureSteps(figures));
  figures["memcpy_gb_per_s"] = memcpy;
  if (absl::GetFlag(FLAGS_baselines)) RETURN_IF_ERROR(MeasureBaselines(figures));
  return figures;
}

absl::Status CheckFlags() {
  RETURN_IF_ERROR(TransportOfFlags().Check());
  for (const int count : {absl::GetFlag(FLAGS_workers), absl::GetFlag(FLAGS_servers),
                          absl::GetFlag(FLAGS_steps), absl::GetFlag(FLAGS_repeat)}) {
    if (count < 1) {
      return absl::InvalidArgumentError(
          "expected --workers, --servers, --steps and --repeat of 1 or more");
    }
  }
  if (absl::GetFlag(FLAGS_baselines) && absl::GetFlag(FLAGS_workers) < 2) {
    return absl::InvalidArgumentError(
        "an all-reduce is between 2 or more processes: use --workers=2, or --nobaselines");
  }
  if (absl::GetFlag(FLAGS_slice_bytes) < sizeof(float) || absl::GetFlag(FLAGS_credit_bytes) < 1) {
    return absl::InvalidArgumentError(
        "expected --slice_bytes of 4 or more, and --credit_bytes of 1 or more");
  }
  AllreduceLoad load;
  load.bytes = absl::GetFlag(FLAGS_bytes);
  return load.Check();
}

absl::Status Run() {
  std::vector<BenchmarkFigures> runs;
  for (int i = 0; i < absl::GetFlag(FLAGS_repeat); ++i) {
    ASSIGN_OR_RETURN(BenchmarkFigures figures, Measure());
    runs.push_back(std::move(figures));
  }
  const BenchmarkFigures medians = MediansOf(runs);
  PrintFigures(medians);
  if (!absl::GetFlag(FLAGS_json)) return absl::OkStatus();
  BenchmarkFigures json;
  json["transport"] = absl::GetFlag(FLAGS_transport);
  json["bytes"] = absl::GetFlag(FLAGS_bytes);
  json["slice_bytes"] = absl::GetFlag(FLAGS_slice_bytes);
  json["workers"] = absl::GetFlag(FLAGS_workers);
  json["servers"] = absl::GetFlag(FLAGS_servers);
  json.update(medians);
  std::cout << json.dump() << std::endl;
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "measures one BSP step, from the push of all workers until all have the new "
                       "values, beside all-reduces of the same bytes by Gloo and Open MPI.\n"
                       "  bsp_step_benchmark [--transport=ucx] [--bytes=67108864] [--json]");
  absl::Status status = capstan::ParseProgramFlags({argv, argv + argc});
  if (status.ok()) status = capstan::CheckFlags();
  if (!status.ok()) capstan::EndProgram("bsp_step_benchmark", status, /*is_usage_error=*/true);
  capstan::EndProgram("bsp_step_benchmark", capstan::Run());
}
