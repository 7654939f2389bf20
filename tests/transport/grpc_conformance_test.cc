#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "common/transport/faulty_endpoint.h"
#include "common/transport/grpc_endpoint.h"
#include "common/transport/retrying_endpoint.h"
#include "server/service/grpc_parameter_service.h"
#include "server/service/grpc_server.h"
#include "tests/transport/endpoint_conformance.h"

namespace capstan {
namespace {

class OverGrpc : public TransportFixture {
 public:
  OverGrpc(ShardHost* host, Clock* clock)
      : clock_(clock),
        service_(host),
        server_(GrpcServer::Start("127.0.0.1:0", {&service_}).value()) {}
  std::unique_ptr<ParameterEndpoint> Connect() override {
    return std::make_unique<GrpcEndpoint>(server_->address(), clock_);
  }

 protected:
  Clock* const clock_;

 private:
  GrpcParameterService service_;
  const std::unique_ptr<GrpcServer> server_;
};

class FaultyOverGrpc : public OverGrpc {
 public:
  using OverGrpc::OverGrpc;
  std::unique_ptr<ParameterEndpoint> Connect() override {
    FaultyEndpoint::Options faults;
    faults.clock = clock_;
    faults.seed = 7;
    faults.drop = 0.1;
    faults.duplicate = 0.1;
    faults.delay = 0.2;
    faults.max_delay = absl::Milliseconds(3);
    RetryingEndpoint::Options retries;
    retries.clock = clock_;
    retries.peer = "server 0";
    return std::make_unique<RetryingEndpoint>(
        retries, std::make_unique<FaultyEndpoint>(faults, OverGrpc::Connect()));
  }
};

INSTANTIATE_TEST_SUITE_P(Grpc, EndpointConformanceTest,
                         testing::Values(TransportCase{"Plain",
                                                       [](ShardHost* host, Clock* clock) {
                                                         return std::make_unique<OverGrpc>(host,
                                                                                           clock);
                                                       }},
                                         TransportCase{"FaultyAndRetrying",
                                                       [](ShardHost* host, Clock* clock) {
                                                         return std::make_unique<FaultyOverGrpc>(
                                                             host, clock);
                                                       }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace capstan
