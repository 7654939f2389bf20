#include "common/net/http_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/fake_clock.h"
#include "common/base/mutex.h"
#include "common/net/test_client.h"
#include "common/net/test_tls_keys.h"
#include "common/trust/openssl_objects.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kGet[] = "GET /short HTTP/1.1\r\nHost: h\r\n\r\n";
constexpr char kGetLong[] = "GET /long HTTP/1.1\r\nHost: h\r\n\r\n";
constexpr char kGetSlow[] = "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n";

// More than the kernel takes of a connection that nobody reads.
constexpr size_t kLongBytes = 16 << 20;

class HttpListenerTest : public testing::Test {
 protected:
  HttpListener::Options Options() {
    HttpListener::Options options;
    options.flag = "--some_listen";
    options.listen = "127.0.0.1:0";
    options.clock = &clock_;
    options.answer = [this](const HttpRequest& request) { return Echo(request); };
    return options;
  }
  // As a page for browsers has it.
  HttpListener::Options PageOptions() {
    HttpListener::Options options = Options();
    options.answer_threads = 2;
    options.keeps_connections = true;
    return options;
  }
  void Start(HttpListener::Options options) {
    auto listener = HttpListener::Start(std::move(options));
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  ~HttpListenerTest() override { Release(); }

  // Repeats the request. "/slow" is answered after Release.
  HttpAnswer Echo(const HttpRequest& request) {
    ++answers_;
    HttpAnswer answer;
    answer.body = absl::StrCat(request.method, " ", request.path);
    for (const auto& [name, value] : request.fields) {
      absl::StrAppend(&answer.body, " ", name, "=", value);
    }
    if (request.path == "/long") answer.body = std::string(kLongBytes, 'x') + "end";
    if (request.path == "/slow") {
      ++slow_answers_;
      released_.wait();
    }
    return answer;
  }
  void Release() {
    if (!std::exchange(is_released_, true)) release_.set_value();
  }

  const std::string& address() const { return listener_->address(); }
  // The answer to one request on a connection of its own.
  std::string Ask(const std::string& request) {
    TestClient client(address());
    client.Send(request);
    return client.ReadToEnd();
  }
  // A client that has had an answer, and may have another one.
  std::unique_ptr<TestClient> KeptClient() {
    auto client = std::make_unique<TestClient>(address());
    client->Send(kGet);
    EXPECT_THAT(client->ReadSome(), AllOf(EndsWith("GET /short"), Not(HasSubstr("close"))));
    return client;
  }
  // Returns when the listener has done with all that it had to do: it has one thread.
  void Settle() {
    EXPECT_THAT(Ask("GET /b HTTP/1.1\r\nConnection: close\r\n\r\n"), EndsWith("GET /b"));
  }
  static bool WaitUntil(const std::function<bool()>& is_true) {
    const absl::Time deadline = absl::Now() + absl::Milliseconds(kPatienceMilliseconds);
    while (!is_true()) {
      if (absl::Now() >= deadline) return false;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return true;
  }
  static size_t NumOpen(const std::vector<std::unique_ptr<TestClient>>& clients) {
    size_t count = 0;
    for (const auto& client : clients) count += client->is_open() ? 1 : 0;
    return count;
  }

  std::promise<void> release_;
  const std::shared_future<void> released_ = release_.get_future().share();
  bool is_released_ = false;
  std::atomic<size_t> answers_ = 0;
  std::atomic<size_t> slow_answers_ = 0;
  FakeClock clock_;
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpListenerTest, ErrorsNameTheFlag) {
  HttpListener::Options options = Options();
  options.listen = "localhost";
  EXPECT_THAT(HttpListener::Start(options).status().message(),
              HasSubstr("--some_listen: expected host:port"));
  Start(Options());
  options.listen = address();
  EXPECT_THAT(HttpListener::Start(options).status().message(),
              HasSubstr("choose another --some_listen"));
}

TEST_F(HttpListenerTest, AnswersRequests) {
  Start(Options());
  EXPECT_THAT(Ask(kGet), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nGET /short")));
  EXPECT_THAT(Ask("POST /login HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n"
                  "Content-Type: application/x-www-form-urlencoded\r\n\r\ntoken=a%20b"),
              EndsWith("\r\n\r\nPOST /login token=a b"));
  EXPECT_THAT(Ask("HEAD /short HTTP/1.1\r\nHost: h\r\n\r\n"),
              AllOf(HasSubstr("Content-Length: 11\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(HttpListenerTest, OneConnectionGetsOneAnswer) {
  Start(Options());
  const std::string answer = Ask(kGet);
  EXPECT_EQ(Ask(std::string(kGet) + kGetLong + kGetLong), answer);
  Settle();
  EXPECT_EQ(answers_, 3);  // not to what nobody will hear
  EXPECT_EQ(Ask("GET /short HTTP/1.1\r\nConnection: keep-alive\r\n\r\n"), answer);
}

TEST_F(HttpListenerTest, AKeptConnectionGetsAnAnswerToEachRequest) {
  Start(PageOptions());
  TestClient client(address());
  client.Send(absl::StrCat(kGet, kGet, "GET /b HTTP/1.1\r\nConnection: close\r\n\r\n", kGetLong));
  const std::string answers = client.ReadToEnd();
  EXPECT_THAT(answers, testing::ContainsRegex("GET /shortH(.|\r|\n)*GET /shortH(.|\r|\n)*GET /b$"));
}

TEST_F(HttpListenerTest, AKeptConnectionWithoutARequestIsClosedInTime) {
  Start(PageOptions());
  const auto client = KeptClient();
  Settle();
  clock_.Advance(HttpListener::kRequestTime - absl::Seconds(0.1));
  client->Send(kGet);
  EXPECT_THAT(client->ReadSome(), EndsWith("GET /short"));
  Settle();
  clock_.Advance(HttpListener::kRequestTime - absl::Seconds(0.1));
  EXPECT_TRUE(client->is_open());
  clock_.Advance(absl::Seconds(0.2));
  EXPECT_EQ(client->ReadToEnd(), "");
}

TEST_F(HttpListenerTest, ARequestMayComeByteByByte) {
  Start(Options());
  TestClient client(address());
  for (const char* next = kGet; *next != 0; ++next) client.Send(std::string(1, *next));
  EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpListenerTest, ALongAnswerComesWholeToAClientThatHasEndedItsSide) {
  Start(Options());
  for (const bool ends_first : {false, true}) {
    TestClient client(address());
    client.Send(kGetLong);
    if (ends_first) client.EndWriting();
    const std::string answer = client.ReadToEnd();
    EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, kLongBytes + 3);
    EXPECT_EQ(answer.substr(answer.size() - 4), "xend");
  }
}

TEST_F(HttpListenerTest, BadRequestsGetAnAnswerAndHarmNothing) {
  Start(PageOptions());
  const std::string get = "GET / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_THAT(Ask("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(std::string("\x16\x03\x01\x02\x00\x01", 6)), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(std::string(30'000, 'x')), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask(get + "A: " + std::string(kMaxHeadBytes, 'a')), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Ask(get + "Range: bytes=0-1,0-1\r\n\r\n" + kGet),
              AllOf(StartsWith("HTTP/1.1 400"), Not(HasSubstr("short"))));
  KeptClient();
}

TEST_F(HttpListenerTest, AClientThatNeverStopsSendingIsCutOff) {
  Start(Options());
  TestClient client(address());
  client.Send(kGet + std::string(100'000, 'x'));
  EXPECT_NE(client.ReadToEnd(), "open");
  // The other side resets the connection once it has read 64 KiB.
  EXPECT_TRUE(WaitUntil([&] { return send(client.fd(), "x", 1, MSG_NOSIGNAL) < 0; }));
  EXPECT_THAT(Ask(kGet), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpListenerTest, SlowAndSilentClientsBlockNobodyAndAreClosedInTime) {
  Start(Options());
  TestClient silent(address());
  TestClient slow(address());
  slow.Send("GET /sho");
  TestClient form(address());
  form.Send(
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n"
      "Content-Type: application/x-www-form-urlencoded\r\n\r\nab");
  EXPECT_THAT(Ask(kGet), StartsWith("HTTP/1.1 200 "));
  clock_.Advance(HttpListener::kRequestTime - absl::Seconds(0.1));
  slow.Send("r");  // does not give it more time
  form.Send("c");
  EXPECT_THAT(Ask(kGet), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(silent.is_open() && slow.is_open() && form.is_open());
  clock_.Advance(absl::Seconds(0.2));
  for (TestClient* const client : {&silent, &slow, &form}) EXPECT_EQ(client->ReadToEnd(), "");
}

TEST_F(HttpListenerTest, AClientThatDoesNotReadBlocksNobodyAndIsClosedInTime) {
  Start(Options());
  TestClient stuck(address());
  stuck.Send(kGetLong);
  EXPECT_THAT(Ask(kGet), EndsWith("GET /short"));
  clock_.Advance(HttpListener::kAnswerTime + absl::Seconds(1));
  EXPECT_THAT(Ask(kGet), EndsWith("GET /short"));
  EXPECT_LT(stuck.ReadToEnd().size(), kLongBytes);
}

TEST_F(HttpListenerTest, AnAnsweredClientThatStaysIsClosedInTime) {
  Start(Options());
  TestClient client(address());
  client.Send(kGet);
  EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1.1 200 "));
  // The listener has ended its side alone. So sending succeeds until it closes the connection.
  clock_.Advance(HttpListener::kEndTime + absl::Seconds(0.1));
  EXPECT_TRUE(WaitUntil([&] { return send(client.fd(), "x", 1, MSG_NOSIGNAL) < 0; }));
}

TEST_F(HttpListenerTest, SilentConnectionsMakeRoom) {
  Start(Options());
  std::vector<std::unique_ptr<TestClient>> clients;
  for (size_t i = 0; i < 4 * HttpListener::kMaxConnections; ++i) {
    clients.push_back(std::make_unique<TestClient>(address()));
  }
  EXPECT_TRUE(WaitUntil([&] { return NumOpen(clients) == HttpListener::kMaxConnections; }));
  EXPECT_THAT(Ask(kGet), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(NumOpen(clients), HttpListener::kMaxConnections - 1);
}

TEST_F(HttpListenerTest, TheConnectionWithTheLeastTimeLeftMakesRoom) {
  Start(PageOptions());
  std::vector<std::unique_ptr<TestClient>> clients;
  clients.push_back(KeptClient());
  clients.push_back(KeptClient());
  Settle();
  clock_.Advance(absl::Seconds(1));
  clients[0]->Send(kGet);  // has more time from now on
  EXPECT_THAT(clients[0]->ReadSome(), EndsWith("GET /short"));
  while (clients.size() < HttpListener::kMaxConnections - 1) clients.push_back(KeptClient());
  TestClient silent(address());
  EXPECT_THAT(Ask(kGet), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(clients[1]->ReadToEnd(), "");
  clients.erase(clients.begin() + 1);
  EXPECT_EQ(NumOpen(clients), clients.size());
}

TEST_F(HttpListenerTest, IfThereAreTooManyConnectionsEachEndsWithItsAnswer) {
  Start(PageOptions());
  std::vector<std::unique_ptr<TestClient>> clients;
  while (clients.size() < HttpListener::kMaxConnections - 1) clients.push_back(KeptClient());
  EXPECT_THAT(Ask(kGet), HasSubstr("Connection: close\r\n"));
}

TEST_F(HttpListenerTest, AConnectionWhoseAnswerIsBeingMadeIsNotClosed) {
  HttpListener::Options options = PageOptions();
  options.answer_threads = HttpListener::kMaxConnections;
  Start(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (size_t i = 0; i < HttpListener::kMaxConnections; ++i) {
    clients.push_back(std::make_unique<TestClient>(address()));
    clients.back()->Send(kGetSlow);
  }
  ASSERT_TRUE(WaitUntil([&] { return slow_answers_ == clients.size(); }));
  EXPECT_EQ(TestClient(address()).ReadToEnd(), "");
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(TestClient(address()).ReadToEnd(), "");
  Release();
  for (const auto& client : clients) EXPECT_THAT(client->ReadSome(), EndsWith("GET /slow"));
}

TEST_F(HttpListenerTest, ASlowAnswerKeepsNobodyWaiting) {
  Start(PageOptions());
  TestClient slow(address());
  slow.Send(kGetSlow);
  ASSERT_TRUE(WaitUntil([&] { return slow_answers_ == 1; }));
  const auto other = KeptClient();
  Settle();
  clock_.Advance(HttpListener::kRequestTime + absl::Seconds(1));
  EXPECT_EQ(other->ReadToEnd(), "");
  EXPECT_TRUE(slow.is_open());
  Release();
  EXPECT_THAT(slow.ReadSome(), EndsWith("GET /slow"));
}

TEST_F(HttpListenerTest, SlowAnswersOnAllThreadsDelayOtherAnswersOnly) {
  Start(PageOptions());
  const auto kept = KeptClient();
  TestClient slow[2] = {TestClient(address()), TestClient(address())};
  for (TestClient& client : slow) client.Send(kGetSlow);
  ASSERT_TRUE(WaitUntil([&] { return slow_answers_ == 2; }));
  TestClient other(address());
  other.Send(kGet);
  // The end of a later client has been read, so the request of this one, too.
  TestClient later(address());
  later.EndWriting();
  EXPECT_EQ(later.ReadToEnd(), "");
  clock_.Advance(HttpListener::kRequestTime + absl::Seconds(1));
  EXPECT_EQ(kept->ReadToEnd(), "");
  EXPECT_TRUE(other.is_open());
  Release();
  EXPECT_THAT(other.ReadSome(), EndsWith("GET /short"));
}

TEST_F(HttpListenerTest, EndsAtOnceWithOpenConnections) {
  Start(PageOptions());
  const auto kept = KeptClient();
  TestClient silent(address());
  TestClient half(address());
  half.Send("GET / HTTP/1.1\r\n");
  listener_ = nullptr;
  for (TestClient* const client : {kept.get(), &silent, &half}) EXPECT_EQ(client->ReadToEnd(), "");
}

// Sends requests without a pause, and reads the answers, until it is destroyed.
class BusyClient {
 public:
  explicit BusyClient(const std::string& address) : client_(address) {
    sender_ = std::thread([this] {
      while (send(client_.fd(), kGet, sizeof(kGet) - 1, MSG_NOSIGNAL) > 0) {
      }
    });
    reader_ = std::thread([this] {
      char bytes[4096];
      while (recv(client_.fd(), bytes, sizeof(bytes), 0) > 0) ++reads_;
      has_ended_ = true;
    });
  }
  ~BusyClient() {
    shutdown(client_.fd(), SHUT_RDWR);
    sender_.join();
    reader_.join();
  }
  int reads() const { return reads_; }
  bool has_ended() const { return has_ended_; }

 private:
  TestClient client_;
  std::atomic<bool> has_ended_ = false;
  std::atomic<int> reads_ = 0;
  std::thread sender_;
  std::thread reader_;
};

TEST_F(HttpListenerTest, BusyClientsKeepNeitherTheThreadsNorTheListener) {
  for (const size_t answer_threads : {0, 2}) {
    HttpListener::Options options = PageOptions();
    options.answer_threads = answer_threads;
    Start(options);
    std::vector<std::unique_ptr<BusyClient>> busy;
    for (int i = 0; i < 4; ++i) busy.push_back(std::make_unique<BusyClient>(address()));
    for (const auto& client : busy) {
      EXPECT_TRUE(WaitUntil([&] { return client->reads() > 0; }));
    }
    KeptClient();
    listener_ = nullptr;
    for (const auto& client : busy) EXPECT_TRUE(WaitUntil([&] { return client->has_ended(); }));
  }
}

// A client over TLS.
class TlsClient {
 public:
  explicit TlsClient(const std::string& address, int version = TLS1_3_VERSION) : socket_(address) {
    SSL_CTX_set_security_level(context_.get(), 0);
    SSL_CTX_set_min_proto_version(context_.get(), version);
    SSL_CTX_set_max_proto_version(context_.get(), version);
    tls_.reset(SSL_new(context_.get()));
    SSL_set_fd(tls_.get(), socket_.fd());
  }
  // The common name of the server's certificate. If no TLS comes about: OpenSSL's words for it.
  std::string CertificateNameOrError() {
    char name[100] = {};
    std::string error;
    if (SSL_connect(tls_.get()) == 1) {
      const CertificatePointer certificate(SSL_get1_peer_certificate(tls_.get()));
      X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name,
                                sizeof(name));
    } else if (const char* const reason = ERR_reason_error_string(ERR_peek_error())) {
      error = reason;
    }
    ERR_clear_error();
    return name + error;
  }
  void Send(const std::string& request) {
    EXPECT_EQ(SSL_write(tls_.get(), request.data(), static_cast<int>(request.size())),
              request.size());
  }
  std::string ReadToEnd() {
    std::string heard;
    char bytes[1000];
    for (int size; (size = SSL_read(tls_.get(), bytes, sizeof(bytes))) > 0;) {
      heard.append(bytes, size);
    }
    // Nobody has cut the answer.
    EXPECT_EQ(SSL_get_shutdown(tls_.get()) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
    return heard;
  }

 private:
  TestClient socket_;
  const SslContextPointer context_{SSL_CTX_new(TLS_client_method())};
  SslPointer tls_;
};

std::string NameOrError(const std::string& address, int version = TLS1_3_VERSION) {
  return TlsClient(address, version).CertificateNameOrError();
}

TEST_F(HttpListenerTest, NewKeysAreUsedAndWrongOnesAreNot) {
  Mutex mu;
  TlsKeys keys = MakeTlsKeys("first");
  HttpListener::Options options = Options();
  options.tls = [&]() -> std::optional<TlsKeys> {
    MutexLock lock(&mu);
    return keys;
  };
  const auto replace = [&](TlsKeys next) {
    MutexLock lock(&mu);
    keys = std::move(next);
  };
  Start(options);
  EXPECT_EQ(NameOrError(address()), "first");
  EXPECT_EQ(NameOrError(address(), TLS1_2_VERSION), "first");
  // The words for an alert that the server has sent: the client itself does speak this version.
  EXPECT_EQ(NameOrError(address(), TLS1_1_VERSION), "tlsv1 alert protocol version");
  replace(MakeTlsKeys("second"));
  EXPECT_EQ(NameOrError(address()), "second");
  replace({"nothing", "nothing"});
  EXPECT_EQ(NameOrError(address()), "second");
  // Plaintext gets no answer.
  EXPECT_THAT(Ask(kGet), Not(HasSubstr("HTTP/1.1")));
  listener_ = nullptr;  // its thread uses `keys`
}

class TlsListenerTest : public HttpListenerTest {
 protected:
  void SetUp() override {
    HttpListener::Options options = PageOptions();
    options.tls = [keys = MakeTlsKeys("host")] { return std::optional<TlsKeys>(keys); };
    Start(options);
  }
};

TEST_F(TlsListenerTest, RequestsThatComeTogetherAreAnsweredWhole) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(address(), version);
    EXPECT_EQ(client.CertificateNameOrError(), "host");
    // One record, longer than one read: no event tells of its rest.
    client.Send(absl::StrCat(kGet, kGetLong, "GET /b HTTP/1.1\r\nConnection: close\r\nA: ",
                             std::string(5000, 'a'), "\r\n\r\n"));
    const std::string answers = client.ReadToEnd();
    EXPECT_GT(answers.size(), kLongBytes);
    EXPECT_EQ(answers.substr(answers.size() - 6), "GET /b");
  }
}

TEST_F(TlsListenerTest, ClientsWithoutAHandshakeBlockNobodyAndAreClosedInTime) {
  TestClient silent(address());
  TestClient half(address());
  half.Send(std::string("\x16\x03\x01\x02\x00\x01", 6));
  EXPECT_EQ(NameOrError(address()), "host");
  clock_.Advance(HttpListener::kRequestTime + absl::Seconds(1));
  for (TestClient* const client : {&silent, &half}) EXPECT_EQ(client->ReadToEnd(), "");
}

TEST_F(TlsListenerTest, AClientThatGoesDuringItsAnswerHarmsNothing) {
  for (int i = 0; i < 3; ++i) {
    TlsClient client(address());
    EXPECT_EQ(client.CertificateNameOrError(), "host");
    client.Send(kGetLong);
  }
  EXPECT_EQ(NameOrError(address()), "host");
}

TEST_F(HttpListenerTest, WithoutKeysNobodyIsAnsweredInPlaintext) {
  HttpListener::Options options = Options();
  options.tls = [] { return std::nullopt; };
  Start(options);
  EXPECT_EQ(TestClient(address()).ReadToEnd(), "");
}

}  // namespace
}  // namespace capstan
