// exchange_benchmark: the rate of pushes and pulls between worker and server processes.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/transport/grpc/grpc_setup.h"
#include "tests/benchmark/common/benchmark_figures.h"
#include "tests/benchmark/common/benchmark_job.h"
#include "tests/benchmark/common/benchmark_transport.h"
#include "tests/benchmark/exchange/exchange_load.h"
#include "tests/process/child_results.h"
#include "tests/process/forked_process.h"

ABSL_FLAG(std::string, transport, "ucx", "grpc or ucx");
ABSL_FLAG(std::string, ucx_poll, "sleep",
          "UCX threads with nothing to do: sleep, or busy: each then takes a core");
ABSL_FLAG(std::string, ucx_transports, "",
          "UCX is restricted to these, as in tcp,self; empty: shared memory");
ABSL_FLAG(std::optional<int>, owner_threads, std::nullopt,
          "threads of a server for large exchanges over UCX, 0 or more; unset: as many as "
          "capstan_server has on this machine");
ABSL_FLAG(int, grpc_connections, 4, "connections of each worker to each server over gRPC");
ABSL_FLAG(std::string, keys, "",
          "folder of keys (capstan keys): with --transport=grpc, each measurement over TLS follows "
          "one in plaintext, and their ratio is printed; empty: plaintext");
ABSL_FLAG(uint64_t, bytes, 4 << 20, "bytes of an exchange: of its push, and of its pull");
ABSL_FLAG(uint64_t, slice_bytes, 1 << 20,
          "largest bytes of a slice; larger exchanges are cut into slices");
ABSL_FLAG(uint64_t, credit_bytes, 4 << 20,
          "most bytes of a worker on their way to servers, of exchanges with several slices");
ABSL_FLAG(int, inflight, 4, "exchanges of each worker in flight");
ABSL_FLAG(int, workers, 1, "worker processes");
ABSL_FLAG(int, servers, 1, "server processes");
ABSL_FLAG(std::string, optimizer, "sgd", "sgd, momentum, nesterov, adagrad, adam or adamw");
ABSL_FLAG(absl::Duration, warmup, absl::Milliseconds(500), "time before the count");
ABSL_FLAG(absl::Duration, duration, absl::Seconds(2), "counted time");
ABSL_FLAG(int, repeat, 1, "measurements; their medians are printed");
ABSL_FLAG(bool, json, false, "print one JSON object as the last line");

namespace capstan {
namespace {

using Parent = ForkedProcess::Parent;

// `keys`: those of this measurement.
BenchmarkTransport TransportOfFlags(const std::string& keys = "") {
  BenchmarkTransport transport;
  transport.transport = absl::GetFlag(FLAGS_transport);
  transport.ucx_poll = absl::GetFlag(FLAGS_ucx_poll);
  transport.ucx_transports = absl::GetFlag(FLAGS_ucx_transports);
  transport.owner_threads = absl::GetFlag(FLAGS_owner_threads);
  transport.grpc_connections = absl::GetFlag(FLAGS_grpc_connections);
  transport.keys = keys;
  return transport;
}

ExchangeLoad LoadOfFlags() {
  ExchangeLoad load;
  load.bytes = absl::GetFlag(FLAGS_bytes);
  load.slice_bytes = absl::GetFlag(FLAGS_slice_bytes);
  load.credit_bytes = absl::GetFlag(FLAGS_credit_bytes);
  load.inflight = absl::GetFlag(FLAGS_inflight);
  load.num_workers = absl::GetFlag(FLAGS_workers);
  load.num_servers = absl::GetFlag(FLAGS_servers);
  load.optimizer = absl::GetFlag(FLAGS_optimizer);
  return load;
}

absl::Status Serve(int server, const std::string& keys, Parent& parent) {
  SendGrpcLogsToVlog();
  RealClock clock;
  BenchmarkJob job = LoadOfFlags().Job();
  job.server_clock = &clock;
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardHost> host, job.MakeHost(server));
  return TransportOfFlags(keys).Serve(host.get(), parent);
}

// Tells the parent that it begins, and then its counts.
absl::Status Work(int worker, const std::string& keys, const std::vector<std::string>& addresses,
                  Parent& parent) {
  SendGrpcLogsToVlog();
  RealClock clock;
  ASSIGN_OR_RETURN(const SecurityPointer security,
                   GrpcSecurity::Open({keys, /*is_insecure=*/false, &clock}));
  const ServerConnector connect = TransportOfFlags().Connector(&clock, security);
  const std::unique_ptr<ParameterClient> client =
      LoadOfFlags().Job().MakeClient(addresses, connect, &clock);
  const absl::Time begin = clock.Now() + absl::GetFlag(FLAGS_warmup);
  const absl::Time end = begin + absl::GetFlag(FLAGS_duration);
  parent.WriteLine("begins");
  ASSIGN_OR_RETURN(ExchangeCount count,
                   RunExchanges(LoadOfFlags(), worker, client.get(), begin, end, &clock));
  std::sort(count.seconds.begin(), count.seconds.end());
  const auto percentile = [&count](double share) {
    if (count.seconds.empty()) return 0.0;
    return 1e6 * count.seconds[static_cast<size_t>(share * (count.seconds.size() - 1))];
  };
  parent.WriteLine(
      absl::StrCat(count.exchanges, " ", count.bytes, " ", percentile(0.5), " ", percentile(0.99)));
  parent.ReadLine();  // Until then the parent reads the CPU time.
  return absl::OkStatus();
}

using Children = std::vector<std::unique_ptr<ForkedProcess>>;

absl::Duration CpuTime(const Children& children) {
  absl::Duration sum;
  for (const auto& child : children) sum += child->CpuTime();
  return sum;
}

absl::StatusOr<BenchmarkFigures> Measure(const std::string& keys) {
  BenchmarkFigures figures;
  const double memcpy = MemcpyGigabytesPerSecond();
  const TcpFigures tcp = MeasureTcp(absl::GetFlag(FLAGS_bytes));
  Children servers, workers;
  for (int i = 0; i < absl::GetFlag(FLAGS_servers); ++i) {
    servers.push_back(StartChild([&, i](Parent& parent) { return Serve(i, keys, parent); }));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ChildResults(servers));
  for (int i = 0; i < absl::GetFlag(FLAGS_workers); ++i) {
    workers.push_back(
        StartChild([&, i](Parent& parent) { return Work(i, keys, addresses, parent); }));
  }
  RETURN_IF_ERROR(ChildResults(workers).status());
  absl::SleepFor(absl::GetFlag(FLAGS_warmup));
  const absl::Duration cpu_before = CpuTime(servers) + CpuTime(workers);
  absl::SleepFor(absl::GetFlag(FLAGS_duration));
  const absl::Duration cpu = CpuTime(servers) + CpuTime(workers) - cpu_before;
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ChildResults(workers));
  double exchanges = 0, bytes = 0, p50 = 0, p99 = 0;
  for (const std::string& line : lines) {
    double of_worker[4] = {};
    std::sscanf(line.c_str(), "%lf %lf %lf %lf", &of_worker[0], &of_worker[1], &of_worker[2],
                &of_worker[3]);
    exchanges += of_worker[0];
    bytes += of_worker[1];
    p50 = std::max(p50, of_worker[2]);
    p99 = std::max(p99, of_worker[3]);
  }
  const double seconds = absl::ToDoubleSeconds(absl::GetFlag(FLAGS_duration));
  figures["gb_per_s"] = bytes / seconds / 1e9;
  figures["exchanges_per_s"] = exchanges / seconds;
  figures["p50_us"] = p50;
  figures["p99_us"] = p99;
  figures["cpu_s_per_gb"] = bytes > 0 ? absl::ToDoubleSeconds(cpu) / (bytes / 1e9) : 0;
  figures["memcpy_gb_per_s"] = memcpy;
  figures["tcp_gb_per_s"] = tcp.gb_per_s;
  figures["tcp_cpu_s_per_gb"] = tcp.cpu_s_per_gb;
  return figures;
}

absl::Status CheckFlags() {
  RETURN_IF_ERROR(TransportOfFlags().Check());
  if (absl::GetFlag(FLAGS_bytes) < 4 || absl::GetFlag(FLAGS_bytes) % 4 != 0) {
    return absl::InvalidArgumentError("--bytes: expected whole float32, a multiple of 4");
  }
  const uint64_t slice_bytes = absl::GetFlag(FLAGS_slice_bytes);
  if (slice_bytes < 4 || slice_bytes % 4 != 0 ||
      (absl::GetFlag(FLAGS_bytes) > slice_bytes && absl::GetFlag(FLAGS_bytes) % slice_bytes != 0)) {
    return absl::InvalidArgumentError(
        "--slice_bytes: expected a multiple of 4, and --bytes a multiple of it, or less");
  }
  if (!absl::GetFlag(FLAGS_keys).empty() && absl::GetFlag(FLAGS_transport) != "grpc") {
    return absl::InvalidArgumentError("--keys: expected --transport=grpc, since UCX has no TLS");
  }
  if (absl::GetFlag(FLAGS_credit_bytes) < 1) {
    return absl::InvalidArgumentError("--credit_bytes: expected 1 or more");
  }
  for (const int count :
       {absl::GetFlag(FLAGS_inflight), absl::GetFlag(FLAGS_workers), absl::GetFlag(FLAGS_servers),
        absl::GetFlag(FLAGS_repeat), absl::GetFlag(FLAGS_grpc_connections)}) {
    if (count < 1) {
      return absl::InvalidArgumentError(
          "expected --inflight, --workers, --servers, --repeat and --grpc_connections of 1 or "
          "more");
    }
  }
  return absl::OkStatus();
}

absl::Status Run() {
  std::vector<BenchmarkFigures> runs;
  for (int i = 0; i < absl::GetFlag(FLAGS_repeat); ++i) {
    const std::string keys = absl::GetFlag(FLAGS_keys);
    double plaintext_gb_per_s = 0;
    if (!keys.empty()) {
      ASSIGN_OR_RETURN(const BenchmarkFigures plaintext, Measure(/*keys=*/""));
      plaintext_gb_per_s = plaintext["gb_per_s"];
    }
    ASSIGN_OR_RETURN(BenchmarkFigures figures, Measure(keys));
    if (!keys.empty()) {
      figures["plaintext_gb_per_s"] = plaintext_gb_per_s;
      figures["of_plaintext"] = figures["gb_per_s"].get<double>() / plaintext_gb_per_s;
    }
    runs.push_back(std::move(figures));
  }
  const BenchmarkFigures medians = MediansOf(runs);
  PrintFigures(medians);
  if (absl::GetFlag(FLAGS_json)) {
    BenchmarkFigures json;
    json["transport"] = absl::GetFlag(FLAGS_transport);
    json["bytes"] = absl::GetFlag(FLAGS_bytes);
    json["slice_bytes"] = absl::GetFlag(FLAGS_slice_bytes);
    json["credit_bytes"] = absl::GetFlag(FLAGS_credit_bytes);
    json["inflight"] = absl::GetFlag(FLAGS_inflight);
    json["workers"] = absl::GetFlag(FLAGS_workers);
    json["servers"] = absl::GetFlag(FLAGS_servers);
    json["optimizer"] = absl::GetFlag(FLAGS_optimizer);
    json.update(medians);
    std::cout << json.dump() << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(
      argv[0],
      "measures the rate of pushes and pulls between worker and server processes.\n"
      "  exchange_benchmark [--transport=ucx] [--bytes=4194304] [--json]");
  absl::Status status = capstan::ParseProgramFlags({argv, argv + argc});
  if (status.ok()) status = capstan::CheckFlags();
  if (!status.ok()) capstan::EndProgram("exchange_benchmark", status, /*is_usage_error=*/true);
  capstan::EndProgram("exchange_benchmark", capstan::Run());
}
