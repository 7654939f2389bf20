#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "common/exchange/in_process_endpoint.h"
#include "tests/transport/endpoint_conformance.h"
#include "tests/transport/faulty_endpoint.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {
namespace {

class InProcess : public TransportFixture {
 public:
  explicit InProcess(ShardHost* host) : host_(host) {}
  std::unique_ptr<ParameterEndpoint> Connect() override {
    return std::make_unique<InProcessEndpoint>(host_);
  }

 private:
  ShardHost* const host_;
};

// Retries over a network that drops, duplicates and delays.
class FaultyInProcess : public TransportFixture {
 public:
  FaultyInProcess(ShardHost* host, Clock* clock) : host_(host), clock_(clock) {}
  std::unique_ptr<ParameterEndpoint> Connect() override {
    FaultyEndpoint::Options faults;
    faults.clock = clock_;
    faults.seed = ++seed_;
    faults.drop = 0.2;
    faults.duplicate = 0.2;
    faults.delay = 0.3;
    faults.max_delay = absl::Milliseconds(3);
    return MakeTestClient(clock_, std::make_unique<FaultyEndpoint>(
                                      faults, std::make_unique<InProcessEndpoint>(host_)));
  }

 private:
  ShardHost* const host_;
  Clock* const clock_;
  uint64_t seed_ = 0;
};

INSTANTIATE_TEST_SUITE_P(InProcess, EndpointConformanceTest,
                         testing::Values(TransportCase{"Plain",
                                                       [](ShardHost* host, Clock*) {
                                                         return std::make_unique<InProcess>(host);
                                                       }},
                                         TransportCase{"FaultyAndRetrying",
                                                       [](ShardHost* host, Clock* clock) {
                                                         return std::make_unique<FaultyInProcess>(
                                                             host, clock);
                                                       }}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace capstan
