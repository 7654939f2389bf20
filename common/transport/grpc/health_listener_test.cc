#include "common/transport/grpc/health_listener.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "common/base/mutex.h"
#include "common/base/readiness.h"
#include "common/base/real_clock.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/grpc/test_client.h"
#include "proto/health.grpc.pb.h"

namespace capstan {
namespace {

using ::grpc::health::v1::Health;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kHealthz[] = "GET /healthz HTTP/1.1\r\nHost: me\r\n\r\n";
constexpr char kReadyz[] = "GET /readyz HTTP/1.1\r\nHost: me\r\n\r\n";

using Client = TestClient;

class HealthListenerTest : public testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(HealthListener::Options options) {
    listener_ = nullptr;
    options.listen = "127.0.0.1:0";
    options.clock = &clock_;
    options.readiness = [this] { return readiness_.Get(); };
    auto listener = HealthListener::Start(options);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  // The answer to one request on a connection of its own.
  std::string Ask(const std::string& request) {
    Client client(listener_->address());
    client.Send(request);
    return client.ReadToEnd();
  }
  bool WaitUntil(const std::function<bool()>& is_true) {
    RealClock clock;
    const absl::Time deadline = clock.Now() + absl::Milliseconds(kPatienceMilliseconds);
    Mutex mutex;
    CondVar never;
    MutexLock lock(&mutex);
    while (!is_true()) {
      if (clock.Now() >= deadline) return false;
      clock.WaitUntil(mutex, never, clock.Now() + absl::Milliseconds(5));
    }
    return true;
  }
  std::unique_ptr<Health::Stub> Stub() { return Health::NewStub(NewChannel()); }
  std::shared_ptr<grpc::Channel> NewChannel() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    return grpc::CreateCustomChannel(listener_->address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  // Whether the listener gives one more connection to gRPC, which speaks first.
  bool TakesGrpc() {
    Client client(listener_->address());
    client.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    return !client.ReadSome().empty();
  }
  // The answer to Check; -1 for an error.
  int CheckedStatus(Health::Stub& stub) {
    grpc::ClientContext context;
    HealthCheckResponse response;
    return stub.Check(&context, HealthCheckRequest(), &response).ok() ? response.status() : -1;
  }

  FakeClock clock_;
  Readiness readiness_{absl::OkStatus()};
  std::unique_ptr<HealthListener> listener_;
};

TEST_F(HealthListenerTest, HttpFollowsTheReadiness) {
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(kReadyz), EndsWith("\r\n\r\nok\n"));
  readiness_.Set(absl::UnavailableError("waits for workers"));
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(kReadyz), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Ask(kReadyz), EndsWith("\r\n\r\nwaits for workers\n"));
}

TEST_F(HealthListenerTest, ARequestMayComeByteByByte) {
  Client client(listener_->address());
  for (const char* next = kHealthz; *next != 0; ++next) client.Send(std::string(1, *next));
  EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HealthListenerTest, AClientMayEndItsSideBeforeTheAnswer) {
  Client client(listener_->address());
  client.Send(kHealthz);
  client.EndWriting();
  EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HealthListenerTest, OneConnectionGetsOneAnswer) {
  const std::string answer = Ask(kHealthz);
  EXPECT_EQ(Ask(std::string(kHealthz) + kReadyz + kReadyz), answer);
  EXPECT_EQ(Ask("GET /healthz HTTP/1.1\r\nConnection: keep-alive\r\n\r\n"), answer);
}

TEST_F(HealthListenerTest, BadRequestsGetAnAnswerAndHarmNothing) {
  EXPECT_THAT(Ask("GET /secret HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask("POST /readyz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask("PRI" + std::string(kHealthz)), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask("P\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(std::string("\x16\x03\x01\x02\x00\x01", 6)), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(std::string(30'000, 'x')), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HealthListenerTest, AClientThatNeverStopsSendingIsCutOff) {
  Client client(listener_->address());
  const std::string more(100'000, 'x');
  client.Send(kHealthz + more);
  EXPECT_NE(client.ReadToEnd(), "open");
  // The other side resets the connection once it has read 64 KiB.
  EXPECT_TRUE(WaitUntil([&] { return !client.is_open(); }));
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HealthListenerTest, SlowAndSilentClientsBlockNobodyAndAreClosedInTime) {
  Client silent(listener_->address());
  Client slow(listener_->address());
  Client slow_http2(listener_->address());
  slow.Send("GET /hea");
  slow_http2.Send("PR");
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
  clock_.Advance(absl::Seconds(4.9));
  slow.Send("l");  // does not give it more time
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(silent.is_open() && slow.is_open() && slow_http2.is_open());
  clock_.Advance(absl::Seconds(0.2));
  for (Client* const client : {&silent, &slow, &slow_http2}) EXPECT_EQ(client->ReadToEnd(), "");
}

TEST_F(HealthListenerTest, AnAnsweredClientThatStaysIsClosedInTime) {
  Client client(listener_->address());
  client.Send(kHealthz);
  EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1.1 200 "));
  // The listener has ended its side alone. So sending succeeds until it closes the connection.
  clock_.Advance(absl::Seconds(6));
  EXPECT_TRUE(WaitUntil([&] { return send(client.fd(), "x", 1, MSG_NOSIGNAL) < 0; }));
}

TEST_F(HealthListenerTest, OfTwoHundredConnectionsAllBeyondTheLimitAreClosedAtOnce) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<Client>(listener_->address()));
  }
  for (size_t i = HealthListener::kMaxConnections; i < clients.size(); ++i) {
    EXPECT_NE(clients[i]->ReadToEnd(), "open") << i;
  }
  for (size_t i = 0; i < HealthListener::kMaxConnections; ++i) {
    EXPECT_TRUE(clients[i]->is_open()) << i;
    clients[i]->Send(kHealthz);
    EXPECT_THAT(clients[i]->ReadToEnd(), StartsWith("HTTP/1.1 200 ")) << i;
  }
  clients.clear();
  EXPECT_TRUE(WaitUntil([&] { return Ask(kHealthz) != ""; })) << "their places are free again";
}

TEST_F(HealthListenerTest, CheckFollowsTheReadiness) {
  const auto stub = Stub();
  EXPECT_EQ(CheckedStatus(*stub), HealthCheckResponse::SERVING);
  readiness_.Set(absl::UnavailableError("waits for workers"));
  EXPECT_EQ(CheckedStatus(*stub), HealthCheckResponse::NOT_SERVING);
  EXPECT_THAT(Ask(kReadyz), StartsWith("HTTP/1.1 503 ")) << "the same port";
}

TEST_F(HealthListenerTest, WatchSendsTheStatusAndEachChange) {
  const auto stub = Stub();
  grpc::ClientContext context;
  const auto watch = stub->Watch(&context, HealthCheckRequest());
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  readiness_.Set(absl::UnavailableError("waits for workers"));
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  readiness_.Set(absl::OkStatus());
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  context.TryCancel();
  EXPECT_EQ(watch->Finish().error_code(), grpc::CANCELLED);
}

TEST_F(HealthListenerTest, OtherServicesAreUnknown) {
  const auto stub = Stub();
  HealthCheckRequest request;
  request.set_service("capstan.v1.ParameterService");
  HealthCheckResponse response;
  grpc::ClientContext check;
  EXPECT_EQ(stub->Check(&check, request, &response).error_code(), grpc::NOT_FOUND);
  grpc::ClientContext context;
  const auto watch = stub->Watch(&context, request);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
}

TEST_F(HealthListenerTest, TheEndOfTheListenerEndsWatches) {
  const auto stub = Stub();
  grpc::ClientContext context;
  const auto watch = stub->Watch(&context, HealthCheckRequest());
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  Client silent(listener_->address());
  listener_ = nullptr;
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_FALSE(watch->Finish().ok());
  EXPECT_FALSE(silent.is_open());
}

// The answer to a call of one message.
grpc::Status CallMethod(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                        const std::string& message) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  const grpc::Slice slice(message);
  const auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  return status;
}

// The default health service of this process must not replace the listener's own, nor reflection
// come with it.
TEST_F(HealthListenerTest, BesideAGrpcServerThePortStillHasHealthAlone) {
  const auto server = GrpcServer::Start("127.0.0.1:0", {});
  ASSERT_TRUE(server.ok()) << server.status();
  Start({});
  readiness_.Set(absl::UnavailableError("waits for workers"));
  EXPECT_EQ(CheckedStatus(*Stub()), HealthCheckResponse::NOT_SERVING);
  const grpc::Status reflection = CallMethod(
      NewChannel(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "");
  EXPECT_EQ(reflection.error_code(), grpc::UNIMPLEMENTED);
  const auto health_of_server = Health::NewStub(
      grpc::CreateChannel((*server)->address(), grpc::InsecureChannelCredentials()));
  EXPECT_EQ(CheckedStatus(*health_of_server), HealthCheckResponse::SERVING);
}

TEST_F(HealthListenerTest, AMessageAboveFourKibibytesIsRefused) {
  const grpc::Status status =
      CallMethod(NewChannel(), "/grpc.health.v1.Health/Check", std::string(5000, 'x'));
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(CheckedStatus(*Stub()), HealthCheckResponse::SERVING);
}

// An HTTP/2 frame of stream 1 that does not end the headers.
std::string HeaderFrame(char type, const std::string& fields) {
  const auto size = static_cast<uint16_t>(fields.size());
  return std::string{
             0, static_cast<char>(size >> 8), static_cast<char>(size & 0xff), type, 0, 0, 0, 0, 1} +
         fields;
}

TEST_F(HealthListenerTest, AHeaderWithoutAnEndIsCutOff) {
  constexpr char kHeaders = 1;
  constexpr char kSettings = 4;
  constexpr char kContinuation = 9;
  std::string fields;
  for (int i = 0; i < 3000; ++i) fields += std::string("\0\1a\1b", 5);  // "a: b", not indexed
  Client client(listener_->address());
  client.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string{0, 0, 0, kSettings, 0, 0, 0, 0, 0} +
              HeaderFrame(kHeaders, fields));
  const std::string more = HeaderFrame(kContinuation, fields);
  size_t sent = 0;
  while (sent < 32 << 20 && send(client.fd(), more.data(), more.size(), MSG_NOSIGNAL) > 0) {
    sent += more.size();
  }
  EXPECT_LT(sent, 32 << 20);
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HealthListenerTest, WatchersLeavePlacesForHttp) {
  std::vector<std::unique_ptr<Health::Stub>> stubs;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<HealthCheckResponse>>> watches;
  HealthCheckResponse response;
  for (size_t i = 0; i < HealthListener::kMaxGrpcConnections; ++i) {
    stubs.push_back(Stub());
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    watches.push_back(stubs.back()->Watch(contexts.back().get(), HealthCheckRequest()));
    ASSERT_TRUE(watches.back()->Read(&response)) << i;
  }
  EXPECT_FALSE(TakesGrpc());
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
  for (const auto& context : contexts) context->TryCancel();
  watches.clear();
  contexts.clear();  // They hold the channels, too.
  stubs.clear();
  EXPECT_TRUE(WaitUntil([&] { return TakesGrpc(); })) << "their places are free again";
}

TEST_F(HealthListenerTest, AGrpcConnectionIsClosedIfItIsNoHttp2OrHasNoCall) {
  HealthListener::Options options;
  options.greeting_time = absl::Milliseconds(200);
  options.idle_time = absl::Milliseconds(200);
  Start(options);
  Client garbage(listener_->address());
  garbage.Send("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + std::string(100, 'x'));
  EXPECT_NE(garbage.ReadToEnd(), "open");
  Client silent(listener_->address());
  silent.Send("PRI ");
  EXPECT_NE(silent.ReadToEnd(), "open");
  const auto channel = NewChannel();
  const auto stub = Health::NewStub(channel);
  EXPECT_EQ(CheckedStatus(*stub), HealthCheckResponse::SERVING);
  EXPECT_TRUE(WaitUntil([&] { return channel->GetState(false) != GRPC_CHANNEL_READY; }));
  EXPECT_EQ(CheckedStatus(*stub), HealthCheckResponse::SERVING) << "over another connection";
}

TEST_F(HealthListenerTest, ErrorsNameTheFlag) {
  HealthListener::Options options;
  options.clock = &clock_;
  options.readiness = [] { return absl::OkStatus(); };
  options.listen = listener_->address();
  const absl::Status in_use = HealthListener::Start(options).status();
  EXPECT_TRUE(absl::IsUnavailable(in_use));
  EXPECT_THAT(in_use.message(),
              HasSubstr("cannot listen on " + options.listen + ": the port is in use"));
  EXPECT_THAT(in_use.message(), HasSubstr("choose another --health_listen"));
  for (const std::string listen : {"localhost", "localhost:", "localhost:65536", "localhost:-1"}) {
    options.listen = listen;
    const absl::Status malformed = HealthListener::Start(options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(malformed)) << listen;
    EXPECT_THAT(malformed.message(), HasSubstr("--health_listen: expected host:port")) << listen;
  }
}

}  // namespace
}  // namespace capstan
