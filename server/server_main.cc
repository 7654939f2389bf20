// capstan_server: holds shards of a job's parameters and applies the workers' updates.
#include <arpa/inet.h>
#include <glog/logging.h>
#include <netinet/in.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/end_request.h"
#include "common/base/flag_help.h"
#include "common/base/ids.h"
#include "common/base/log_format.h"
#include "common/base/open_files.h"
#include "common/base/program.h"
#include "common/base/random.h"
#include "common/base/readiness.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/membership/grpc_coordinator_client.h"
#include "common/membership/member_agent.h"
#include "common/membership/start_trace.h"
#include "common/metrics/metrics_page.h"
#include "common/metrics/metrics_sources.h"
#include "common/routing/routing_table.h"
#include "common/trace/tracer.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/grpc/grpc_setup.h"
#include "common/transport/grpc/listening_socket.h"
#include "common/transport/grpc/process_listeners.h"
#include "common/transport/grpc/stream_limit.h"
#include "common/transport/own_address.h"
#include "common/transport/reply_order.h"
#include "common/transport/trust/make_keys.h"
#include "common/transport/ucx/grpc_ucx_service.h"
#include "common/transport/ucx/ucx_transport.h"
#include "server/service/grpc_reader_service.h"
#include "server/service/parameter_server.h"
#include "server/service/server_metrics.h"
#include "server/shard/owner_threads.h"

ABSL_FLAG(std::string, coordinator, "", "Address of the job's coordinator. Required.");
ABSL_FLAG(std::string, listen, "127.0.0.1:0",
          "Address to serve on, reachable for the workers. Port 0 takes a free one.");
ABSL_FLAG(std::string, advertise_host, "",
          "Host of this server for workers, if it differs from the host of --listen. Required with "
          "--listen=0.0.0.0:4000.");
ABSL_FLAG(std::string, network, "",
          "Network in which the server listens, and whose address workers are told: an interface, "
          "such as eth1, or a range of addresses, such as 10.0.0.0/16. Of --listen only the port "
          "counts then.");
ABSL_FLAG(std::string, health_listen, "",
          "Address for probes: HTTP (/healthz, /readyz) and gRPC's health service, without "
          "encryption. Ready: it is registered and has made its shards. Port 0 takes a free one.");
ABSL_FLAG(std::string, log_format, "text",
          "Log on standard error: text, or json: an object a line with time, level, role, message "
          "and source, and id, step and reason where they are known.");
ABSL_FLAG(std::string, metrics_listen, "",
          "Address for metrics: /metrics has Prometheus's text format, without encryption. It is "
          "numbers and the job's name. Port 0 takes a free one.");
ABSL_FLAG(
    uint32_t, max_connections, 0,
    "Limit of open connections of members, and of workers' streams. More are refused. 0: twice "
    "the number for the job's workers, so others can take their places.");
ABSL_FLAG(std::string, keys, "",
          "Folder with this process's keys for TLS and the job's token (capstan keys makes one). "
          "None: plaintext, within this machine.");
ABSL_FLAG(
    bool, insecure, false,
    "Plaintext also from and to other machines: only in a network that you trust. With --keys "
    "callers prove the job's token.");
ABSL_FLAG(double, rpc_deadline_seconds, 30,
          "Time of retries while the coordinator cannot be reached.");
ABSL_FLAG(double, connect_seconds, 0,
          "Time of retries until the coordinator answers for the first time, if it is longer than "
          "--rpc_deadline_seconds.");

ABSL_FLAG(std::string, trace, "",
          "File for a trace of this server's work over time, for Perfetto, chrome://tracing or "
          "capstan trace.");

namespace capstan {
namespace {

constexpr char kUsage[] =
    R"(Usage: capstan_server --coordinator=HOST:PORT [--listen=HOST:PORT] [flags]

Holds a part of a job's parameters and applies the workers' updates. After a SIGTERM it ends the job,
because its parameters are lost, and exits with 143.

)";

constexpr absl::string_view kCoordinator = "Its job";
constexpr absl::string_view kListens = "Where it listens";
constexpr absl::string_view kTrust = "Trust";
constexpr absl::string_view kMonitoring = "Probes, metrics, logs and traces";

constexpr ProgramFlag kFlags[] = {
    {kCoordinator, "coordinator", "HOST:PORT"},
    {kCoordinator, "rpc_deadline_seconds", "SECONDS"},
    {kCoordinator, "connect_seconds", "SECONDS"},
    {kListens, "listen", "HOST:PORT"},
    {kListens, "network", "INTERFACE|RANGE"},
    {kListens, "advertise_host", "HOST"},
    {kListens, "max_connections", "N"},
    {kTrust, "keys", "DIR"},
    {kTrust, "insecure", ""},
    {kMonitoring, "health_listen", "HOST:PORT"},
    {kMonitoring, "metrics_listen", "HOST:PORT"},
    {kMonitoring, "log_format", "text|json"},
    {kMonitoring, "trace", "FILE"},
};

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// 0.0.0.0 or [::], in any spelling.
bool IsEveryInterface(const std::string& host) {
  in_addr ipv4;
  if (inet_aton(host.c_str(), &ipv4) != 0) return ipv4.s_addr == INADDR_ANY;
  in6_addr ipv6;
  const absl::string_view address = absl::StripSuffix(absl::StripPrefix(host, "["), "]");
  return address.empty() || (inet_pton(AF_INET6, std::string(address).c_str(), &ipv6) == 1 &&
                             IN6_IS_ADDR_UNSPECIFIED(&ipv6));
}

// INVALID_ARGUMENT if the server cannot listen, or if workers cannot learn its address, by the
// flags.
absl::Status CheckAdvertisedHost() {
  const std::string listen = absl::GetFlag(FLAGS_listen);
  RETURN_IF_ERROR(ParseListenAddress("--listen", listen).status());
  const std::string advertised = absl::GetFlag(FLAGS_advertise_host);
  if (advertised.empty() && !absl::GetFlag(FLAGS_network).empty()) return absl::OkStatus();
  if (!IsEveryInterface(advertised.empty() ? HostOf(listen) : advertised)) return absl::OkStatus();
  if (!advertised.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--advertise_host: expected the host under which workers reach this server, "
                     "got \"",
                     advertised, "\", which is every interface of a machine"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--advertise_host: expected the host under which workers reach this server, as "
                   "--listen=",
                   listen, " is every interface of this machine, got \"\""));
}

absl::StatusOr<SecurityPointer> OpenSecurity(Clock& clock) {
  return GrpcSecurity::Open({absl::GetFlag(FLAGS_keys), absl::GetFlag(FLAGS_insecure), &clock,
                             /*listens=*/true});
}

// Tells the coordinator that a server of its job has a wrong command line.
void ReportUsageError(const absl::Status& error) {
  RealClock clock;
  const absl::StatusOr<SecurityPointer> security = OpenSecurity(clock);
  if (!security.ok()) return;  // --keys is wrong, too.
  const absl::StatusOr<std::unique_ptr<CoordinatorEndpoint>> coordinator = ConnectToCoordinator(
      absl::GetFlag(FLAGS_coordinator), absl::Seconds(absl::GetFlag(FLAGS_rpc_deadline_seconds)),
      &clock, Random(SystemRandom()), *security);
  if (!coordinator.ok()) return;  // --coordinator is wrong, too.
  LOG(ERROR) << error.message() << "; tells the coordinator";
  ReportEarlyFailure(**coordinator, v1::HeartbeatRequest::SERVER, Incarnation(SystemRandom()),
                     error, clock);
}

// Where the server listens, and the host that workers are told.
struct Place {
  std::string listen;          // host:port
  std::string announced_host;  // empty: that of `listen`
};

absl::StatusOr<Place> PlaceFromFlags(const GrpcSecurity& security) {
  Place place = {absl::GetFlag(FLAGS_listen), absl::GetFlag(FLAGS_advertise_host)};
  const std::string network = absl::GetFlag(FLAGS_network);
  if (network.empty()) return place;
  ASSIGN_OR_RETURN(const ListenAddress listen, ParseListenAddress("--listen", place.listen));
  ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> addresses, InterfaceAddresses());
  ASSIGN_OR_RETURN(const std::string address, AddressIn(network, addresses));
  place.listen = HostAndPort(address, listen.port);
  if (!place.announced_host.empty()) return place;
  std::vector<std::string> certified;
  if (const std::optional<TlsKeys> keys = security.tls_keys(); keys.has_value()) {
    ASSIGN_OR_RETURN(CertificateSpec certificate, DescribeCertificate(keys->identity));
    certified = std::move(certificate.hosts);
  }
  ASSIGN_OR_RETURN(place.announced_host, HostToAnnounce(address, certified));
  return place;
}

// The server's address for workers, at the port of `listening`.
std::string AdvertisedAddress(const Place& place, const std::string& listening) {
  const std::string& host = place.announced_host;
  const size_t colon = listening.rfind(':');
  int port = 0;
  if (host.empty() || !absl::SimpleAtoi(listening.substr(colon + 1), &port)) return listening;
  return HostAndPort(host, port);
}

// A worker of a running job has grpc_connections streams of exchanges to each server, and one
// stream to open UCX. The server admits twice as many.
uint32_t MaxConnections(const v1::JobSpec& job) {
  if (const uint32_t given = absl::GetFlag(FLAGS_max_connections); given > 0) return given;
  return 2 * job.cluster().num_workers() * (job.transport().grpc_connections() + 1);
}

constexpr char kName[] = "capstan_server";

void EndServer(const absl::Status& status) { EndProgram(kName, status); }

// Null: nothing is traced.
absl::StatusOr<std::unique_ptr<Tracer>> StartTraceIfAsked(CoordinatorEndpoint& coordinator,
                                                          Clock& clock) {
  const std::string path = absl::GetFlag(FLAGS_trace);
  if (path.empty()) return nullptr;
  return StartTrace(path, coordinator, &clock);
}

// Sets `has_begun` once the flags are known to be right.
absl::Status Serve(EndRequest* end, bool* has_begun) {
  RealClock clock;
  CallGuard::Options guarded;
  guarded.clock = &clock;
  ASSIGN_OR_RETURN(guarded.security, OpenSecurity(clock));
  ASSIGN_OR_RETURN(const std::unique_ptr<CoordinatorEndpoint> coordinator,
                   ConnectToCoordinator(absl::GetFlag(FLAGS_coordinator),
                                        absl::Seconds(absl::GetFlag(FLAGS_rpc_deadline_seconds)),
                                        &clock, Random(SystemRandom()), guarded.security,
                                        absl::Seconds(absl::GetFlag(FLAGS_connect_seconds))));
  CallGuard guard(guarded);

  ParameterServer::Options options;
  options.clock = &clock;
  options.coordinator = coordinator.get();
  options.incarnation = Incarnation(SystemRandom());
  Readiness readiness(absl::UnavailableError("waits for the coordinator"));
  MetricsSources metrics;
  const absl::StatusOr<ProcessListeners> listeners =
      StartProcessListeners(absl::GetFlag(FLAGS_health_listen), absl::GetFlag(FLAGS_metrics_listen),
                            readiness, metrics, &clock);
  if (!listeners.ok()) {
    ReportEarlyFailure(*coordinator, v1::HeartbeatRequest::SERVER, options.incarnation,
                       listeners.status(), clock);
    return listeners.status();
  }
  options.metrics = &metrics;
  options.end = end;
  options.on_readiness = [&readiness](absl::Status status) { readiness.Set(std::move(status)); };
  options.host = HostAndNetwork();
  const absl::StatusOr<Place> place = PlaceFromFlags(*guarded.security);
  if (!place.ok()) {
    ReportEarlyFailure(*coordinator, v1::HeartbeatRequest::SERVER, options.incarnation,
                       place.status(), clock);
    return place.status();
  }
  const absl::StatusOr<std::unique_ptr<Tracer>> tracer = StartTraceIfAsked(*coordinator, clock);
  if (!tracer.ok()) {
    ReportEarlyFailure(*coordinator, v1::HeartbeatRequest::SERVER, options.incarnation,
                       tracer.status(), clock);
    return tracer.status();
  }
  options.tracer = tracer->get();
  ReplyMemory reply_memory;  // the server's parked replies use it to their end
  ParameterServer server(options);
  std::optional<StreamLimit> streams;
  OwnerThreads owners(&server, &clock, OwnerThreads::DefaultCount());
  std::unique_ptr<UcxTransport> ucx;  // null: not wanted, or not available
  std::unique_ptr<UcxTransport::Listener> ucx_listener;
  std::unique_ptr<GrpcUcxService> ucx_service;
  std::unique_ptr<GrpcParameterService> service;
  GrpcReaderService reader_service(&server, &guard);
  std::unique_ptr<GrpcServer> listening;
  MetricsSources::Registration counts;  // of connections
  absl::Status status = server.Run([&](const v1::JobSpec& job) -> absl::StatusOr<ServerAddress> {
    const auto layer_of = [&server](TableId table) { return server.LayerOf(table); };
    const auto credit = [&server] { return server.credit_bytes(); };
    const auto order = [&](uint32_t connections) {
      ReplyOrder result = ReplyOrderOfJob(job.scheduler(), connections, layer_of, credit);
      result.memory = &reply_memory;
      return result;
    };
    streams.emplace(MaxConnections(job));
    service = std::make_unique<GrpcParameterService>(&server, job.transport().max_inflight_bytes(),
                                                     order(job.transport().grpc_connections()),
                                                     &*streams, &guard);
    std::vector<grpc::Service*> services = {service.get(), &reader_service};
    ASSIGN_OR_RETURN(ucx, StartUcxTransportOfJob(job.transport(), &clock, &EndServer,
                                                 {guard.security(), job.name()}));
    if (ucx != nullptr) {
      ucx_listener = ucx->Listen(&owners, order(/*connections=*/1));
      ucx_service =
          std::make_unique<GrpcUcxService>(ucx_listener.get(), &*streams, &guard, job.name());
      services.push_back(ucx_service.get());
    }
    RETURN_IF_ERROR(ExpectOpenFiles(uint64_t{job.cluster().num_workers()} *
                                    job.transport().grpc_connections()));
    GrpcServer::Options listens;
    listens.guard = &guard;
    listens.max_connections = MaxConnections(job);
    listens.limits = job.limits();
    ASSIGN_OR_RETURN(listening, GrpcServer::Start(place->listen, services, listens));
    *has_begun = true;
    const std::string address = AdvertisedAddress(*place, listening->address());
    guard.set_audience(address);
    // Over UCX a worker has one connection.
    const uint64_t reply_limit = uint64_t{job.cluster().num_workers()} *
                                 (ucx != nullptr ? 1 : job.transport().grpc_connections()) *
                                 job.transport().max_inflight_bytes();
    counts = metrics.Add([&, reply_limit](MetricsPage& page) {
      AddConnectionMetrics(guard, *listening, page);
      AddReplyMetrics(reply_memory.bytes(), reply_limit, page);
    });
    return ServerAddress{address};
  });
  counts = MetricsSources::Registration();
  // Streams for UCX do not end by themselves.
  if (ucx_listener != nullptr) ucx_listener->EndAll();
  if (listening != nullptr) LogRefused(guard, *listening);
  if (listening != nullptr) listening->Shutdown(clock.Now() + absl::Seconds(1));
  const absl::Status traced = *tracer == nullptr ? absl::OkStatus() : (*tracer)->Finish();
  return status.ok() ? traced : status;
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::EndRequest end;
  capstan::InitProgram(argv[0], capstan::kUsage);
  capstan::EndOnTermination(&end);
  std::vector<std::string> args(argv, argv + argc);
  absl::Status parsed = capstan::BeginRole(
      "server", capstan::kUsage + capstan::ProgramFlagsHelp(capstan::kFlags), &args);
  if (parsed.ok()) parsed = capstan::ParseProgramFlags(args);
  parsed.Update(capstan::SetLogFormat(absl::GetFlag(FLAGS_log_format)));
  capstan::SendGrpcLogsToVlog();
  if (parsed.ok()) {
    parsed = capstan::CheckAdvertisedHost();
    if (!parsed.ok()) capstan::ReportUsageError(parsed);
  }
  if (!parsed.ok()) {
    capstan::EndProgram(capstan::kName, parsed, /*is_usage_error=*/true);
  }
  bool has_begun = false;
  const absl::Status status = capstan::Serve(&end, &has_begun);
  if (!status.ok() && end.is_asked()) capstan::EndTerminatedProgram(capstan::kName, status);
  capstan::EndProgram(capstan::kName, status,
                      /*is_usage_error=*/!has_begun && absl::IsInvalidArgument(status));
}
