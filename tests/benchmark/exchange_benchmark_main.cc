// exchange_benchmark: how fast workers and servers, each a process, push and pull.
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc_endpoint.h"
#include "common/transport/grpc_logging.h"
#include "common/transport/ucx_transport.h"
#include "server/service/grpc_parameter_service.h"
#include "server/service/grpc_server.h"
#include "tests/benchmark/exchange_load.h"
#include "tests/benchmark/machine_canary.h"
#include "tests/process/forked_process.h"

ABSL_FLAG(std::string, transport, "ucx", "grpc or ucx");
ABSL_FLAG(std::string, ucx_poll, "sleep",
          "what UCX threads do while nothing happens: sleep, or busy, which takes a core for each");
ABSL_FLAG(std::string, ucx_transports, "",
          "transports that UCX may use, as in tcp,self; empty: it chooses");
ABSL_FLAG(uint64_t, bytes, 4 << 20, "bytes of a slice: of a push, and of a pull");
ABSL_FLAG(int, inflight, 4, "exchanges that each worker has in flight, each of another slice");
ABSL_FLAG(int, workers, 1, "worker processes");
ABSL_FLAG(int, servers, 1, "server processes");
ABSL_FLAG(std::string, optimizer, "sgd", "sgd, momentum, nesterov, adagrad, adam or adamw");
ABSL_FLAG(absl::Duration, warmup, absl::Milliseconds(500), "time before anything is counted");
ABSL_FLAG(absl::Duration, duration, absl::Seconds(2), "time that is counted");
ABSL_FLAG(int, repeat, 1, "measurements, of whose figures medians are printed");
ABSL_FLAG(bool, json, false, "print one JSON object as the last line");

namespace capstan {
namespace {

using Parent = ForkedProcess::Parent;

UcxTransport::Options UcxOptions(Clock* clock) {
  UcxTransport::Options options;
  options.clock = clock;
  options.polls = absl::GetFlag(FLAGS_ucx_poll) == "busy";
  options.transports = absl::GetFlag(FLAGS_ucx_transports);
  return options;
}

ExchangeLoad LoadOfFlags() {
  ExchangeLoad load;
  load.slice_bytes = absl::GetFlag(FLAGS_bytes);
  load.inflight = absl::GetFlag(FLAGS_inflight);
  load.num_workers = absl::GetFlag(FLAGS_workers);
  load.num_servers = absl::GetFlag(FLAGS_servers);
  load.optimizer = absl::GetFlag(FLAGS_optimizer);
  return load;
}

// Serves until it is killed; says its address first, or "error: ...".
absl::Status Serve(int server, Parent& parent) {
  RealClock clock;
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardHost> host, LoadOfFlags().MakeHost(server));
  if (absl::GetFlag(FLAGS_transport) == "grpc") {
    GrpcParameterService service(host.get());
    ASSIGN_OR_RETURN(const std::unique_ptr<GrpcServer> listening,
                     GrpcServer::Start("127.0.0.1:0", {&service}));
    parent.WriteLine(listening->address());
    parent.ReadLine();
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<UcxTransport> ucx, StartUcxTransport(UcxOptions(&clock)));
  ASSIGN_OR_RETURN(const std::unique_ptr<UcxTransport::Listener> listening,
                   ucx->Listen("127.0.0.1:0", host.get()));
  parent.WriteLine(listening->address());
  parent.ReadLine();
  return absl::OkStatus();
}

// Waits for the servers' addresses and the times, and says what it has counted.
absl::Status Work(int worker, Parent& parent) {
  RealClock clock;
  const std::vector<std::string> addresses = absl::StrSplit(parent.ReadLine(), ' ');
  std::unique_ptr<UcxTransport> ucx;
  if (absl::GetFlag(FLAGS_transport) == "ucx") {
    ASSIGN_OR_RETURN(ucx, StartUcxTransport(UcxOptions(&clock)));
  }
  const absl::Time begin = clock.Now() + absl::GetFlag(FLAGS_warmup);
  const absl::Time end = begin + absl::GetFlag(FLAGS_duration);
  parent.WriteLine("begins");
  ASSIGN_OR_RETURN(ExchangeCount count,
                   RunExchanges(
                       LoadOfFlags(), worker, addresses,
                       [&](const std::string& address) -> std::unique_ptr<ParameterEndpoint> {
                         if (ucx != nullptr) return ucx->Connect(address);
                         return std::make_unique<GrpcEndpoint>(address, &clock);
                       },
                       begin, end, &clock));
  std::sort(count.seconds.begin(), count.seconds.end());
  const auto percentile = [&count](double share) {
    if (count.seconds.empty()) return 0.0;
    return 1e6 * count.seconds[static_cast<size_t>(share * (count.seconds.size() - 1))];
  };
  parent.WriteLine(
      absl::StrCat(count.exchanges, " ", count.bytes, " ", percentile(0.5), " ", percentile(0.99)));
  return absl::OkStatus();
}

template <typename Run>
auto Child(Run run, int number) {
  return std::make_unique<ForkedProcess>([run, number](Parent& parent) {
    SendGrpcLogsToVlog();
    const absl::Status status = run(number, parent);
    if (!status.ok()) parent.WriteLine(absl::StrCat("error: ", status.message()));
    ExitProgram(0);
  });
}

absl::StatusOr<std::string> LineOf(ForkedProcess& child) {
  std::string line = child.ReadLine();
  if (line.empty()) return absl::InternalError("a process died; see its log above");
  if (line.rfind("error: ", 0) == 0) return absl::InternalError(line.substr(7));
  return line;
}

using Figures = nlohmann::ordered_json;

absl::StatusOr<Figures> Measure() {
  Figures figures;
  const double memcpy = MemcpyGigabytesPerSecond();
  const double tcp = TcpGigabytesPerSecond(absl::GetFlag(FLAGS_bytes));
  std::vector<std::unique_ptr<ForkedProcess>> children;
  std::vector<std::string> addresses;
  for (int i = 0; i < absl::GetFlag(FLAGS_servers); ++i) {
    children.push_back(Child(&Serve, i));
    ASSIGN_OR_RETURN(const std::string address, LineOf(*children.back()));
    addresses.push_back(address);
  }
  const size_t first_worker = children.size();
  for (int i = 0; i < absl::GetFlag(FLAGS_workers); ++i) children.push_back(Child(&Work, i));
  const auto cpu_time = [&children] {
    absl::Duration sum;
    for (const auto& child : children) sum += child->CpuTime();
    return sum;
  };
  for (size_t i = first_worker; i < children.size(); ++i) {
    children[i]->WriteLine(absl::StrJoin(addresses, " "));
    RETURN_IF_ERROR(LineOf(*children[i]).status());
  }
  absl::SleepFor(absl::GetFlag(FLAGS_warmup));
  const absl::Duration cpu_before = cpu_time();
  absl::SleepFor(absl::GetFlag(FLAGS_duration));
  const double cpu = absl::ToDoubleSeconds(cpu_time() - cpu_before);
  double exchanges = 0, bytes = 0, p50 = 0, p99 = 0;
  for (size_t i = first_worker; i < children.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string line, LineOf(*children[i]));
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
  figures["cpu_s_per_gb"] = bytes > 0 ? cpu / (bytes / 1e9) : 0;
  figures["memcpy_gb_per_s"] = memcpy;
  figures["tcp_gb_per_s"] = tcp;
  return figures;
}

absl::Status CheckFlags() {
  const std::string transport = absl::GetFlag(FLAGS_transport);
  if (transport != "grpc" && transport != "ucx") {
    return absl::InvalidArgumentError("--transport: expected grpc or ucx, got " + transport);
  }
  if (const std::string poll = absl::GetFlag(FLAGS_ucx_poll); poll != "sleep" && poll != "busy") {
    return absl::InvalidArgumentError("--ucx_poll: expected sleep or busy, got " + poll);
  }
  if (absl::GetFlag(FLAGS_bytes) < 4 || absl::GetFlag(FLAGS_bytes) % 4 != 0) {
    return absl::InvalidArgumentError("--bytes: expected whole float32, a multiple of 4");
  }
  for (const int count : {absl::GetFlag(FLAGS_inflight), absl::GetFlag(FLAGS_workers),
                          absl::GetFlag(FLAGS_servers), absl::GetFlag(FLAGS_repeat)}) {
    if (count < 1) {
      return absl::InvalidArgumentError(
          "expected --inflight, --workers, --servers and --repeat of 1 or more");
    }
  }
  return absl::OkStatus();
}

absl::Status Run() {
  std::vector<Figures> runs;
  for (int i = 0; i < absl::GetFlag(FLAGS_repeat); ++i) {
    ASSIGN_OR_RETURN(Figures figures, Measure());
    runs.push_back(std::move(figures));
  }
  Figures medians;
  for (const auto& [key, unused] : runs[0].items()) {
    std::vector<double> values;
    for (const Figures& figures : runs) values.push_back(figures[key]);
    std::sort(values.begin(), values.end());
    medians[key] = values[values.size() / 2];
    std::cout << absl::StrFormat("%-18s %12.4g\n", key, values[values.size() / 2]);
  }
  if (absl::GetFlag(FLAGS_json)) {
    Figures json;
    json["transport"] = absl::GetFlag(FLAGS_transport);
    json["bytes"] = absl::GetFlag(FLAGS_bytes);
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
  capstan::InitProgram(argv[0],
                       "measures how fast workers and servers, each a process, push and pull.\n"
                       "  exchange_benchmark [--transport=ucx] [--bytes=4194304] [--json]");
  absl::Status status = capstan::ParseProgramFlags({argv, argv + argc});
  if (status.ok()) status = capstan::CheckFlags();
  if (!status.ok()) capstan::EndProgram("exchange_benchmark", status, /*is_usage_error=*/true);
  capstan::EndProgram("exchange_benchmark", capstan::Run());
}
