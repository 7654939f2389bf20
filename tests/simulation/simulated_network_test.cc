#include "tests/simulation/simulated_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/simulated_clock.h"
#include "common/exchange/request_parts.h"
#include "common/membership/scripted_coordinator.h"

namespace capstan {
namespace {

// Answers at once; keeps the first float of each gradient.
class CountingServer : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    std::vector<float> values(PayloadBytes(request) / sizeof(float));
    BroughtBy(request).CopyTo(absl::MakeSpan(values));
    gradients.push_back(values.empty() ? 0 : values[0]);
    done(ExchangeReply());
  }
  std::vector<float> gradients;
};

class SimulatedNetworkTest : public testing::Test {
 protected:
  ExchangeRequest Push(float gradient, size_t size) {
    const auto values = std::make_shared<std::vector<float>>(size, gradient);
    ExchangeRequest request;
    request.purpose =
        MakeDenseStep(Step(0), std::nullopt, Payload(absl::MakeConstSpan(*values), values));
    return request;
  }
  // Sends one push, and notes the time until each of its answers.
  void Send(ParameterEndpoint& connection, float gradient, size_t size) {
    connection.Exchange(
        Push(gradient, size), [] {},
        [this](ExchangeReply reply) {
          replies_.push_back(reply.status.code());
          answered_at_.push_back(world_.Now() - start_);
        });
  }
  void Run() { world_.RunUntil(absl::InfiniteFuture()); }

  SimulatedClock world_;
  const absl::Time start_ = world_.Now();
  SimulatedProcess worker_{&world_};
  SimulatedProcess server_process_{&world_};
  CountingServer server_;
  std::vector<absl::StatusCode> replies_;
  std::vector<absl::Duration> answered_at_;
};

TEST_F(SimulatedNetworkTest, AGradientOfAnyNumberOfBytesArrivesWhole) {
  class BytesServer : public ParameterEndpoint {
   public:
    void Exchange(ExchangeRequest&& request, DeliveredCallback, ReplyCallback) override {
      bytes.resize(PayloadBytes(request));
      BroughtBy(request).CopyTo(absl::MakeSpan(bytes));
    }
    std::vector<uint8_t> bytes;
  };
  SimulatedNetwork network({}, /*seed=*/1);
  BytesServer server;
  const auto connection = network.Connect(&worker_, &server_process_, &server);
  const auto sent =
      std::make_shared<std::vector<uint8_t>>(std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 7});
  ExchangeRequest request;
  Payload payload(sent);
  payload.Append(*sent);
  request.purpose = MakeDenseStep(Step(0), std::nullopt, payload);
  connection->Exchange(
      std::move(request), [] {}, [](ExchangeReply) {});
  Run();
  EXPECT_EQ(server.bytes, *sent);
}

TEST_F(SimulatedNetworkTest, TimesFollowFromLatencyAndBandwidth) {
  SimulatedNetwork::Options options;
  options.latency = absl::Microseconds(100);
  options.per_message = absl::Microseconds(10);
  options.seconds_per_byte = 1e-8;
  SimulatedNetwork network(options, /*seed=*/1);
  const auto connection = network.Connect(&worker_, &server_process_, &server_);
  // 4,064 bytes of message take 10 + 40.64 us on the sender's link, the empty reply 10 + 0.64 us.
  Send(*connection, 1, 1000);
  Send(*connection, 2, 1000);
  Run();
  ASSERT_EQ(answered_at_.size(), 2u);
  EXPECT_EQ(answered_at_[0], absl::Nanoseconds(50'640 + 100'000 + 10'640 + 100'000));
  EXPECT_EQ(answered_at_[1] - answered_at_[0], absl::Nanoseconds(50'640)) << "one after the other";
}

TEST_F(SimulatedNetworkTest, MessagesAreLostRepeatedAndReordered) {
  SimulatedNetwork::Options options;
  options.max_jitter = absl::Milliseconds(5);
  options.drop = 0.2;
  options.duplicate = 0.2;
  SimulatedNetwork network(options, /*seed=*/7);
  const auto connection = network.Connect(&worker_, &server_process_, &server_);
  for (int i = 0; i < 200; ++i) Send(*connection, static_cast<float>(i), 1);
  Run();
  EXPECT_EQ(replies_.size(), 200u) << "each exchange is answered once";
  EXPECT_GT(std::count(replies_.begin(), replies_.end(), absl::StatusCode::kUnavailable), 30);
  EXPECT_GT(std::count(replies_.begin(), replies_.end(), absl::StatusCode::kOk), 80);
  std::vector<float> sorted = server_.gradients;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_NE(server_.gradients, sorted) << "reordered";
  EXPECT_NE(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end()) << "repeated";
}

TEST_F(SimulatedNetworkTest, ADuplicateHoldsTheBytesThatWereSent) {
  SimulatedNetwork::Options options;
  options.duplicate = 1;
  SimulatedNetwork network(options, /*seed=*/1);
  const auto connection = network.Connect(&worker_, &server_process_, &server_);
  std::vector<float> gradient = {1};
  ExchangeRequest request;
  request.purpose =
      MakeDenseStep(Step(0), std::nullopt, Payload(absl::MakeConstSpan(gradient), nullptr));
  connection->Exchange(
      std::move(request), [] {}, [&](ExchangeReply) { gradient[0] = 2; });
  gradient[0] = 3;
  Run();
  EXPECT_EQ(server_.gradients, (std::vector<float>{1, 1}));
}

TEST_F(SimulatedNetworkTest, ARegistrationIsLostOnce) {
  SimulatedNetwork network({}, /*seed=*/1);
  ScriptedCoordinator coordinator;
  const auto connection =
      network.Connect(&worker_, &server_process_, &coordinator, {}, absl::InfiniteFuture());
  int lost = 0;
  network.LoseRegistration(&worker_, [&lost] { ++lost; });
  std::vector<absl::StatusCode> replies;
  const auto answer_with = [&](const absl::StatusOr<v1::RegisterReply>& reply) {
    CallCoordinator(*connection, v1::RegisterWorkerRequest(),
                    [&replies](const absl::StatusOr<v1::RegisterReply>& got) {
                      replies.push_back(got.status().code());
                    });
    Run();
    coordinator.Of<v1::RegisterWorkerRequest>().Answer(reply);
    Run();
  };
  answer_with(absl::ResourceExhaustedError("no place"));
  answer_with(v1::RegisterReply());
  answer_with(v1::RegisterReply());
  EXPECT_EQ(replies,
            (std::vector<absl::StatusCode>{absl::StatusCode::kResourceExhausted,
                                           absl::StatusCode::kUnavailable, absl::StatusCode::kOk}));
  EXPECT_EQ(lost, 1);
}

TEST_F(SimulatedNetworkTest, APausedServerAnswersLaterAndADeadOneNever) {
  SimulatedNetwork network(SimulatedNetwork::Options(), /*seed=*/1);
  auto connection = network.Connect(&worker_, &server_process_, &server_);
  server_process_.Pause();
  Send(*connection, 1, 1);
  world_.RunAfter(absl::Seconds(3), [this] { server_process_.Resume(); });
  Run();
  ASSERT_EQ(answered_at_.size(), 1u);
  EXPECT_GT(answered_at_[0], absl::Seconds(3));
  server_process_.Kill();
  Send(*connection, 2, 1);
  Run();
  EXPECT_EQ(answered_at_.size(), 1u);
  connection.reset();
  EXPECT_EQ(replies_.back(), absl::StatusCode::kUnavailable) << "the connection was closed";
}

}  // namespace
}  // namespace capstan
