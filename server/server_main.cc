// capstan_server: holds shards of a job's parameters and applies the workers' updates.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/end_request.h"
#include "common/base/flag_help.h"
#include "common/base/log_format.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "common/net/listening_socket.h"
#include "common/transport/grpc/grpc_setup.h"
#include "server/service/server_process.h"

ABSL_FLAG(std::string, coordinator, "",
          "Address of the job's coordinator. Several with commas between them are tried in turn. "
          "Required.");
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
          "Address for probes over HTTP (/healthz, /readyz), without encryption. "
          "Ready: it is registered and has made its shards. Port 0 takes a free one.");
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
ABSL_FLAG(
    double, rpc_deadline_seconds, 30,
    "Time of retries while the coordinator cannot be reached. If it keeps its state, it has the "
    "job's --coordinator_seconds once it has answered.");
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
    {kCoordinator, "coordinator", "HOST:PORT,..."},
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

constexpr char kName[] = "capstan_server";

void EndServer(const absl::Status& status) { EndProgram(kName, status); }

ServerProcess::Options ProcessOptions(EndRequest* end) {
  ServerProcess::Options options;
  options.context.keys = absl::GetFlag(FLAGS_keys);
  options.context.insecure = absl::GetFlag(FLAGS_insecure);
  options.context.health_listen = absl::GetFlag(FLAGS_health_listen);
  options.context.metrics_listen = absl::GetFlag(FLAGS_metrics_listen);
  options.coordinator = absl::GetFlag(FLAGS_coordinator);
  options.rpc_deadline = absl::Seconds(absl::GetFlag(FLAGS_rpc_deadline_seconds));
  options.connect_deadline = absl::Seconds(absl::GetFlag(FLAGS_connect_seconds));
  options.listen = absl::GetFlag(FLAGS_listen);
  options.network = absl::GetFlag(FLAGS_network);
  options.advertise_host = absl::GetFlag(FLAGS_advertise_host);
  options.max_connections = absl::GetFlag(FLAGS_max_connections);
  options.trace = absl::GetFlag(FLAGS_trace);
  options.end = end;
  options.on_ucx_blocked = &EndServer;
  return options;
}

// Sets `has_begun` once the flags are known to be right.
absl::Status Serve(EndRequest* end, bool* has_begun) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ServerProcess> process,
                   ServerProcess::Create(ProcessOptions(end)));
  const absl::Status status = process->Run();
  *has_begun = process->has_begun();
  return status;
}

// Tells the coordinator that a server of its job has a wrong command line.
void ReportUsageError(const absl::Status& error) {
  ServerProcess::Options options = ProcessOptions(/*end=*/nullptr);
  options.connect_deadline = absl::ZeroDuration();
  const absl::StatusOr<std::unique_ptr<ServerProcess>> process =
      ServerProcess::Create(std::move(options));
  // Otherwise --keys or --coordinator is wrong, too.
  if (process.ok()) (*process)->ReportUsageError(error);
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
