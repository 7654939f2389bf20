#ifndef COMMON_TRANSPORT_GRPC_HEALTH_LISTENER_H_
#define COMMON_TRANSPORT_GRPC_HEALTH_LISTENER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/transport/grpc/health_grpc_server.h"
#include "common/transport/grpc/http_listener.h"

namespace capstan {

// A port for probes, without encryption: HTTP/1 and gRPC's health service, and nothing else. Hands
// connections that begin as HTTP/2 to gRPC. Strangers may reach the port, so everything has a
// bound.
class HealthListener : private HttpListener::Http2Server {
 public:
  struct Options {
    std::string listen;      // Required: host:port; port 0 chooses a free port
    Clock* clock = nullptr;  // Required; outlives the listener
    // Required: OK, or the reason why the process is not ready. Thread-safe and quick.
    std::function<absl::Status()> readiness;
    // Time from an HTTP connection's begin to its end.
    absl::Duration request_time = absl::Seconds(5);
    // Time in which a gRPC connection must introduce itself, in the system's time.
    absl::Duration greeting_time = absl::Seconds(5);
    // Time without a call after which a gRPC connection is closed, in the system's time.
    absl::Duration idle_time = absl::Seconds(10);
  };

  // Further connections are closed at once.
  static constexpr size_t kMaxConnections = HttpListener::kMaxConnections;
  // At most this many are connections of gRPC. Watchers stay, and must not shut HTTP out.
  static constexpr size_t kMaxGrpcConnections = 32;

  // INVALID_ARGUMENT: `listen` is malformed. UNAVAILABLE: the port is in use, or the host is not of
  // this machine. Both name --health_listen.
  static absl::StatusOr<std::unique_ptr<HealthListener>> Start(const Options& options);
  // Closes all connections.
  ~HealthListener() override;
  HealthListener(const HealthListener&) = delete;
  HealthListener& operator=(const HealthListener&) = delete;

  // host:port, with the actual port.
  const std::string& address() const { return http_->address(); }

 private:
  explicit HealthListener(const Options& options);

  bool Take(int socket) override;
  void Tick() override;
  size_t num_open() const override { return grpc_.size(); }
  void CloseLong();    // closes connections that have sent too much
  void ForgetEnded();  // forgets connections that have ended

  HealthGrpcServer server_;
  std::set<int> grpc_;  // duplicates of the sockets that the server has; for the thread of http_
  std::unique_ptr<HttpListener> http_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_HEALTH_LISTENER_H_
