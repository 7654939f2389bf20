#ifndef COMMON_TRANSPORT_GRPC_HEALTH_GRPC_SERVER_H_
#define COMMON_TRANSPORT_GRPC_HEALTH_GRPC_SERVER_H_

#include <grpcpp/server.h>

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/transport/grpc/health_service.h"

namespace grpc::experimental {
class ExternalConnectionAcceptor;
}

namespace capstan {

// gRPC's health service, and nothing else, on connections that others accept. No call blocks: gRPC
// may read what a client sends on the thread that asks it for something, for as long as the client
// sends, and so it is asked on a thread of this class. Thread-safe.
class HealthGrpcServer {
 public:
  struct Options {
    Clock* clock = nullptr;                   // Required; outlives the server
    std::function<absl::Status()> readiness;  // Required: HealthListener::Options::readiness
    // In the system's time: until a connection must have introduced itself, and without a call.
    absl::Duration greeting_time;
    absl::Duration idle_time;
  };

  explicit HealthGrpcServer(Options options);
  // Ends all connections.
  ~HealthGrpcServer();
  HealthGrpcServer(const HealthGrpcServer&) = delete;
  HealthGrpcServer& operator=(const HealthGrpcServer&) = delete;

  // Takes the connection over, and calls shutdown() on it before close().
  void Take(int socket);
  // Sends the status to those who watch it, if it has changed. Somebody calls it regularly.
  void TellWatchers();

 private:
  void Run();

  Clock* const clock_;
  HealthService service_;
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;

  Mutex mu_;
  CondVar changed_;
  std::deque<int> taken_ ABSL_GUARDED_BY(mu_);
  bool must_tell_ ABSL_GUARDED_BY(mu_) = false;
  bool is_ending_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_HEALTH_GRPC_SERVER_H_
