#include "common/transport/grpc/http_listener.h"

#include <gmock/gmock.h>
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
#include "common/transport/grpc/http_answer.h"
#include "common/transport/grpc/probe_answer.h"
#include "common/transport/grpc/test_client.h"

namespace capstan {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kGetShort[] = "GET /short HTTP/1.1\r\n\r\n";
constexpr char kGetLong[] = "GET /long HTTP/1.1\r\n\r\n";

// More than the kernel takes of a connection that nobody reads.
constexpr size_t kLongBytes = 32 << 20;

class HttpListenerTest : public testing::Test {
 protected:
  HttpListener::Options Options() {
    HttpListener::Options options;
    options.flag = "--some_listen";
    options.purpose = "tests";
    options.listen = "127.0.0.1:0";
    options.clock = &clock_;
    options.answer = [](absl::string_view received) {
      const HttpPath paths[] = {
          {"/short",
           [] {
             return HttpAnswer{"200 OK", "text/plain", "short"};
           }},
          {"/long",
           [] {
             return HttpAnswer{"200 OK", "text/plain", std::string(kLongBytes, 'x') + "end"};
           }},
      };
      return AnswerHttp(received, paths);
    };
    return options;
  }
  void SetUp() override {
    auto listener = HttpListener::Start(Options());
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  FakeClock clock_;
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpListenerTest, ALongAnswerComesWhole) {
  TestClient client(listener_->address());
  client.Send(kGetLong);
  const std::string answer = client.ReadToEnd();
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, kLongBytes + 3);
  EXPECT_THAT(answer.substr(answer.size() - 10), EndsWith("xend"));
}

TEST_F(HttpListenerTest, ALongAnswerComesWholeToAClientThatHasEndedItsSide) {
  TestClient client(listener_->address());
  client.Send(kGetLong);
  client.EndWriting();
  const std::string answer = client.ReadToEnd();
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, kLongBytes + 3);
}

TEST_F(HttpListenerTest, AClientThatDoesNotReadBlocksNobodyAndIsClosedInTime) {
  TestClient stuck(listener_->address());
  stuck.Send(kGetLong);
  TestClient other(listener_->address());
  other.Send(kGetShort);
  EXPECT_THAT(other.ReadToEnd(), EndsWith("\r\n\r\nshort"));
  clock_.Advance(absl::Seconds(6));
  TestClient later(listener_->address());
  later.Send(kGetShort);
  EXPECT_THAT(later.ReadToEnd(), EndsWith("\r\n\r\nshort"));
  EXPECT_LT(stuck.ReadToEnd().size(), kLongBytes);
}

TEST_F(HttpListenerTest, ErrorsNameTheFlag) {
  HttpListener::Options options = Options();
  options.listen = "localhost";
  EXPECT_THAT(HttpListener::Start(options).status().message(),
              HasSubstr("--some_listen: expected host:port"));
  options.listen = listener_->address();
  EXPECT_THAT(HttpListener::Start(options).status().message(),
              HasSubstr("choose another --some_listen"));
}

constexpr char kHealthz[] = "GET /healthz HTTP/1.1\r\nHost: me\r\n\r\n";
constexpr char kReadyz[] = "GET /readyz HTTP/1.1\r\nHost: me\r\n\r\n";

// With the answers that probes get.
class ProbeListenerTest : public testing::Test {
 protected:
  void SetUp() override {
    HttpListener::Options options;
    options.flag = "--health_listen";
    options.purpose = "answers probes";
    options.listen = "127.0.0.1:0";
    options.clock = &clock_;
    options.answer = [this](absl::string_view received) {
      return AnswerProbe(received, [this] { return readiness_.Get(); });
    };
    auto listener = HttpListener::Start(options);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  // The answer to one request on a connection of its own.
  std::string Ask(const std::string& request) {
    TestClient client(listener_->address());
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

  FakeClock clock_;
  Readiness readiness_{absl::OkStatus()};
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(ProbeListenerTest, HttpFollowsTheReadiness) {
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(kReadyz), EndsWith("\r\n\r\nok\n"));
  readiness_.Set(absl::UnavailableError("waits for workers"));
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(kReadyz), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Ask(kReadyz), EndsWith("\r\n\r\nwaits for workers\n"));
}

TEST_F(ProbeListenerTest, ARequestMayComeByteByByte) {
  TestClient client(listener_->address());
  for (const char* next = kHealthz; *next != 0; ++next) client.Send(std::string(1, *next));
  EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ProbeListenerTest, AClientMayEndItsSideBeforeTheAnswer) {
  TestClient client(listener_->address());
  client.Send(kHealthz);
  client.EndWriting();
  EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ProbeListenerTest, OneConnectionGetsOneAnswer) {
  const std::string answer = Ask(kHealthz);
  EXPECT_EQ(Ask(std::string(kHealthz) + kReadyz + kReadyz), answer);
  EXPECT_EQ(Ask("GET /healthz HTTP/1.1\r\nConnection: keep-alive\r\n\r\n"), answer);
}

TEST_F(ProbeListenerTest, BadRequestsGetAnAnswerAndHarmNothing) {
  EXPECT_THAT(Ask("GET /secret HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask("POST /readyz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(std::string("\x16\x03\x01\x02\x00\x01", 6)), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(std::string(30'000, 'x')), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ProbeListenerTest, AClientThatNeverStopsSendingIsCutOff) {
  TestClient client(listener_->address());
  const std::string more(100'000, 'x');
  client.Send(kHealthz + more);
  EXPECT_NE(client.ReadToEnd(), "open");
  // The other side resets the connection once it has read 64 KiB.
  EXPECT_TRUE(WaitUntil([&] { return !client.is_open(); }));
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ProbeListenerTest, SlowAndSilentClientsBlockNobodyAndAreClosedInTime) {
  TestClient silent(listener_->address());
  TestClient slow(listener_->address());
  slow.Send("GET /hea");
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
  clock_.Advance(absl::Seconds(4.9));
  slow.Send("l");  // does not give it more time
  EXPECT_THAT(Ask(kHealthz), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(silent.is_open() && slow.is_open());
  clock_.Advance(absl::Seconds(0.2));
  for (TestClient* const client : {&silent, &slow}) EXPECT_EQ(client->ReadToEnd(), "");
}

TEST_F(ProbeListenerTest, AnAnsweredClientThatStaysIsClosedInTime) {
  TestClient client(listener_->address());
  client.Send(kHealthz);
  EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1.1 200 "));
  // The listener has ended its side alone. So sending succeeds until it closes the connection.
  clock_.Advance(absl::Seconds(6));
  EXPECT_TRUE(WaitUntil([&] { return send(client.fd(), "x", 1, MSG_NOSIGNAL) < 0; }));
}

TEST_F(ProbeListenerTest, OfTwoHundredConnectionsAllBeyondTheLimitAreClosedAtOnce) {
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<TestClient>(listener_->address()));
  }
  for (size_t i = HttpListener::kMaxConnections; i < clients.size(); ++i) {
    EXPECT_NE(clients[i]->ReadToEnd(), "open") << i;
  }
  for (size_t i = 0; i < HttpListener::kMaxConnections; ++i) {
    EXPECT_TRUE(clients[i]->is_open()) << i;
    clients[i]->Send(kHealthz);
    EXPECT_THAT(clients[i]->ReadToEnd(), StartsWith("HTTP/1.1 200 ")) << i;
  }
  clients.clear();
  EXPECT_TRUE(WaitUntil([&] { return Ask(kHealthz) != ""; })) << "their places are free again";
}

}  // namespace
}  // namespace capstan
