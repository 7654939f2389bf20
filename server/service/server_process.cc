#include "server/service/server_process.h"

#include <glog/logging.h>

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/base/process_limits.h"
#include "common/base/program.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/membership/grpc_coordinator_client.h"
#include "common/membership/member_agent.h"
#include "common/metrics/metrics_page.h"
#include "common/net/listening_socket.h"
#include "common/net/own_address.h"
#include "common/transport/grpc/grpc_endpoint.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/trust/make_keys.h"
#include "server/service/server_metrics.h"

namespace capstan {
namespace {

CallGuard::Options GuardOptions(ProcessContext& context) {
  CallGuard::Options options;
  options.clock = &context.clock();
  options.security = context.security();
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Create(Options options) {
  options.context.listens = true;
  options.context.waits_for = "waits for the coordinator";
  ASSIGN_OR_RETURN(std::unique_ptr<ProcessContext> context,
                   ProcessContext::Create(options.context));
  auto process =
      std::unique_ptr<ServerProcess>(new ServerProcess(std::move(options), std::move(context)));
  RETURN_IF_ERROR(process->Connect());
  return process;
}

ServerProcess::ServerProcess(Options options, std::unique_ptr<ProcessContext> context)
    : options_(std::move(options)),
      context_(std::move(context)),
      absence_(&context_->clock()),
      incarnation_(SystemRandom()),
      guard_(GuardOptions(*context_)),
      away_(AddCoordinatorAway(context_->metrics(), [this] { return absence_.away(); })) {}

absl::Status ServerProcess::Connect() {
  CoordinatorOptions options = {options_.coordinator, options_.rpc_deadline};
  options.first_deadline = options_.connect_deadline;
  options.absence = &absence_;
  options.is_ending = [this] { return options_.end != nullptr && options_.end->is_asked(); };
  options.security = context_->security();
  ASSIGN_OR_RETURN(coordinator_, ConnectToCoordinator(std::move(options), &context_->clock(),
                                                      Random(SystemRandom())));
  return absl::OkStatus();
}

void ServerProcess::ReportUsageError(const absl::Status& error) {
  LOG(ERROR) << error.message() << "; tells the coordinator";
  ReportEarlyFailure(*coordinator_, v1::HeartbeatRequest::SERVER, incarnation_, error,
                     context_->clock());
}

absl::Status ServerProcess::Run() {
  if (const absl::Status status = Open(); !status.ok()) {
    ReportEarlyFailure(*coordinator_, v1::HeartbeatRequest::SERVER, incarnation_, status,
                       context_->clock());
    return status;
  }
  server_.emplace(ServerOptions());
  owners_.emplace(&*server_, &context_->clock(), OwnerThreads::DefaultCount());
  reader_service_.emplace(&*server_, &guard_);
  const absl::Status status = server_->Run([this](const v1::JobSpec& job) { return Listen(job); });
  StopListening();
  const absl::Status traced = context_->Finish();
  return status.ok() ? traced : status;
}

absl::Status ServerProcess::Open() {
  RETURN_IF_ERROR(context_->Listen());
  ASSIGN_OR_RETURN(place_, FindPlace());
  return context_->StartTrace(options_.trace, *coordinator_);
}

absl::StatusOr<ServerProcess::Place> ServerProcess::FindPlace() const {
  Place place = {options_.listen, options_.advertise_host};
  if (options_.network.empty()) return place;
  ASSIGN_OR_RETURN(const ListenAddress listen, ParseListenAddress("--listen", place.listen));
  ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> addresses, InterfaceAddresses());
  ASSIGN_OR_RETURN(const std::string address, AddressIn(options_.network, addresses));
  place.listen = HostAndPort(address, listen.port);
  if (!place.announced_host.empty()) return place;
  std::vector<std::string> certified;
  if (const std::optional<TlsKeys> keys = context_->security()->tls_keys(); keys.has_value()) {
    ASSIGN_OR_RETURN(CertificateSpec certificate, DescribeCertificate(keys->identity));
    certified = std::move(certificate.hosts);
  }
  ASSIGN_OR_RETURN(place.announced_host, HostToAnnounce(address, certified));
  return place;
}

std::string ServerProcess::AdvertisedAddress(const std::string& listening) const {
  const std::string& host = place_.announced_host;
  const size_t colon = listening.rfind(':');
  int port = 0;
  if (host.empty() || !absl::SimpleAtoi(listening.substr(colon + 1), &port)) return listening;
  return HostAndPort(host, port);
}

ParameterServer::Options ServerProcess::ServerOptions() {
  ParameterServer::Options options;
  options.clock = &context_->clock();
  options.coordinator = coordinator_.get();
  options.incarnation = incarnation_;
  options.metrics = &context_->metrics();
  options.end = options_.end;
  options.on_readiness = [this](absl::Status status) {
    context_->readiness().Set(std::move(status));
  };
  options.host = HostAndNetwork();
  options.tracer = context_->tracer();
  options.connect_replica = [this](const std::string& address) {
    return std::make_unique<GrpcEndpoint>(address, &context_->clock(), context_->security(),
                                          SenderRole::kServer);
  };
  return options;
}

// A process of a worker of a running job has grpc_connections streams of exchanges to each server,
// and one stream to open UCX; another server has ReplicaConnections. The server admits twice as
// many.
uint32_t ServerProcess::MaxConnections(const v1::JobSpec& job) const {
  if (options_.max_connections > 0) return options_.max_connections;
  const uint32_t processes = job.cluster().num_workers() * ExpectedProcesses(job);
  return 2 * (processes * (job.transport().grpc_connections() + 1) + ReplicaConnections(job));
}

ReplyOrder ServerProcess::OrderOf(const v1::JobSpec& job, uint32_t connections) {
  ReplyOrder order = ReplyOrderOfJob(
      job.scheduler(), connections, [this](TableId table) { return server_->LayerOf(table); },
      [this] { return server_->credit_bytes(); });
  order.memory = &reply_memory_;
  return order;
}

absl::StatusOr<ServerAddress> ServerProcess::Listen(const v1::JobSpec& job) {
  const uint32_t connections = job.transport().grpc_connections();
  streams_.emplace(MaxConnections(job));
  service_ = std::make_unique<GrpcParameterService>(&*server_, job.transport().max_inflight_bytes(),
                                                    OrderOf(job, connections), &*streams_, &guard_);
  RETURN_IF_ERROR(ListenForUcx(job));
  std::vector<grpc::Service*> services = {service_.get(), &*reader_service_};
  if (ucx_service_ != nullptr) services.push_back(ucx_service_.get());
  if (job.cluster().replicas() > 1) {
    replica_service_ =
        std::make_unique<GrpcReplicaService>(&server_->records(), &*streams_, &guard_);
    services.push_back(replica_service_.get());
  }
  RETURN_IF_ERROR(ExpectOpenFiles(uint64_t{job.cluster().num_workers()} * connections +
                                  2 * ReplicaConnections(job) + context_->ListenerConnections()));
  GrpcServer::Options options;
  options.guard = &guard_;
  options.max_connections = MaxConnections(job);
  options.limits = job.limits();
  ASSIGN_OR_RETURN(listening_, GrpcServer::Start(place_.listen, services, options));
  const std::string address = AdvertisedAddress(listening_->address());
  guard_.set_audience(address);
  CountConnections(job);
  return ServerAddress{address};
}

absl::Status ServerProcess::ListenForUcx(const v1::JobSpec& job) {
  ASSIGN_OR_RETURN(
      ucx_, StartUcxTransportOfJob(TransportOf(job), &context_->clock(), options_.on_ucx_blocked,
                                   {context_->security(), job.name()}));
  if (ucx_ == nullptr) return absl::OkStatus();
  ucx_listener_ = ucx_->Listen(&*owners_, OrderOf(job, /*connections=*/1));
  ucx_service_ =
      std::make_unique<GrpcUcxService>(ucx_listener_.get(), &*streams_, &guard_, job.name());
  return absl::OkStatus();
}

void ServerProcess::CountConnections(const v1::JobSpec& job) {
  // Over UCX a worker has one connection.
  const uint64_t reply_limit = uint64_t{job.cluster().num_workers()} *
                               (ucx_ != nullptr ? 1 : job.transport().grpc_connections()) *
                               job.transport().max_inflight_bytes();
  counts_ = context_->metrics().Add([this, reply_limit](MetricsPage& page) {
    AddConnectionMetrics(guard_, *listening_, page);
    AddReplyMetrics(reply_memory_.bytes(), reply_limit, page);
  });
}

void ServerProcess::StopListening() {
  counts_ = MetricsSources::Registration();
  // Streams for UCX do not end by themselves.
  if (ucx_listener_ != nullptr) ucx_listener_->EndAll();
  if (listening_ == nullptr) return;
  LogRefused(guard_, *listening_);
  listening_->Shutdown(context_->clock().Now() + absl::Seconds(1));
}

}  // namespace capstan
