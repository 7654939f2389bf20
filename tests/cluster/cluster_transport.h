#ifndef TESTS_CLUSTER_CLUSTER_TRANSPORT_H_
#define TESTS_CLUSTER_CLUSTER_TRANSPORT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"

namespace capstan {

// How the workers of a test cluster reach its servers. Thread-safe.
class ClusterTransport {
 public:
  virtual ~ClusterTransport() = default;
  // Makes `server` reachable and returns its host:port. The server outlives StopListening.
  virtual std::string Listen(ParameterEndpoint* server) = 0;
  // After this call, no exchange reaches a server.
  virtual void StopListening() = 0;
  virtual std::unique_ptr<ParameterEndpoint> Connect(const std::string& address) = 0;
};

using TransportFactory = std::function<std::unique_ptr<ClusterTransport>(Clock*)>;

// Plain calls, no socket.
class InProcessClusterTransport : public ClusterTransport {
 public:
  std::string Listen(ParameterEndpoint* server) override;
  void StopListening() override {}
  std::unique_ptr<ParameterEndpoint> Connect(const std::string& address) override;

 private:
  Mutex mu_;
  std::map<std::string, ParameterEndpoint*> servers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // TESTS_CLUSTER_CLUSTER_TRANSPORT_H_
