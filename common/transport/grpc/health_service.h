#ifndef COMMON_TRANSPORT_GRPC_HEALTH_SERVICE_H_
#define COMMON_TRANSPORT_GRPC_HEALTH_SERVICE_H_

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "proto/health.grpc.pb.h"

namespace capstan {

// gRPC's health service. It knows one service, "": the whole process. That is SERVING while the
// readiness is OK. Thread-safe.
class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  // `readiness` is thread-safe and quick.
  explicit HealthService(std::function<absl::Status()> readiness)
      : readiness_(std::move(readiness)) {}
  ~HealthService() override;

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

  // Sends the status to those who watch it, if it has changed.
  void TellWatchers();

 private:
  class Watcher;
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  Status CurrentStatus() const;
  void Forget(const std::shared_ptr<Watcher>& watcher);

  const std::function<absl::Status()> readiness_;

  Mutex mu_;
  std::set<std::shared_ptr<Watcher>> watchers_ ABSL_GUARDED_BY(mu_);  // of the service ""
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_HEALTH_SERVICE_H_
