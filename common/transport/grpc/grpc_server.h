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

// A listening gRPC server with the standard health and reflection services beside its own. Refuses
// compressed messages, which could become of any size.
class GrpcServer {
 public:
  // At most so much of one stream lies in the library while nobody reads from it: what HTTP/2's
  // flow control lets a client send ahead, and two blocks that it is received into.
  static constexpr int64_t kStreamBytes = 6 << 20;

  // `listen` is host:port; port 0 takes a free one. `services` are borrowed and outlive the server.
  // At most `max_connections` are open at once, and more are refused; 0: no limit. Larger messages
  // than `max_message_bytes` are refused. UNAVAILABLE when the port is in use or the host is not of
  // this machine.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const std::string& listen, absl::Span<grpc::Service* const> services,
      uint32_t max_connections = 0, int max_message_bytes = kMaxMessageBytes);
  ~GrpcServer();

  // host:port with the port that was taken.
  const std::string& address() const { return address_; }

  // Refuses new calls, and cancels at `deadline` those that are still open; returns when none is.
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
