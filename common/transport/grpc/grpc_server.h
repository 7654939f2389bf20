#ifndef COMMON_TRANSPORT_GRPC_GRPC_SERVER_H_
#define COMMON_TRANSPORT_GRPC_GRPC_SERVER_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/background_threads.h"
#include "common/metrics/metrics_page.h"
#include "common/net/connection_gate.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_setup.h"
#include "proto/job.pb.h"

namespace capstan {

// A listening gRPC server with the given services, and the standard ones for health and reflection.
// Refuses compressed messages: decompressed they could have any size.
class GrpcServer {
 public:
  // Most bytes of one stream in the library while nobody reads the stream: the window of HTTP/2's
  // flow control, and two receive buffers.
  static constexpr int64_t kStreamBytes = 6 << 20;

  struct Options {
    // The guard of all services; it gives the credentials, and proves connections. Outlives the
    // server. Null: plaintext, without a bound of connections.
    CallGuard* guard = nullptr;
    // Most proved connections (see ConnectionGate). Required with a guard.
    uint32_t max_connections = 0;
    // Larger messages are refused.
    int max_message_bytes = kMaxMessageBytes;
    // The longest message with which a connection may begin: gRPC reads it before its call is
    // admitted. Streams are admitted before their first message.
    uint64_t first_message_bytes = 4 << 20;
    v1::LimitsSpec limits;
  };

  // `listen` is host:port. Port 0 chooses a free port. `services` outlive the server.
  // INVALID_ARGUMENT: `listen` is malformed, or it leaves this machine in plaintext although the
  // guard's security is not insecure. UNAVAILABLE: the port is in use, or the host is not of this
  // machine.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const std::string& listen, absl::Span<grpc::Service* const> services, const Options& options);
  // With default options.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const std::string& listen, absl::Span<grpc::Service* const> services) {
    return Start(listen, services, Options());
  }
  ~GrpcServer();

  // host:port, with the actual port.
  const std::string& address() const { return address_; }

  // Zeros without a guard, and after Shutdown.
  ConnectionGate::Counts connections() const;

  // Refuses new calls. Cancels open calls at `deadline`. Returns when no call is open.
  void Shutdown(absl::Time deadline);

 private:
  GrpcServer(std::unique_ptr<grpc::Server> server, std::string address,
             std::unique_ptr<BackgroundThreads> handover, std::unique_ptr<ConnectionGate> gate,
             CallGuard* guard)
      : server_(std::move(server)),
        address_(std::move(address)),
        guard_(guard),
        handover_(std::move(handover)),
        gate_(std::move(gate)) {}

  const std::unique_ptr<grpc::Server> server_;
  const std::string address_;
  CallGuard* const guard_;
  // Null: no limit, or shut down.
  std::unique_ptr<BackgroundThreads> handover_;  // of connections from the gate to gRPC
  std::unique_ptr<ConnectionGate> gate_;         // uses the handover
};

// Writes into the log what was refused and closed, with the reasons, if anything was.
void LogRefused(const CallGuard& guard, const GrpcServer& server);

// Adds the metrics of connections and of refused calls. Not during Shutdown.
void AddConnectionMetrics(const CallGuard& guard, const GrpcServer& server, MetricsPage& page);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_SERVER_H_
