#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/transport/grpc/grpc_endpoint.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/reply_order.h"
#include "tests/transport/endpoint_conformance.h"
#include "tests/transport/faulty_endpoint.h"
#include "tests/transport/test_shard_host.h"
#include "worker/client/connect_to_servers.h"

namespace capstan {
namespace {

class OverGrpc : public TransportFixture {
 public:
  OverGrpc(ShardHost* host, Clock* clock, uint64_t max_inflight_bytes = 16 << 20,
           ReplyOrder order = ReplyOrder())
      : clock_(clock),
        service_(host, max_inflight_bytes, std::move(order)),
        server_(GrpcServer::Start("127.0.0.1:0", {&service_}).value()) {}
  std::unique_ptr<ParameterEndpoint> Connect() override {
    return std::make_unique<GrpcEndpoint>(server_->address(), clock_);
  }

 protected:
  Clock* const clock_;
  GrpcParameterService service_;
  const std::unique_ptr<GrpcServer> server_;
};

class StripedOverGrpc : public OverGrpc {
 public:
  using OverGrpc::OverGrpc;
  std::unique_ptr<ParameterEndpoint> Connect() override {
    v1::TransportSpec transport;
    transport.set_type(v1::TransportSpec::GRPC);
    transport.set_grpc_connections(3);
    return ConnectToServers({transport, clock_})(server_->address());
  }
};

// A reply waits until gRPC has written the previous one.
class NarrowOverGrpc : public OverGrpc {
 public:
  NarrowOverGrpc(ShardHost* host, Clock* clock) : OverGrpc(host, clock, /*max_inflight_bytes=*/1) {}
};

// Values are sent one by one, each after the client has received the previous ones.
class LittleCreditOverGrpc : public OverGrpc {
 public:
  LittleCreditOverGrpc(ShardHost* host, Clock* clock)
      : OverGrpc(host, clock, /*max_inflight_bytes=*/16 << 20, LittleCredit()) {}

 private:
  static ReplyOrder LittleCredit() {
    ReplyOrder order;
    order.credit_bytes = 1;
    return order;
  }
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
    return MakeTestClient(clock_, std::make_unique<FaultyEndpoint>(faults, OverGrpc::Connect()));
  }
};

INSTANTIATE_TEST_SUITE_P(
    Grpc, EndpointConformanceTest,
    testing::Values(TransportCase{"Plain",
                                  [](ShardHost* host, Clock* clock) {
                                    return std::make_unique<OverGrpc>(host, clock);
                                  }},
                    TransportCase{"Striped",
                                  [](ShardHost* host, Clock* clock) {
                                    return std::make_unique<StripedOverGrpc>(host, clock);
                                  }},
                    TransportCase{"Narrow",
                                  [](ShardHost* host, Clock* clock) {
                                    return std::make_unique<NarrowOverGrpc>(host, clock);
                                  }},
                    TransportCase{"LittleCredit",
                                  [](ShardHost* host, Clock* clock) {
                                    return std::make_unique<LittleCreditOverGrpc>(host, clock);
                                  }},
                    TransportCase{"FaultyAndRetrying",
                                  [](ShardHost* host, Clock* clock) {
                                    return std::make_unique<FaultyOverGrpc>(host, clock);
                                  }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace capstan
