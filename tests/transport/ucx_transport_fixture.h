#ifndef TESTS_TRANSPORT_UCX_TRANSPORT_FIXTURE_H_
#define TESTS_TRANSPORT_UCX_TRANSPORT_FIXTURE_H_

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/transport/ucx/ucx_transport.h"
#include "tests/transport/test_shard_host.h"
#include "tests/transport/ucx_test_server.h"

namespace capstan {

// A UCX server with an asynchronous shard host of one worker, and the UCX transport of a client.
class UcxTransportFixture : public testing::Test {
 protected:
  UcxTransportFixture() : host_(MakeTestHost(ConsistencyMode::kAsync, /*num_workers=*/1)) {
    UcxTransport::Options options;
    options.clock = &clock_;
    server_ = StartUcxTransport(options).value();
    client_ = StartUcxTransport(options).value();
    listener_ = std::make_unique<UcxTestServer>(server_.get(), host_.get());
  }
  ExchangeReply Exchange(ParameterEndpoint& endpoint, ExchangeRequest request) {
    OneShot<ExchangeReply> reply(&clock_);
    endpoint.Exchange(
        std::move(request), [] {},
        [&reply](ExchangeReply answer) { reply.Set(std::move(answer)); });
    return reply.Wait();
  }

  // Pushes `count` gradients of 1 MiB at once. The server fetches each of them.
  void PushMebibytes(ParameterEndpoint& endpoint, int count,
                     std::deque<OneShot<ExchangeReply>>& replies) {
    constexpr size_t kMebibyte = 1 << 20;
    for (int i = 0; i < count; ++i) {
      endpoint.Exchange(
          MakeTestRequest(0, Step(i), std::nullopt, 1.0f, kMebibyte / sizeof(float)), [] {},
          [&reply = replies.emplace_back(&clock_)](ExchangeReply answer) {
            reply.Set(std::move(answer));
          });
    }
  }

  RealClock clock_;
  std::unique_ptr<ShardHost> host_;
  std::unique_ptr<UcxTransport> server_;
  std::unique_ptr<UcxTransport> client_;
  std::unique_ptr<UcxTestServer> listener_;
};

}  // namespace capstan

#endif  // TESTS_TRANSPORT_UCX_TRANSPORT_FIXTURE_H_
