#include "common/transport/grpc/health_service.h"

namespace capstan {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// One Watch. Lives until gRPC and the service are done with it.
class HealthService::Watcher : public grpc::ServerWriteReactor<HealthCheckResponse>,
                               public std::enable_shared_from_this<Watcher> {
 public:
  explicit Watcher(HealthService* service) : service_(service) {}

  void Start(Status status) {
    self_ = shared_from_this();
    Tell(status);
  }

  void Tell(Status status) {
    MutexLock lock(&mu_);
    latest_ = status;
    GoOnLocked();
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mu_);
    is_writing_ = false;
    ends_ = ends_ || !ok;
    GoOnLocked();
  }

  void OnCancel() override {
    MutexLock lock(&mu_);
    ends_ = true;
    GoOnLocked();
  }

  void OnDone() override {
    service_->Forget(self_);
    self_ = nullptr;
  }

 private:
  void GoOnLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (is_writing_ || is_finished_) return;
    if (ends_) {
      is_finished_ = true;
      Finish(grpc::Status::CANCELLED);
    } else if (latest_ != response_.status()) {
      response_.set_status(latest_);
      is_writing_ = true;
      StartWrite(&response_);
    }
  }

  HealthService* const service_;
  std::shared_ptr<Watcher> self_;

  Mutex mu_;
  Status latest_ ABSL_GUARDED_BY(mu_) = HealthCheckResponse::UNKNOWN;
  HealthCheckResponse response_ ABSL_GUARDED_BY(mu_);  // the last one sent
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;  // the client is gone, or the server ends
  bool is_finished_ ABSL_GUARDED_BY(mu_) = false;
};

HealthService::~HealthService() = default;

HealthService::Status HealthService::CurrentStatus() const {
  return readiness_().ok() ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  if (!request->service().empty()) {
    reactor->Finish({grpc::NOT_FOUND, "expected the service \"\", which is the whole process"});
    return reactor;
  }
  response->set_status(CurrentStatus());
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext* /*context*/, const HealthCheckRequest* request) {
  const auto watcher = std::make_shared<Watcher>(this);
  const bool is_known = request->service().empty();
  if (is_known) {
    MutexLock lock(&mu_);
    watchers_.insert(watcher);
  }
  watcher->Start(is_known ? CurrentStatus() : HealthCheckResponse::SERVICE_UNKNOWN);
  return watcher.get();
}

void HealthService::TellWatchers() {
  std::set<std::shared_ptr<Watcher>> watchers;
  {
    MutexLock lock(&mu_);
    watchers = watchers_;
  }
  if (watchers.empty()) return;
  const Status status = CurrentStatus();
  for (const std::shared_ptr<Watcher>& watcher : watchers) watcher->Tell(status);
}

void HealthService::Forget(const std::shared_ptr<Watcher>& watcher) {
  MutexLock lock(&mu_);
  watchers_.erase(watcher);
}

}  // namespace capstan
