#include "tests/cluster/cluster_transport.h"

#include "absl/strings/str_cat.h"
#include "common/exchange/in_process_endpoint.h"

namespace capstan {

std::string InProcessClusterTransport::Listen(ParameterEndpoint* server) {
  MutexLock lock(&mu_);
  const std::string address = absl::StrCat("in-process:", servers_.size() + 1);
  servers_[address] = server;
  return address;
}

std::unique_ptr<ParameterEndpoint> InProcessClusterTransport::Connect(const std::string& address) {
  MutexLock lock(&mu_);
  return std::make_unique<InProcessEndpoint>(servers_.at(address));
}

}  // namespace capstan
