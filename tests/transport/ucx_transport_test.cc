#include "common/transport/ucx/ucx_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/request_parts.h"
#include "tests/transport/blocking_endpoint.h"
#include "tests/transport/test_shard_host.h"
#include "tests/transport/ucx_test_server.h"
#include "tests/transport/ucx_transport_fixture.h"

namespace capstan {
namespace {

class UcxTransportTest : public UcxTransportFixture {};

TEST_F(UcxTransportTest, ValuesArePutWhereTheyAreWanted) {
  const auto endpoint = client_->Connect(listener_->address());
  std::vector<float> values(kTestElements, 7);
  ExchangeRequest request = MakeTestRequest(0, Step(0), Step(1), 2.0f);
  request.destination = absl::MakeSpan(values);
  const ExchangeReply reply = Exchange(*endpoint, std::move(request));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(static_cast<const void*>(reply.values.fragments()[0].data()), values.data());
  EXPECT_EQ(values, std::vector<float>(kTestElements, -2.0f));
}

TEST_F(UcxTransportTest, ValuesThatDoNotFitGoElsewhere) {
  const auto endpoint = client_->Connect(listener_->address());
  std::vector<float> values(10, 7);
  ExchangeRequest request = MakeTestRequest(0, Step(0), Step(1), 2.0f);
  request.destination = absl::MakeSpan(values);
  EXPECT_EQ(ToVector(Exchange(*endpoint, std::move(request)).values),
            std::vector<float>(kTestElements, -2.0f));
  EXPECT_EQ(values, std::vector<float>(10, 7));
}

// Small ones come with their message. Large ones are fetched.
TEST_F(UcxTransportTest, RecordsOfServersAreRefused) {
  const auto endpoint = client_->Connect(listener_->address());
  for (const size_t floats : {size_t{0}, size_t{4}, size_t{256} << 10}) {
    const auto memory = std::make_shared<std::vector<float>>(floats);
    ExchangeRequest request = MakeTestRequest(0, std::nullopt, Step(0));
    request.purpose =
        ReplicaRecord{ShardId(0), 1, 1, Incarnation(9), "change", Payload(*memory, memory)};
    const absl::Status status = Exchange(*endpoint, std::move(request)).status;
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << floats << ": " << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("got a record of a shard"));
  }
  EXPECT_TRUE(Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0))).status.ok());
}

class UcxDeliveredTest : public testing::TestWithParam<std::string> {};

TEST_P(UcxDeliveredTest, ALargeGradientThatTheServerHasNotTakenIsNotDelivered) {
  for (const uint64_t bytes : {uint64_t{64} << 10, uint64_t{1} << 20, uint64_t{8} << 20}) {
    SCOPED_TRACE(bytes);
    RealClock clock;
    UcxTransport::Options options;
    options.clock = &clock;
    options.transports = GetParam();
    BlockingEndpoint blocking(&clock);
    const auto server = StartUcxTransport(options).value();
    const auto client = StartUcxTransport(options).value();
    const auto listener = std::make_unique<UcxTestServer>(server.get(), &blocking);
    OneShot<bool> pushed(&clock), pulled(&clock);
    const auto endpoint = client->Connect(listener->address());
    endpoint->Exchange(
        MakeTestRequest(0, std::nullopt, Step(0)), [] {}, [](ExchangeReply) {});
    blocking.is_blocked.Wait();
    endpoint->Exchange(
        MakeTestRequest(0, Step(0), Step(1), 1.0f, bytes / sizeof(float)),
        [&pushed] { pushed.Set(true); }, [](ExchangeReply) {});
    endpoint->Exchange(
        MakeTestRequest(0, std::nullopt, Step(0)), [&pulled] { pulled.Set(true); },
        [](ExchangeReply) {});
    pulled.Wait();  // It left after UCX had taken the push, and has no payload.
    EXPECT_FALSE(pushed.is_set());
    blocking.may_go_on.Set(true);
    pushed.Wait();
  }
}

INSTANTIATE_TEST_SUITE_P(EachTransport, UcxDeliveredTest, testing::Values("", "tcp,self"),
                         [](const auto& info) {
                           return std::string(info.index == 0 ? "Best" : "Tcp");
                         });

TEST_F(UcxTransportTest, AGradientInPiecesArrivesWhole) {
  const auto endpoint = client_->Connect(listener_->address());
  std::vector<float> gradient(kTestElements);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 1000);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(gradient.data());
  ExchangeRequest request = MakeTestRequest(0, Step(0), Step(1), 0.0f);
  Payload& payload = DenseStepOf(request).push->gradient->bytes;
  payload = Payload(nullptr);
  const size_t pieces[] = {4, 100, kTestElements * sizeof(float) - 104};
  size_t begin = 0;
  for (const size_t piece : pieces) {
    payload.Append({bytes + begin, piece});
    begin += piece;
  }
  const std::vector<float> values = ToVector(Exchange(*endpoint, std::move(request)).values);
  ASSERT_EQ(values.size(), gradient.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], -gradient[i]) << i;
}

// Notes the addresses of arriving gradients.
class NotingEndpoint : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    places.insert(BroughtBy(request).fragments()[0].data());
    request = ExchangeRequest();
    delivered();
    done(ExchangeReply());
  }

  std::set<const void*> places;
};

TEST_F(UcxTransportTest, AServerFetchesLargeGradientsInTurnIntoMemoryThatIsStillWarm) {
  NotingEndpoint noting;
  const auto listener = std::make_unique<UcxTestServer>(server_.get(), &noting);
  const auto endpoint = client_->Connect(listener->address());
  std::deque<OneShot<ExchangeReply>> replies;
  PushMebibytes(*endpoint, /*count=*/16, replies);
  for (OneShot<ExchangeReply>& reply : replies) EXPECT_TRUE(reply.Wait().status.ok());
  EXPECT_EQ(noting.places.size(), 1u);
}

// Notes the order of pushes.
class OrderEndpoint : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    steps.push_back(PushStepOf(request).value().value());
    delivered();
    done(ExchangeReply());
  }

  std::vector<int64_t> steps;
};

TEST_F(UcxTransportTest, WhatCallbacksSendComesAfterWhatWasSentBefore) {
  for (const size_t elements : {16, 256, 1000, 20'000}) {  // the last is never in a batch
    SCOPED_TRACE(elements);
    OrderEndpoint order;
    const auto listener = std::make_unique<UcxTestServer>(server_.get(), &order);
    const auto endpoint = client_->Connect(listener->address());
    constexpr int kFirst = 30;  // from the first callback
    constexpr int kAll = 300;   // the others from one callback each
    OneShot<bool> all_answered(&clock_);
    int delivered = 0, answered = 0;  // used by the client's UCX thread, after the first push
    std::function<void()> send = [&] {
      const int number = delivered++;
      // Every other push has 1 KiB.
      const size_t size = number % 2 == 0 ? elements : 256;
      endpoint->Exchange(
          MakeTestRequest(0, Step(number), std::nullopt, 1.0f, size),
          [&, number] {
            for (int i = number == 0 ? kFirst : 1; i > 0 && delivered < kAll; --i) send();
          },
          [&](ExchangeReply) {
            if (++answered == kAll) all_answered.Set(true);
          });
    };
    send();
    all_answered.Wait();
    std::vector<int64_t> expected(kAll);
    std::iota(expected.begin(), expected.end(), 0);
    if (elements < 20'000) {
      EXPECT_EQ(order.steps, expected);
    } else {
      // Small pushes may overtake large ones: the server fetches large ones.
      EXPECT_THAT(order.steps, ::testing::UnorderedElementsAreArray(expected));
    }
  }
}

}  // namespace
}  // namespace capstan
