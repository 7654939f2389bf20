// bsp_step_benchmark: times one BSP step, and all-reduces of the same bytes by other programs.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc/grpc_endpoint.h"
#include "common/transport/grpc/grpc_setup.h"
#include "deploy/launch/local_job.h"
#include "server/service/replica_links.h"
#include "server/shard/shard_host.h"
#include "tests/benchmark/common/benchmark_figures.h"
#include "tests/benchmark/common/benchmark_job.h"
#include "tests/benchmark/common/benchmark_transport.h"
#include "tests/benchmark/step/allreduce_load.h"
#include "tests/benchmark/step/bsp_step_load.h"
#include "tests/benchmark/step/step_comparison.h"
#include "tests/benchmark/step/step_times.h"
#include "tests/process/child_results.h"
#include "tests/process/forked_process.h"
#include "tests/process/shared_barrier.h"

ABSL_FLAG(
    std::vector<std::string>, transport, std::vector<std::string>({"grpc", "ucx_tcp", "ucx"}),
    "Capstan's transports, a line for each: grpc (TCP), ucx_tcp (UCX, restricted to TCP), ucx "
    "(UCX, shared memory); all-reduces run over TCP and shared memory as these do");
ABSL_FLAG(std::string, ucx_poll, "sleep",
          "UCX threads with nothing to do: sleep, or busy: each then takes a core");
ABSL_FLAG(std::optional<int>, owner_threads, std::nullopt,
          "threads of a server for large exchanges over UCX, 0 or more; unset: as many as "
          "capstan_server has on this machine");
ABSL_FLAG(uint64_t, bytes, 64 << 20, "bytes of float32: each worker pushes them, and gets as many");
ABSL_FLAG(uint64_t, slice_bytes, 1 << 20, "largest bytes of a slice");
ABSL_FLAG(uint64_t, credit_bytes, 4 << 20, "most bytes of a worker on their way to servers");
ABSL_FLAG(int, workers, 2, "worker processes, and processes of the all-reduces");
ABSL_FLAG(int, servers, 1, "server processes");
ABSL_FLAG(int, replicas, 1, "copies of each shard, on different servers; 2 only over gRPC");
ABSL_FLAG(int, steps, 20, "timed steps, after 3 others");
ABSL_FLAG(int, repeat, 1, "measurements; their medians are printed");
ABSL_FLAG(bool, metrics, true, "measure times for metrics, as servers and workers do");
ABSL_FLAG(bool, keeps_open_step, true,
          "servers keep the values of the open step, as if workers could be replaced");
ABSL_FLAG(bool, baselines, true, "also time all-reduces by Gloo and Open MPI");
ABSL_FLAG(bool, json, false, "print one JSON object as the last line");

namespace capstan {
namespace {

using Parent = ForkedProcess::Parent;

// Capstan over one transport.
struct CapstanTransport {
  const char* flag;  // its name in --transport
  StepContender contender;
  const char* type;
  const char* ucx_transports;
};

constexpr CapstanTransport kTransports[] = {
    {"grpc", kCapstanGrpc, "grpc", ""},
    {"ucx_tcp", kCapstanUcxTcp, "ucx", "tcp,self"},
    {"ucx", kCapstanUcx, "ucx", ""},
};

bool IsChosen(const CapstanTransport& transport) {
  return absl::c_linear_search(absl::GetFlag(FLAGS_transport), transport.flag);
}

BenchmarkTransport TransportOfFlags(const CapstanTransport& chosen) {
  BenchmarkTransport transport;
  transport.transport = chosen.type;
  transport.ucx_poll = absl::GetFlag(FLAGS_ucx_poll);
  transport.ucx_transports = chosen.ucx_transports;
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
  load.has_metrics = absl::GetFlag(FLAGS_metrics);
  return load;
}

// The door of a host for the changes of others.
class RecordsOf : public ParameterEndpoint {
 public:
  explicit RecordsOf(ShardHost* host) : host_(*host) {}
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    done(host_.TakeRecord(request));
  }

 private:
  ShardHost& host_;
};

absl::Status Serve(const BenchmarkTransport& transport, int server, Parent& parent) {
  SendGrpcLogsToVlog();
  RealClock clock;
  BenchmarkJob job = LoadOfFlags().Job();
  if (absl::GetFlag(FLAGS_metrics)) job.server_clock = &clock;
  job.keeps_open_step = absl::GetFlag(FLAGS_keeps_open_step);
  job.has_copies = absl::GetFlag(FLAGS_replicas) == 2;
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardHost> host, job.MakeHost(server));
  if (!job.has_copies) return transport.Serve(host.get(), parent);
  RecordsOf records(host.get());
  ReplicaLinks links(
      [&clock](const std::string& address) {
        return std::make_unique<GrpcEndpoint>(address, &clock, NoSecurity(), SenderRole::kServer);
      },
      job.SenderOf(server), &clock);
  return transport.ServeCopies(
      host.get(), &records,
      [&](const std::vector<std::string>& addresses) {
        job.MakeCopies(server, addresses, links, *host);
      },
      parent);
}

// Tells the parent its times.
absl::Status Work(const BenchmarkTransport& transport, int worker,
                  const std::vector<std::string>& addresses, SharedBarrier* barrier,
                  Parent& parent) {
  SendGrpcLogsToVlog();
  RealClock clock;
  const BspStepLoad load = LoadOfFlags();
  const ServerConnector connect = transport.Connector(&clock);
  const std::unique_ptr<ParameterClient> client = load.Job().MakeClient(addresses, connect, &clock);
  ASSIGN_OR_RETURN(const StepTimes times,
                   RunBspSteps(
                       load, worker, client.get(), [barrier] { barrier->Wait(); }, &clock));
  parent.WriteLine(FormatStepTimes(times));
  parent.ReadLine();  // Connections stay until all workers are done.
  return absl::OkStatus();
}

StepLine LineOf(const StepContender& contender, double step_ms) {
  const double bytes = 2.0 * static_cast<double>(absl::GetFlag(FLAGS_bytes)) *
                       absl::GetFlag(FLAGS_workers);  // of all processes: gradients, and results
  return {contender, {{"step_ms", step_ms}, {"gb_per_s", bytes / step_ms / 1e6}}};
}

// Also measures the CPU time of all servers for a step.
absl::StatusOr<StepLine> MeasureCapstan(const CapstanTransport& chosen) {
  const BspStepLoad load = LoadOfFlags();
  const BenchmarkTransport transport = TransportOfFlags(chosen);
  std::vector<std::unique_ptr<ForkedProcess>> servers, workers;
  for (int i = 0; i < load.num_servers; ++i) {
    servers.push_back(StartChild([&, i](Parent& parent) { return Serve(transport, i, parent); }));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ChildResults(servers));
  if (absl::GetFlag(FLAGS_replicas) == 2) {
    const std::string line = absl::StrJoin(addresses, ",");
    for (const auto& server : servers) server->WriteLine(line);
    RETURN_IF_ERROR(ChildResults(servers).status());
  }
  SharedBarrier barrier(load.num_workers);
  for (int i = 0; i < load.num_workers; ++i) {
    workers.push_back(StartChild(
        [&, i](Parent& parent) { return Work(transport, i, addresses, &barrier, parent); }));
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
  StepLine line = LineOf(chosen.contender, step_ms);
  line.figures["server_cpu_ms"] =
      absl::ToDoubleMilliseconds(cpu) / (load.warmup_steps + load.steps);
  return line;
}

// The programs of others are run again if they fail: a process of Open MPI that uses shared memory
// crashes now and then, on a machine with little time for it.
absl::StatusOr<double> BaselineMilliseconds(const std::string& command) {
  constexpr int kTries = 3;
  absl::StatusOr<double> step_ms = StepMillisecondsOf(command);
  for (int tried = 1; tried < kTries && !step_ms.ok(); ++tried) {
    std::cerr << step_ms.status().message() << "; trying again" << std::endl;
    step_ms = StepMillisecondsOf(command);
  }
  return step_ms;
}

// Appends a line for each all-reduce over this transport.
absl::Status MeasureBaselines(absl::string_view transport, std::vector<StepLine>* lines) {
  ASSIGN_OR_RETURN(const std::string own, OwnProgramPath());
  ASSIGN_OR_RETURN(const std::string gloo, FindProgram(own, "tests/benchmark/step/gloo_allreduce"));
  ASSIGN_OR_RETURN(const std::string mpi, FindProgram(own, "tests/benchmark/step/mpi_allreduce"));
  const int processes = absl::GetFlag(FLAGS_workers);
  const std::string load = absl::StrCat(" --bytes=", absl::GetFlag(FLAGS_bytes),
                                        " --steps=", absl::GetFlag(FLAGS_steps));
  // By itself, Open MPI would choose UCX.
  const std::string mpirun = absl::StrCat("mpirun --allow-run-as-root --oversubscribe -n ",
                                          processes, " --mca pml ob1 --mca btl self,");
  const std::string gloo_run =
      absl::StrCat(gloo, load, " --processes=", processes, " --algorithm=");
  const std::pair<StepContender, std::string> commands[] = {
      {kGlooRing, gloo_run + "ring"},
      {kGlooRingChunked, gloo_run + "ring_chunked"},
      {kMpiTcp, absl::StrCat(mpirun, "tcp ", mpi, load)},
      {kMpiSharedMemory, absl::StrCat(mpirun, "vader ", mpi, load)},
  };
  for (const auto& [contender, command] : commands) {
    if (contender.transport != transport) continue;
    ASSIGN_OR_RETURN(const double step_ms, BaselineMilliseconds(command));
    lines->push_back(LineOf(contender, step_ms));
  }
  return absl::OkStatus();
}

struct Measurement {
  std::vector<StepLine> lines;
  BenchmarkFigures ratios;  // also the machine's own rate
};

// Transport by transport, Capstan first.
absl::StatusOr<Measurement> Measure() {
  Measurement measured;
  const double memcpy = MemcpyGigabytesPerSecond();
  for (const char* transport : {kCapstanUcxTcp.transport, kCapstanUcx.transport}) {
    const size_t lines_before = measured.lines.size();
    for (const CapstanTransport& chosen : kTransports) {
      if (chosen.contender.transport != absl::string_view(transport) || !IsChosen(chosen)) continue;
      ASSIGN_OR_RETURN(StepLine line, MeasureCapstan(chosen));
      measured.lines.push_back(std::move(line));
    }
    if (measured.lines.size() == lines_before || !absl::GetFlag(FLAGS_baselines)) continue;
    RETURN_IF_ERROR(MeasureBaselines(transport, &measured.lines));
  }
  measured.ratios = RatiosOf(measured.lines);
  measured.ratios["memcpy_gb_per_s"] = memcpy;
  return measured;
}

absl::Status CheckTransports() {
  const std::vector<std::string> names = absl::GetFlag(FLAGS_transport);
  if (names.empty()) return absl::InvalidArgumentError("--transport: expected one or more");
  for (const std::string& name : names) {
    const bool is_known =
        absl::c_any_of(kTransports, [&](const auto& transport) { return transport.flag == name; });
    if (is_known) continue;
    return absl::InvalidArgumentError("--transport: expected grpc, ucx_tcp or ucx, got " + name);
  }
  const int replicas = absl::GetFlag(FLAGS_replicas);
  const bool may_copy =
      names == std::vector<std::string>{"grpc"} && absl::GetFlag(FLAGS_servers) >= 2;
  if (replicas == 2 && !may_copy) {
    return absl::InvalidArgumentError(
        "--replicas=2: expected --transport=grpc and --servers=2 or more");
  }
  if (replicas != 1 && replicas != 2) {
    return absl::InvalidArgumentError("--replicas: expected 1 or 2");
  }
  return absl::OkStatus();
}

absl::Status CheckFlags() {
  RETURN_IF_ERROR(CheckTransports());
  RETURN_IF_ERROR(TransportOfFlags(kTransports[0]).Check());
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
  std::vector<std::vector<StepLine>> lines;
  std::vector<BenchmarkFigures> ratios;
  for (int i = 0; i < absl::GetFlag(FLAGS_repeat); ++i) {
    ASSIGN_OR_RETURN(Measurement measured, Measure());
    lines.push_back(std::move(measured.lines));
    ratios.push_back(std::move(measured.ratios));
  }
  const std::vector<StepLine> median_lines = MedianLines(lines);
  const BenchmarkFigures median_ratios = MediansOf(ratios);
  std::cout << LinesAsTable(median_lines) << "\n";
  PrintFigures(median_ratios);
  if (!absl::GetFlag(FLAGS_json)) return absl::OkStatus();
  BenchmarkFigures json;
  json["bytes"] = absl::GetFlag(FLAGS_bytes);
  json["slice_bytes"] = absl::GetFlag(FLAGS_slice_bytes);
  json["workers"] = absl::GetFlag(FLAGS_workers);
  json["servers"] = absl::GetFlag(FLAGS_servers);
  json["lines"] = LinesAsJson(median_lines);
  json.update(median_ratios);
  std::cout << json.dump() << std::endl;
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(
      argv[0],
      "measures one BSP step, from the push of all workers until all have the new values, and "
      "all-reduces of the same bytes by Gloo and Open MPI between as many processes. Each line "
      "names its transport. A ratio compares two lines of one transport.\n"
      "Over loopback TCP a server moves twice a ring's bytes: two workers send it both gradients "
      "and get the values twice, 4 times --bytes; a ring of two moves 2 times --bytes. Between "
      "machines, a worker's link carries as much as a link of that ring.\n"
      "  bsp_step_benchmark [--transport=grpc,ucx_tcp,ucx] [--bytes=67108864] [--json]");
  absl::Status status = capstan::ParseProgramFlags({argv, argv + argc});
  if (status.ok()) status = capstan::CheckFlags();
  if (!status.ok()) capstan::EndProgram("bsp_step_benchmark", status, /*is_usage_error=*/true);
  capstan::EndProgram("bsp_step_benchmark", capstan::Run());
}
