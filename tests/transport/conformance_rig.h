#ifndef TESTS_TRANSPORT_CONFORMANCE_RIG_H_
#define TESTS_TRANSPORT_CONFORMANCE_RIG_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "tests/transport/endpoint_conformance.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {

// What the files of the conformance suite share.

inline constexpr uint64_t kSmall = 1000;  // elements

// One exchange and its result. Fails the test if a callback runs twice or in the wrong order.
class Call {
 public:
  Call(ParameterEndpoint& endpoint, ExchangeRequest request, Clock* clock)
      : delivered_(clock), reply_(clock) {
    endpoint.Exchange(
        std::move(request),
        [this] {
          EXPECT_FALSE(is_delivered_.exchange(true)) << "delivered twice";
          delivered_.Set(true);
        },
        [this](ExchangeReply reply) {
          EXPECT_TRUE(is_delivered_) << "done before delivered";
          EXPECT_EQ(replies_.fetch_add(1), 0) << "answered twice";
          reply_.Set(std::move(reply));
        });
  }
  bool is_answered() const { return reply_.is_set(); }
  ExchangeReply Wait() { return reply_.Wait(); }
  void WaitUntilDelivered() { delivered_.Wait(); }

 private:
  std::atomic<bool> is_delivered_ = false;
  std::atomic<int> replies_ = 0;
  OneShot<bool> delivered_;
  OneShot<ExchangeReply> reply_;
};

inline Payload PayloadOf(std::vector<uint8_t> bytes) {
  const auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  Payload payload{owner};
  payload.Append(*owner);
  return payload;
}

inline std::vector<uint8_t> BytesIn(const Payload& payload) {
  std::vector<uint8_t> bytes(payload.size_bytes());
  payload.CopyTo(absl::MakeSpan(bytes));
  return bytes;
}

// A host behind the transport, and a connection to it.
struct Connected {
  Connected(const TransportCase& transport, ConsistencyMode mode, int num_workers,
            uint64_t elements)
      : Connected(transport, MakeTestHost(mode, num_workers, elements)) {}
  Connected(const TransportCase& transport, std::unique_ptr<ShardHost> test_host)
      : host(std::move(test_host)),
        fixture(transport.make(host.get(), &clock)),
        endpoint(fixture->Connect()) {}

  RealClock clock;
  std::unique_ptr<ShardHost> host;
  std::unique_ptr<TransportFixture> fixture;
  std::unique_ptr<ParameterEndpoint> endpoint;
};

}  // namespace capstan

#endif  // TESTS_TRANSPORT_CONFORMANCE_RIG_H_
