#include "common/transport/ucx/ucx_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/ucx/grpc_ucx_service.h"
#include "common/transport/ucx/grpc_ucx_stream.h"
#include "common/transport/ucx/ucx_connection.h"
#include "common/transport/ucx/ucx_protocol.h"
#include "common/transport/ucx/ucx_thread.h"
#include "common/wire/exchange_header.h"
#include "tests/transport/blocking_endpoint.h"
#include "tests/transport/test_shard_host.h"
#include "tests/transport/ucx_test_server.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

class UcxTransportTest : public testing::Test {
 protected:
  UcxTransportTest() : host_(MakeTestHost(ConsistencyMode::kAsync, /*num_workers=*/1)) {
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

  // So many pushes at once, each of a gradient that is fetched.
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

class UcxSentTest : public testing::TestWithParam<std::string> {};

TEST_P(UcxSentTest, ALargeGradientThatTheServerHasNotTakenIsNotSent) {
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
    pulled.Wait();  // It has no payload, and left after the push was handed to UCX.
    EXPECT_FALSE(pushed.is_set());
    blocking.may_go_on.Set(true);
    pushed.Wait();
  }
}

INSTANTIATE_TEST_SUITE_P(EachTransport, UcxSentTest, testing::Values("", "tcp,self"),
                         [](const auto& info) {
                           return std::string(info.index == 0 ? "Best" : "Tcp");
                         });

TEST_F(UcxTransportTest, AGradientInPiecesArrivesWhole) {
  const auto endpoint = client_->Connect(listener_->address());
  std::vector<float> gradient(kTestElements);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 1000);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(gradient.data());
  ExchangeRequest request = MakeTestRequest(0, Step(0), Step(1), 0.0f);
  request.gradient = Payload(nullptr);
  const size_t pieces[] = {4, 100, kTestElements * sizeof(float) - 104};
  size_t begin = 0;
  for (const size_t piece : pieces) {
    request.gradient.Append({bytes + begin, piece});
    begin += piece;
  }
  const std::vector<float> values = ToVector(Exchange(*endpoint, std::move(request)).values);
  ASSERT_EQ(values.size(), gradient.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], -gradient[i]) << i;
}

// Notes where gradients lie when they arrive.
class NotingEndpoint : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done) override {
    places.insert(request.gradient.fragments()[0].data());
    request.gradient.Clear();
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

// Notes in which order pushes come.
class OrderEndpoint : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done) override {
    steps.push_back(request.push_step.value().value());
    delivered();
    done(ExchangeReply());
  }

  std::vector<int64_t> steps;
};

TEST_F(UcxTransportTest, WhatCallbacksSendComesAfterWhatWasSentBefore) {
  for (const size_t elements : {16, 256, 1000, 20'000}) {  // the last in no batch
    SCOPED_TRACE(elements);
    OrderEndpoint order;
    const auto listener = std::make_unique<UcxTestServer>(server_.get(), &order);
    const auto endpoint = client_->Connect(listener->address());
    constexpr int kFirst = 30;  // from the first callback
    constexpr int kAll = 300;   // the others from one callback each
    OneShot<bool> all_answered(&clock_);
    int delivered = 0, answered = 0;  // of the client's UCX thread, from the first one on
    std::function<void()> send = [&] {
      const int number = delivered++;
      // Small ones and large ones by turns where they are large.
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
      // Small ones may overtake large ones, which are fetched.
      EXPECT_THAT(order.steps, ::testing::UnorderedElementsAreArray(expected));
    }
  }
}

enum class Ends { kListener, kEndpoint };
class UcxEndTest : public UcxTransportTest, public testing::WithParamInterface<Ends> {};

// What waits at its sender to be fetched is answered and let go when either side ends.
TEST_P(UcxEndTest, LargeGradientsThatAreNotFetchedYetAreAnswered) {
  for (int round = 0; round < 10; ++round) {
    SCOPED_TRACE(round);
    BlockingEndpoint blocking(&clock_);
    auto listener = std::make_unique<UcxTestServer>(server_.get(), &blocking);
    auto endpoint = client_->Connect(listener->address());
    std::deque<OneShot<ExchangeReply>> replies;
    PushMebibytes(*endpoint, /*count=*/8, replies);
    blocking.is_blocked.Wait();
    if (GetParam() == Ends::kEndpoint) endpoint = nullptr;
    blocking.may_go_on.Set(true);
    if (GetParam() == Ends::kListener) listener = nullptr;
    for (OneShot<ExchangeReply>& reply : replies) {
      const absl::Status status = reply.Wait().status;
      EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    }
  }
  const auto endpoint = client_->Connect(listener_->address());
  EXPECT_TRUE(Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0))).status.ok());
}

INSTANTIATE_TEST_SUITE_P(EachSide, UcxEndTest, testing::Values(Ends::kListener, Ends::kEndpoint),
                         [](const auto& info) {
                           return info.param == Ends::kListener ? "Listener" : "Endpoint";
                         });

TEST_F(UcxTransportTest, NobodyListeningIsUnavailable) {
  const std::string address = listener_->address();
  listener_ = nullptr;
  const auto endpoint = client_->Connect(address);
  const ExchangeReply reply = Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0)));
  EXPECT_TRUE(absl::IsUnavailable(reply.status)) << reply.status;
  EXPECT_THAT(std::string(reply.status.message()), HasSubstr(address));
}

TEST_F(UcxTransportTest, AListenerThatEndsIsUnavailableEvenToOpenConnections) {
  const auto endpoint = client_->Connect(listener_->address());
  EXPECT_TRUE(Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0))).status.ok());
  listener_ = nullptr;
  absl::Status status;
  // What is sent before the news of the end arrives is unavailable, too.
  while (status.ok())
    status = Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0))).status;
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(UcxTransportTest, AListenerThatHasEndedItsConnectionsInvitesNobody) {
  const auto endpoint = client_->Connect(listener_->address());
  EXPECT_TRUE(Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0))).status.ok());
  listener_->EndConnections();
  const auto newcomer = client_->Connect(listener_->address());
  const ExchangeReply reply = Exchange(*newcomer, MakeTestRequest(0, std::nullopt, Step(0)));
  EXPECT_TRUE(absl::IsUnavailable(reply.status)) << reply.status;
  EXPECT_THAT(std::string(reply.status.message()), HasSubstr("the server ends"));
  absl::Status status;
  while (status.ok())
    status = Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0))).status;
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(UcxTransportTest, AServerThatUcxDoesNotReachIsSaidToBeOutOfReach) {
  UcxTransport::Options options;
  options.clock = &clock_;
  options.transports = "tcp,self";
  const auto elsewhere = StartUcxTransport(options).value();
  const auto endpoint = elsewhere->Connect(listener_->address());
  const ExchangeReply reply = Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0)));
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kUnimplemented) << reply.status;
  EXPECT_THAT(std::string(reply.status.message()),
              HasSubstr("none of UCX's transports tcp,self connects the two ends"));
}

TEST_F(UcxTransportTest, AServerWithoutUcxIsSaidToHaveNone) {
  const auto server = GrpcServer::Start("127.0.0.1:0", {}).value();
  const auto endpoint = client_->Connect(server->address());
  const ExchangeReply reply = Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0)));
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kUnimplemented) << reply.status;
  EXPECT_THAT(std::string(reply.status.message()), HasSubstr("it has no UCX"));
}

TEST_F(UcxTransportTest, ALargeExchangeThatIsOpenAtTheEndIsAnswered) {
  const auto host = MakeTestHost(ConsistencyMode::kBsp, /*num_workers=*/2);
  const auto listener = std::make_unique<UcxTestServer>(server_.get(), host.get());
  auto endpoint = client_->Connect(listener->address());
  OneShot<ExchangeReply> reply(&clock_);
  endpoint->Exchange(
      MakeTestRequest(0, Step(0), Step(1), 1.0f), [] {},
      [&reply](ExchangeReply answer) { reply.Set(std::move(answer)); });
  endpoint = nullptr;
  EXPECT_TRUE(absl::IsUnavailable(reply.Wait().status));
}

// Sends what is no exchange, and notes what comes back.
class RawClient : public UcxConnection::Receiver {
 public:
  explicit RawClient(Clock* clock) : replies_(clock) {}
  std::unique_ptr<UcxIncoming> OnMessage(absl::Span<const uint8_t>, size_t) override {
    replies_.Set(true);
    return nullptr;
  }
  void OnBroken(const absl::Status&) override { replies_.Set(false); }
  bool is_answered() { return replies_.Wait(); }

 private:
  OneShot<bool> replies_;
};

TEST_F(UcxTransportTest, AMalformedHeaderClosesNothingButItsOwnExchange) {
  UcxThread::Options options;
  options.clock = &clock_;
  const auto thread = UcxThread::Start(options).value();
  GrpcUcxOpener opener(listener_->address(), &clock_);
  OneShot<v1::UcxInvitation> invited(&clock_);
  GrpcUcxStream::Callbacks callbacks;
  callbacks.on_invitation = [&](const auto&, const v1::UcxInvitation& it) { invited.Set(it); };
  callbacks.on_end = [](const auto&, const absl::Status&) {};
  const auto stream = opener.Open(std::move(callbacks));
  const v1::UcxInvitation invitation = invited.Wait();
  RawClient client(&clock_);
  std::unique_ptr<UcxConnection> connection;
  thread->RunAndWait([&] {
    ASSERT_TRUE(UcxConnection::Prepare(thread.get()).ok());
    connection = UcxConnection::Connect(thread.get(), invitation, &client).value();
    connection->Send("\xff\xff no header", Payload(), [] {});
  });
  EXPECT_TRUE(client.is_answered());
  thread->RunAndWait([&] { connection = nullptr; });
  stream->Cancel();
  opener.AwaitEnd();
  const auto endpoint = client_->Connect(listener_->address());
  EXPECT_TRUE(Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0))).status.ok());
}

TEST_F(UcxTransportTest, AMalformedInvitationIsUnavailable) {
  UcxThread::Options options;
  options.clock = &clock_;
  const auto thread = UcxThread::Start(options).value();
  v1::UcxInvitation without_address;
  without_address.set_secret(std::string(UcxGreeting::kSecretBytes, 's'));
  v1::UcxInvitation with_short_secret;
  with_short_secret.set_worker_address(thread->worker_address());
  with_short_secret.set_secret("short");
  RawClient client(&clock_);
  thread->RunAndWait([&] {
    for (const v1::UcxInvitation& invitation : {without_address, with_short_secret}) {
      const absl::Status status =
          UcxConnection::Connect(thread.get(), invitation, &client).status();
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("invitation is malformed"));
    }
  });
}

TEST_F(UcxTransportTest, AWorkerThatNeverGreetsLosesItsStream) {
  FakeClock fake_clock;
  UcxTransport::Options options;
  options.clock = &fake_clock;
  const auto server = StartUcxTransport(options).value();
  const UcxTestServer listener(server.get(), host_.get());
  GrpcUcxOpener opener(listener.address(), &clock_);
  OneShot<bool> invited(&clock_);
  OneShot<absl::Status> ended(&clock_);
  GrpcUcxStream::Callbacks callbacks;
  callbacks.on_invitation = [&](const auto&, const v1::UcxInvitation&) { invited.Set(true); };
  callbacks.on_end = [&](const auto&, const absl::Status& status) { ended.Set(status); };
  const auto stream = opener.Open(std::move(callbacks));
  invited.Wait();
  fake_clock.Advance(absl::Seconds(30));
  EXPECT_TRUE(absl::IsDeadlineExceeded(ended.Wait()));
  opener.AwaitEnd();
}

// A server that takes one greeting and no more, and answers whatever comes then with the same
// header.
class WrongServer : public UcxTransport::Listener,
                    private UcxInviter,
                    private UcxConnection::Receiver {
 public:
  WrongServer(std::string answer, Clock* clock)
      : has_ignored_greeting_(clock), answer_(std::move(answer)) {
    UcxThread::Options options;
    options.clock = clock;
    thread_ = UcxThread::Start(options).value();
    thread_->RunAndWait([this] { EXPECT_TRUE(UcxConnection::Prepare(thread_.get()).ok()); });
  }
  void AwaitIgnoredGreeting() { has_ignored_greeting_.Wait(); }

  void Invite(std::shared_ptr<UcxTransport::Guest> guest) override {
    thread_->RunLater([this, guest] {
      guests_[guest.get()] = guest;
      v1::UcxInvitation invitation;
      invitation.set_worker_address(thread_->worker_address());
      invitation.set_secret(std::string(UcxGreeting::kSecretBytes, 's'));
      thread_->invitations()[invitation.secret()] = this;
      guest->OnInvitation(invitation);
    });
  }
  void End(UcxTransport::Guest* guest) override {
    thread_->RunLater([this, guest] {
      connection_ = nullptr;
      const auto ended = guests_.extract(guest);
      ended.mapped()->OnEnd(absl::OkStatus());
    });
  }
  void EndAll() override {}

 private:
  void OnGreeting(uint32_t, ucp_ep_h endpoint) override {
    if (std::exchange(has_greeting_, true)) return has_ignored_greeting_.Set(true);
    connection_ =
        UcxConnection::Accept(thread_.get(), endpoint, this, /*window_bytes=*/1 << 20).value();
  }
  std::unique_ptr<UcxIncoming> OnMessage(absl::Span<const uint8_t>, size_t) override {
    connection_->Send(answer_, Payload(), [] {});
    return nullptr;
  }
  void OnBroken(const absl::Status&) override {}

  OneShot<bool> has_ignored_greeting_;
  const std::string answer_;
  bool has_greeting_ = false;
  std::unique_ptr<UcxThread> thread_;
  std::map<UcxTransport::Guest*, std::shared_ptr<UcxTransport::Guest>> guests_;
  std::unique_ptr<UcxConnection> connection_;
};

TEST_F(UcxTransportTest, AWrongReplyEndsItsConnection) {
  std::string reply_to_nothing;
  EncodeHeader(/*request_id=*/77, ExchangeReply(), &reply_to_nothing);
  for (const std::string& answer : {std::string("\xff\xff no header"), reply_to_nothing}) {
    WrongServer wrong(answer, &clock_);
    GrpcUcxService service(&wrong);
    const auto server = GrpcServer::Start("127.0.0.1:0", {&service}).value();
    const auto endpoint = client_->Connect(server->address());
    const ExchangeReply reply = Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0)));
    EXPECT_TRUE(absl::IsUnavailable(reply.status)) << reply.status;
    EXPECT_THAT(
        std::string(reply.status.message()),
        HasSubstr(answer == reply_to_nothing ? "got one to request 77" : "malformed header"));
  }
}

TEST_F(UcxTransportTest, AServerThatOnceAnsweredAndIsSlowToDoSoAgainIsUnavailable) {
  FakeClock fake_clock;
  UcxTransport::Options options;
  options.clock = &fake_clock;
  const auto client = StartUcxTransport(options).value();
  WrongServer wrong("\xff\xff no header", &clock_);
  GrpcUcxService service(&wrong);
  const auto server = GrpcServer::Start("127.0.0.1:0", {&service}).value();
  const auto endpoint = client->Connect(server->address());
  Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0)));
  OneShot<ExchangeReply> reply(&clock_);
  endpoint->Exchange(
      MakeTestRequest(0, std::nullopt, Step(0)), [] {},
      [&reply](ExchangeReply answer) { reply.Set(std::move(answer)); });
  wrong.AwaitIgnoredGreeting();
  fake_clock.Advance(absl::Seconds(20));
  EXPECT_TRUE(absl::IsUnavailable(reply.Wait().status));
}

}  // namespace
}  // namespace capstan
