#ifndef SERVER_SERVICE_SERVER_PROCESS_H_
#define SERVER_SERVICE_SERVER_PROCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/end_request.h"
#include "common/base/ids.h"
#include "common/membership/coordinator_absence.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/metrics/metrics_sources.h"
#include "common/process/process_context.h"
#include "common/routing/routing_table.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_replica_service.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/grpc/stream_limit.h"
#include "common/transport/reply_order.h"
#include "common/transport/ucx/grpc_ucx_service.h"
#include "common/transport/ucx/ucx_transport.h"
#include "proto/job.pb.h"
#include "server/service/grpc_reader_service.h"
#include "server/service/parameter_server.h"
#include "server/shard/owner_threads.h"

namespace capstan {

// A server with what it needs around it in its process: keys, the coordinator, listeners for
// workers, readers, probes and metrics, a trace. Used by one thread.
class ServerProcess {
 public:
  struct Options {
    ProcessContext::Options context;                  // `listens` and `waits_for` do not count
    std::string coordinator;                          // Required: host:port,...
    absl::Duration rpc_deadline = absl::Seconds(30);  // of retries to reach the coordinator
    absl::Duration connect_deadline;                  // until its first answer, if longer
    std::string listen;                               // Required: host:port for workers
    std::string network;         // an interface or a range; its address takes the place of the host
    std::string advertise_host;  // that workers are told; empty: the one at which it listens
    uint32_t max_connections = 0;  // 0: enough for the job's workers
    std::string trace;             // file; empty: nothing is traced
    EndRequest* end = nullptr;     // outlives this; null: nobody asks it to end
    // As StartUcxTransportOfJob has it. Required.
    std::function<void(const absl::Status&)> on_ucx_blocked;
  };

  // Opens the keys, and connects to the coordinator.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Create(Options options);

  // Tells the coordinator that this server's command line is wrong.
  void ReportUsageError(const absl::Status& error);
  // ParameterServer::Run, then ends the trace. Called once. The coordinator hears of a failure.
  absl::Status Run();
  // Whether the server has listened. Before, an INVALID_ARGUMENT is about its flags.
  bool has_begun() const { return listening_ != nullptr; }

 private:
  // Where the server listens, and the host that workers are told.
  struct Place {
    std::string listen;          // host:port
    std::string announced_host;  // empty: that of `listen`
  };

  ServerProcess(Options options, std::unique_ptr<ProcessContext> context);

  absl::Status Connect();
  absl::Status Open();
  absl::StatusOr<Place> FindPlace() const;
  // The address for workers, at the port of `listening`.
  std::string AdvertisedAddress(const std::string& listening) const;
  ParameterServer::Options ServerOptions();
  uint32_t MaxConnections(const v1::JobSpec& job) const;
  ReplyOrder OrderOf(const v1::JobSpec& job, uint32_t connections);
  absl::StatusOr<ServerAddress> Listen(const v1::JobSpec& job);
  absl::Status ListenForUcx(const v1::JobSpec& job);
  void CountConnections(const v1::JobSpec& job);
  void StopListening();

  const Options options_;
  const std::unique_ptr<ProcessContext> context_;
  CoordinatorAbsence absence_;
  std::unique_ptr<CoordinatorEndpoint> coordinator_;
  const Incarnation incarnation_;
  CallGuard guard_;
  Place place_;
  ReplyMemory reply_memory_;  // the server's parked replies use it to their end
  std::optional<ParameterServer> server_;
  std::optional<StreamLimit> streams_;
  std::optional<OwnerThreads> owners_;
  std::unique_ptr<UcxTransport> ucx_;  // null: not wanted, or not available
  std::unique_ptr<UcxTransport::Listener> ucx_listener_;
  std::unique_ptr<GrpcUcxService> ucx_service_;
  std::unique_ptr<GrpcParameterService> service_;
  std::unique_ptr<GrpcReplicaService> replica_service_;  // null: the job has one replica
  std::optional<GrpcReaderService> reader_service_;
  std::unique_ptr<GrpcServer> listening_;
  MetricsSources::Registration counts_;  // of connections
  const MetricsSources::Registration away_;
};

}  // namespace capstan

#endif  // SERVER_SERVICE_SERVER_PROCESS_H_
