#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/transport/eager_endpoint.h"
#include "common/transport/faulty_endpoint.h"
#include "common/transport/grpc_endpoint.h"
#include "common/transport/reply_order.h"
#include "common/transport/retrying_endpoint.h"
#include "server/service/grpc_parameter_service.h"
#include "server/service/grpc_server.h"
#include "tests/transport/endpoint_conformance.h"
#include "tests/transport/test_shard_host.h"

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
    return ConnectOverGrpc(server_->address(), /*connections=*/3, clock_);
  }
};

// Each reply must wait for the one before to be sent.
class NarrowOverGrpc : public OverGrpc {
 public:
  NarrowOverGrpc(ShardHost* host, Clock* clock) : OverGrpc(host, clock, /*max_inflight_bytes=*/1) {}
};

// Values go one by one, each once the one before has been received.
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
    RetryingEndpoint::Options retries;
    retries.clock = clock_;
    retries.peer = "server 0";
    return std::make_unique<RetryingEndpoint>(
        retries, std::make_unique<FaultyEndpoint>(faults, OverGrpc::Connect()));
  }
};

class EagerOverGrpc : public OverGrpc {
 public:
  EagerOverGrpc(ShardHost* host, Clock* clock) : OverGrpc(host, clock) { shared_.clock = clock; }
  std::unique_ptr<ParameterEndpoint> Connect() override {
    return std::make_unique<EagerEndpoint>(&shared_, OverGrpc::Connect());
  }

 private:
  EagerEndpoint::Shared shared_;
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
                    TransportCase{"Eager",
                                  [](ShardHost* host, Clock* clock) {
                                    return std::make_unique<EagerOverGrpc>(host, clock);
                                  }},
                    TransportCase{"FaultyAndRetrying",
                                  [](ShardHost* host, Clock* clock) {
                                    return std::make_unique<FaultyOverGrpc>(host, clock);
                                  }}),
    [](const auto& info) { return info.param.name; });

// Tells when a refresh has been answered and its asker has taken it.
class RefreshWatch : public ParameterEndpoint {
 public:
  RefreshWatch(OneShot<bool>* refreshed, std::unique_ptr<ParameterEndpoint> inner)
      : refreshed_(*refreshed), inner_(std::move(inner)) {}
  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override {
    const bool is_refresh = request.refresh_after.has_value();
    inner_->Exchange(std::move(request), std::move(sent),
                     [this, is_refresh, done = std::move(done)](ExchangeReply reply) mutable {
                       done(std::move(reply));
                       if (is_refresh) refreshed_.Set(true);
                     });
  }

 private:
  OneShot<bool>& refreshed_;
  const std::unique_ptr<ParameterEndpoint> inner_;
};

ExchangeReply Ask(ParameterEndpoint& endpoint, ExchangeRequest request, Clock* clock) {
  OneShot<ExchangeReply> reply(clock);
  endpoint.Exchange(
      std::move(request), [] {}, [&reply](ExchangeReply got) { reply.Set(std::move(got)); });
  return reply.Wait();
}

TEST(EagerOverGrpcTest, TheServerSendsNewerValuesWithoutBeingPulled) {
  constexpr uint64_t kElements = 1000;
  RealClock clock;
  const std::unique_ptr<ShardHost> host =
      MakeTestHost(ConsistencyMode::kAsync, /*num_workers=*/2, kElements);
  OverGrpc fixture(host.get(), &clock);
  OneShot<bool> refreshed(&clock);
  EagerEndpoint::Shared shared;
  shared.clock = &clock;
  EagerEndpoint eager(&shared, std::make_unique<RefreshWatch>(&refreshed, fixture.Connect()));
  const std::unique_ptr<ParameterEndpoint> other = fixture.Connect();

  const ExchangeReply push =
      Ask(eager, MakeTestRequest(0, Step(0), std::nullopt, 1.0f, kElements), &clock);
  EXPECT_EQ(push.min_step, Step(0));
  EXPECT_EQ(shared.refreshed_bytes, kElements * sizeof(float)) << "for the next pull";
  Ask(*other, MakeTestRequest(1, Step(0), Step(1), 4.0f, kElements), &clock);
  EXPECT_TRUE(refreshed.Wait());
  EXPECT_EQ(shared.refreshed_bytes, 2 * kElements * sizeof(float));
  const ExchangeReply pull = Ask(eager, MakeTestRequest(0, std::nullopt, Step(1)), &clock);
  EXPECT_TRUE(pull.asked_at.has_value()) << "from what it has kept";
  EXPECT_EQ(pull.waited_for, CacheWait::kNothing);
  EXPECT_EQ(pull.min_step, Step(1));
  EXPECT_EQ(ToVector(pull.values), std::vector<float>(kElements, -5.0f));
}

}  // namespace
}  // namespace capstan
