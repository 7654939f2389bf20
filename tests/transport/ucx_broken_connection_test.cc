// UCX connections that cannot be made, end early, or have a wrong peer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/fake_clock.h"
#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/ucx/grpc_ucx_service.h"
#include "common/transport/ucx/grpc_ucx_stream.h"
#include "common/transport/ucx/ucx_connection.h"
#include "common/transport/ucx/ucx_protocol.h"
#include "common/transport/ucx/ucx_thread.h"
#include "common/transport/ucx/ucx_transport.h"
#include "common/wire/exchange_header.h"
#include "tests/transport/blocking_endpoint.h"
#include "tests/transport/test_shard_host.h"
#include "tests/transport/ucx_test_server.h"
#include "tests/transport/ucx_transport_fixture.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

class UcxBrokenConnectionTest : public UcxTransportFixture {};

enum class Ends { kListener, kEndpoint };
class UcxEndTest : public UcxTransportFixture, public testing::WithParamInterface<Ends> {};

// When either side ends, waiting large gradients are answered and released.
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

TEST_F(UcxBrokenConnectionTest, NobodyListeningIsUnavailable) {
  const std::string address = listener_->address();
  listener_ = nullptr;
  const auto endpoint = client_->Connect(address);
  const ExchangeReply reply = Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0)));
  EXPECT_TRUE(absl::IsUnavailable(reply.status)) << reply.status;
  EXPECT_THAT(std::string(reply.status.message()), HasSubstr(address));
}

TEST_F(UcxBrokenConnectionTest, AListenerThatEndsIsUnavailableEvenToOpenConnections) {
  const auto endpoint = client_->Connect(listener_->address());
  EXPECT_TRUE(Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0))).status.ok());
  listener_ = nullptr;
  absl::Status status;
  // Exchanges before the news of the end are UNAVAILABLE, too.
  while (status.ok())
    status = Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0))).status;
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(UcxBrokenConnectionTest, AListenerThatHasEndedItsConnectionsInvitesNobody) {
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

TEST_F(UcxBrokenConnectionTest, AServerThatUcxDoesNotReachIsSaidToBeOutOfReach) {
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

TEST_F(UcxBrokenConnectionTest, AServerWithoutUcxIsSaidToHaveNone) {
  const auto server = GrpcServer::Start("127.0.0.1:0", {}).value();
  const auto endpoint = client_->Connect(server->address());
  const ExchangeReply reply = Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0)));
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kUnimplemented) << reply.status;
  EXPECT_THAT(std::string(reply.status.message()), HasSubstr("it has no UCX"));
}

TEST_F(UcxBrokenConnectionTest, ALargeExchangeThatIsOpenAtTheEndIsAnswered) {
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

// Sends malformed messages, and notes whether they are answered.
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

TEST_F(UcxBrokenConnectionTest, AMalformedHeaderClosesNothingButItsOwnExchange) {
  UcxThread::Options options;
  options.clock = &clock_;
  const auto thread = UcxThread::Start(options).value();
  GrpcUcxOpener opener(listener_->address(), &clock_);
  OneShot<v1::UcxInvitation> invited(&clock_);
  GrpcUcxStream::Callbacks callbacks;
  callbacks.on_invitation = [&](const auto&, const v1::UcxInvitation& it) { invited.Set(it); };
  callbacks.on_end = [](const auto&, const absl::Status&) {};
  auto stream = opener.Open(std::move(callbacks));
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
  stream = nullptr;
  opener.AwaitEnd();
  const auto endpoint = client_->Connect(listener_->address());
  EXPECT_TRUE(Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0))).status.ok());
}

TEST_F(UcxBrokenConnectionTest, AMalformedInvitationIsUnavailable) {
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

TEST_F(UcxBrokenConnectionTest, AWorkerThatNeverGreetsLosesItsStream) {
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
  opener.Open(std::move(callbacks));
  invited.Wait();
  fake_clock.Advance(absl::Seconds(30));
  EXPECT_TRUE(absl::IsDeadlineExceeded(ended.Wait()));
  opener.AwaitEnd();
}

// A server for one greeting only. It answers every message with the same header.
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
      thread_->invitations()[guest->secret()] = this;
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

TEST_F(UcxBrokenConnectionTest, AWrongReplyEndsItsConnection) {
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

TEST_F(UcxBrokenConnectionTest, AServerThatOnceAnsweredAndIsSlowToDoSoAgainIsUnavailable) {
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
