#ifndef TESTS_TRANSPORT_ENDPOINT_CONFORMANCE_H_
#define TESTS_TRANSPORT_ENDPOINT_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "common/base/real_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "server/shard/shard_host.h"

namespace capstan {

// A transport with its decorators, for the conformance suite.
class TransportFixture {
 public:
  virtual ~TransportFixture() = default;
  // A connection to the host; the fixture outlives it.
  virtual std::unique_ptr<ParameterEndpoint> Connect() = 0;
};

struct TransportCase {
  std::string name;
  std::function<std::unique_ptr<TransportFixture>(ShardHost* host, Clock* clock)> make;
};

// The suite: the contract of every ParameterEndpoint. Each transport's test instantiates it.
class EndpointConformanceTest : public testing::TestWithParam<TransportCase> {};

}  // namespace capstan

#endif  // TESTS_TRANSPORT_ENDPOINT_CONFORMANCE_H_
