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
#include "common/transport/grpc/connection_gate.h"
#include "common/transport/grpc/grpc_setup.h"

namespace capstan {

// A listening gRPC server with the given services, and the standard ones for health and reflection.
// Refuses compressed messages: decompressed they could have any size.
class GrpcServer {
 public:
  // Most bytes of one stream in the library while nobody reads the stream: the window of HTTP/2's
  // flow control, and two receive buffers.
  static constexpr int64_t kStreamBytes = 6 << 20;

  // `listen` is host:port. Port 0 chooses a free port. `services` outlive the server. Refuses
  // connections beyond `max_connections` (0: no limit) and messages above `max_message_bytes`.
  // INVALID_ARGUMENT: `listen` is malformed. UNAVAILABLE: the port is in use, or the host is not of
  // this machine.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const std::string& listen, absl::Span<grpc::Service* const> services,
      uint32_t max_connections = 0, int max_message_bytes = kMaxMessageBytes);
  ~GrpcServer();

  // host:port, with the actual port.
  const std::string& address() const { return address_; }

  // Refuses new calls. Cancels open calls at `deadline`. Returns when no call is open.
  void Shutdown(absl::Time deadline);

 private:
  GrpcServer(std::unique_ptr<grpc::Server> server, std::string address,
             std::unique_ptr<ConnectionGate> gate)
      : server_(std::move(server)), address_(std::move(address)), gate_(std::move(gate)) {}

  const std::unique_ptr<grpc::Server> server_;
  const std::string address_;
  std::unique_ptr<ConnectionGate> gate_;  // null: no limit, or shut down
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_SERVER_H_
