#include <gtest/gtest.h>

#include <memory>

#include "common/transport/ucx/ucx_transport.h"
#include "tests/transport/endpoint_conformance.h"
#include "tests/transport/faulty_endpoint.h"
#include "tests/transport/test_shard_host.h"
#include "tests/transport/ucx_test_server.h"

namespace capstan {
namespace {

// Both sides in this process, each with its own UCX thread.
class OverUcx : public TransportFixture {
 public:
  OverUcx(ShardHost* host, Clock* clock, const std::string& transports = "",
          uint64_t max_inflight_bytes = 16 << 20)
      : clock_(clock) {
    UcxTransport::Options options;
    options.clock = clock;
    options.transports = transports;
    options.max_inflight_bytes = max_inflight_bytes;
    server_ = StartUcxTransport(options).value();
    client_ = StartUcxTransport(options).value();
    listener_ = std::make_unique<UcxTestServer>(server_.get(), host);
  }
  std::unique_ptr<ParameterEndpoint> Connect() override {
    return client_->Connect(listener_->address());
  }

 protected:
  Clock* const clock_;

 private:
  std::unique_ptr<UcxTransport> server_;
  std::unique_ptr<UcxTransport> client_;
  std::unique_ptr<UcxTestServer> listener_;
};

class FaultyOverUcx : public OverUcx {
 public:
  using OverUcx::OverUcx;
  std::unique_ptr<ParameterEndpoint> Connect() override {
    FaultyEndpoint::Options faults;
    faults.clock = clock_;
    faults.seed = 7;
    faults.drop = 0.1;
    faults.duplicate = 0.1;
    faults.delay = 0.2;
    faults.max_delay = absl::Milliseconds(3);
    return MakeTestClient(clock_, std::make_unique<FaultyEndpoint>(faults, OverUcx::Connect()));
  }
};

INSTANTIATE_TEST_SUITE_P(
    Ucx, EndpointConformanceTest,
    testing::Values(TransportCase{"SharedMemory",
                                  [](ShardHost* host, Clock* clock) {
                                    return std::make_unique<OverUcx>(host, clock);
                                  }},
                    TransportCase{"Tcp",
                                  [](ShardHost* host, Clock* clock) {
                                    return std::make_unique<OverUcx>(host, clock, "tcp,self");
                                  }},
                    // One message at a time in each direction.
                    TransportCase{"Narrow",
                                  [](ShardHost* host, Clock* clock) {
                                    return std::make_unique<OverUcx>(host, clock, "",
                                                                     /*max_inflight_bytes=*/1);
                                  }},
                    TransportCase{"FaultyAndRetrying",
                                  [](ShardHost* host, Clock* clock) {
                                    return std::make_unique<FaultyOverUcx>(host, clock);
                                  }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace capstan
