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
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/base/program.h"
#include "common/base/random.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/membership/grpc_coordinator_client.h"
#include "common/membership/member_agent.h"
#include "common/membership/start_trace.h"
#include "common/routing/routing_table.h"
#include "common/trace/tracer.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/grpc/grpc_setup.h"
#include "common/transport/grpc/stream_limit.h"
#include "common/transport/reply_order.h"
#include "common/transport/ucx/grpc_ucx_service.h"
#include "common/transport/ucx/ucx_transport.h"
#include "server/service/parameter_server.h"
#include "server/shard/owner_threads.h"

ABSL_FLAG(std::string, coordinator, "", "host:port of the job's coordinator; required");
ABSL_FLAG(std::string, listen, "127.0.0.1:0",
          "host:port to serve on, reachable for the workers; port 0 takes a free one");
ABSL_FLAG(std::string, advertise_host, "",
          "host of this server for workers, if it differs from the host of --listen; required with "
          "--listen=0.0.0.0:4000");
ABSL_FLAG(uint32_t, max_connections, 0,
          "limit of open connections, and of workers' streams on them; more are refused. 0: twice "
          "the number for the job's workers, so others can take their places");
ABSL_FLAG(double, rpc_deadline_seconds, 30,
          "seconds of retries while the coordinator cannot be reached");

ABSL_FLAG(std::string, trace, "",
          "file for a trace of this server's work over time, for Perfetto, chrome://tracing or "
          "capstan trace; empty: none");

namespace capstan {
namespace {

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

// INVALID_ARGUMENT if workers cannot learn this server's address from the flags.
absl::Status CheckAdvertisedHost() {
  const std::string listen = absl::GetFlag(FLAGS_listen);
  const std::string advertised = absl::GetFlag(FLAGS_advertise_host);
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

// Tells the coordinator that a server of its job has a wrong command line.
void ReportUsageError(const absl::Status& error) {
  RealClock clock;
  const absl::StatusOr<std::unique_ptr<CoordinatorEndpoint>> coordinator = ConnectToCoordinator(
      absl::GetFlag(FLAGS_coordinator), absl::Seconds(absl::GetFlag(FLAGS_rpc_deadline_seconds)),
      &clock, Random(SystemRandom()));
  if (!coordinator.ok()) return;  // --coordinator is wrong, too.
  LOG(ERROR) << error.message() << "; tells the coordinator";
  ReportEarlyFailure(**coordinator, v1::HeartbeatRequest::SERVER, Incarnation(SystemRandom()),
                     error, clock);
}

// The server's address for workers: --advertise_host, with the port of `listening`.
std::string AdvertisedAddress(const std::string& listening) {
  const std::string host = absl::GetFlag(FLAGS_advertise_host);
  return host.empty() ? listening : host + listening.substr(listening.rfind(':'));
}

// A worker of a running job has grpc_connections streams of exchanges to each server, and one
// stream to open UCX. The server admits twice as many.
uint32_t MaxConnections(const v1::JobSpec& job) {
  if (const uint32_t given = absl::GetFlag(FLAGS_max_connections); given > 0) return given;
  return 2 * job.cluster().num_workers() * (job.transport().grpc_connections() + 1);
}

void EndServer(const absl::Status& status) { EndProgram("capstan_server", status); }

// Null: nothing is traced.
absl::StatusOr<std::unique_ptr<Tracer>> StartTraceIfAsked(CoordinatorEndpoint& coordinator,
                                                          Clock& clock) {
  const std::string path = absl::GetFlag(FLAGS_trace);
  if (path.empty()) return nullptr;
  return StartTrace(path, coordinator, &clock);
}

absl::Status Serve() {
  RealClock clock;
  ASSIGN_OR_RETURN(const std::unique_ptr<CoordinatorEndpoint> coordinator,
                   ConnectToCoordinator(absl::GetFlag(FLAGS_coordinator),
                                        absl::Seconds(absl::GetFlag(FLAGS_rpc_deadline_seconds)),
                                        &clock, Random(SystemRandom())));

  ParameterServer::Options options;
  options.clock = &clock;
  options.coordinator = coordinator.get();
  options.incarnation = Incarnation(SystemRandom());
  options.host = HostAndNetwork();
  const absl::StatusOr<std::unique_ptr<Tracer>> tracer = StartTraceIfAsked(*coordinator, clock);
  if (!tracer.ok()) {
    ReportEarlyFailure(*coordinator, v1::HeartbeatRequest::SERVER, options.incarnation,
                       tracer.status(), clock);
    return tracer.status();
  }
  options.tracer = tracer->get();
  ParameterServer server(options);
  std::optional<StreamLimit> streams;
  OwnerThreads owners(&server, &clock, OwnerThreads::DefaultCount());
  std::unique_ptr<UcxTransport> ucx;  // null: not wanted, or not available
  std::unique_ptr<UcxTransport::Listener> ucx_listener;
  std::unique_ptr<GrpcUcxService> ucx_service;
  std::unique_ptr<GrpcParameterService> service;
  std::unique_ptr<GrpcServer> listening;
  absl::Status status = server.Run([&](const v1::JobSpec& job) -> absl::StatusOr<ServerAddress> {
    const auto layer_of = [&server](TableId table) { return server.LayerOf(table); };
    const auto credit = [&server] { return server.credit_bytes(); };
    streams.emplace(MaxConnections(job));
    service = std::make_unique<GrpcParameterService>(
        &server, job.transport().max_inflight_bytes(),
        ReplyOrderOfJob(job.scheduler(), job.transport().grpc_connections(), layer_of, credit),
        &*streams);
    std::vector<grpc::Service*> services = {service.get()};
    ASSIGN_OR_RETURN(ucx, StartUcxTransportOfJob(job.transport(), &clock, &EndServer));
    if (ucx != nullptr) {
      ucx_listener = ucx->Listen(
          &owners, ReplyOrderOfJob(job.scheduler(), /*connections=*/1, layer_of, credit));
      ucx_service = std::make_unique<GrpcUcxService>(ucx_listener.get(), &*streams);
      services.push_back(ucx_service.get());
    }
    ASSIGN_OR_RETURN(listening,
                     GrpcServer::Start(absl::GetFlag(FLAGS_listen), services, MaxConnections(job)));
    return ServerAddress{AdvertisedAddress(listening->address())};
  });
  // Streams for UCX do not end by themselves.
  if (ucx_listener != nullptr) ucx_listener->EndAll();
  if (listening != nullptr) listening->Shutdown(clock.Now() + absl::Seconds(1));
  const absl::Status traced = *tracer == nullptr ? absl::OkStatus() : (*tracer)->Finish();
  return status.ok() ? traced : status;
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "holds a part of a job's parameters and applies the workers' updates.\n"
                       "  capstan_server --coordinator=HOST:PORT [--listen=HOST:PORT]");
  absl::Status parsed = capstan::ParseProgramFlags({argv, argv + argc});
  capstan::SendGrpcLogsToVlog();
  if (parsed.ok()) {
    parsed = capstan::CheckAdvertisedHost();
    if (!parsed.ok()) capstan::ReportUsageError(parsed);
  }
  if (!parsed.ok()) {
    capstan::EndProgram("capstan_server", parsed, /*is_usage_error=*/true);
  }
  capstan::EndServer(capstan::Serve());
}
