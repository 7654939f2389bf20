#ifndef TESTS_CLUSTER_GRPC_CLUSTER_TRANSPORT_H_
#define TESTS_CLUSTER_GRPC_CLUSTER_TRANSPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_server.h"
#include "proto/job.pb.h"
#include "tests/cluster/cluster_transport.h"
#include "worker/client/connect_to_servers.h"

namespace capstan {

// A gRPC server on a free port of the loopback interface for each server.
class GrpcClusterTransport : public ClusterTransport {
 public:
  explicit GrpcClusterTransport(Clock* clock) : clock_(clock) {}

  std::string Listen(ParameterEndpoint* server) override {
    MutexLock lock(&mu_);
    services_.push_back(std::make_unique<GrpcParameterService>(server));
    servers_.push_back(GrpcServer::Start("127.0.0.1:0", {services_.back().get()}).value());
    return servers_.back()->address();
  }
  void StopListening() override {
    MutexLock lock(&mu_);
    servers_.clear();
  }
  std::unique_ptr<ParameterEndpoint> Connect(const std::string& address) override {
    v1::TransportSpec transport;
    transport.set_type(v1::TransportSpec::GRPC);
    transport.set_grpc_connections(2);
    return ConnectToServers({transport, clock_})(address);
  }

 private:
  Clock* const clock_;
  Mutex mu_;
  std::vector<std::unique_ptr<GrpcParameterService>> services_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<GrpcServer>> servers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // TESTS_CLUSTER_GRPC_CLUSTER_TRANSPORT_H_
