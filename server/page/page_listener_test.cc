#include "server/page/page_listener.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/real_clock.h"
#include "server/page/http_text.h"
#include "server/page/test_tls_keys.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Longer than the test may take: what waits for this time fails the test.
constexpr absl::Duration kForever = absl::Hours(1);

int Connect(const std::string& address) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  to.sin_port = htons(static_cast<uint16_t>(port));
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return socket;
}

void Send(int socket, const std::string& bytes) {
  send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

// All that comes until the other side ends.
std::string ReadToEnd(int socket) {
  std::string text;
  char bytes[4096];
  for (ssize_t size; (size = recv(socket, bytes, sizeof(bytes), 0)) > 0;) text.append(bytes, size);
  close(socket);
  return text;
}

std::string Exchange(const std::string& address, const std::string& request) {
  const int socket = Connect(address);
  Send(socket, request);
  return ReadToEnd(socket);
}

PageAnswer Echo(const PageRequest& request) {
  PageAnswer answer;
  answer.body = absl::StrCat(request.method, " ", request.path, " ", request.host);
  for (const auto& [name, value] : request.fields)
    absl::StrAppend(&answer.body, " ", name, "=", value);
  answer.headers = {{"X-Extra", "1"}};
  return answer;
}

class PageListenerTest : public testing::Test {
 protected:
  PageListener::Options PlainOptions() {
    PageListener::Options options;
    options.listen = "127.0.0.1:0";
    options.clock = &clock_;
    options.answer = Echo;
    options.request_time = absl::Milliseconds(300);
    options.idle_time = absl::Milliseconds(300);
    return options;
  }
  void Start(PageListener::Options options) {
    auto listener = PageListener::Start(std::move(options));
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  const std::string& address() const { return listener_->address(); }

  RealClock clock_;
  std::unique_ptr<PageListener> listener_;
};

TEST_F(PageListenerTest, AnswersRequests) {
  Start(PlainOptions());
  EXPECT_THAT(Exchange(address(), "GET /a?b=c HTTP/1.1\r\nHost: h:1\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("X-Extra: 1\r\n"),
                    HasSubstr("\r\n\r\nGET /a h:1")));
  EXPECT_THAT(
      Exchange(address(),
               "POST /login HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 11\r\n"
               "Content-Type: application/x-www-form-urlencoded\r\n\r\ntoken=a%20b"),
      HasSubstr("POST /login h token=a b"));
  EXPECT_THAT(Exchange(address(), "HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200"), testing::EndsWith("\r\n\r\n")));
}

TEST_F(PageListenerTest, AConnectionHasManyRequestsAndEndsWhenItIsIdle) {
  Start(PlainOptions());
  const std::string request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
  const std::string answers = Exchange(address(), request + request + request);
  size_t count = 0;
  for (size_t at = 0; (at = answers.find("GET / h", at)) != answers.npos; ++at) ++count;
  EXPECT_EQ(count, 3);
}

TEST_F(PageListenerTest, WhatIsTooLargeIsRefused) {
  Start(PlainOptions());
  const std::string get = "GET / HTTP/1.1\r\nHost: h\r\n";
  EXPECT_THAT(Exchange(address(), get + "A: " + std::string(kMaxHeadBytes, 'a')),
              StartsWith("HTTP/1.1 400"));
  std::string many;
  for (int i = 0; i < 100; ++i) many += "A: b\r\n";
  EXPECT_THAT(Exchange(address(), get + many + "\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(Exchange(address(), "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Exchange(address(), get + "Range: bytes=0-1,0-1\r\n\r\n"),
              StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Exchange(address(), std::string(1 << 20, 'x')), StartsWith("HTTP/1.1 400"));
}

TEST_F(PageListenerTest, SlowClientsAreCut) {
  Start(PlainOptions());
  const int silent = Connect(address());
  const int half = Connect(address());
  Send(half, "GET / HTTP/1.1\r\n");
  const int body = Connect(address());
  Send(body,
       "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n"
       "Content-Type: application/x-www-form-urlencoded\r\n\r\nab");
  const int drops = Connect(address());
  while (send(drops, "G", 1, MSG_NOSIGNAL) > 0) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(ReadToEnd(silent), "");
  EXPECT_EQ(ReadToEnd(half), "");
  EXPECT_EQ(ReadToEnd(body), "");
  EXPECT_EQ(ReadToEnd(drops), "");
}

TEST_F(PageListenerTest, TooManyConnectionsAreClosedAndTheOthersAreAnswered) {
  PageListener::Options options = PlainOptions();
  options.request_time = options.idle_time = kForever;
  Start(options);
  std::vector<int> sockets;
  for (size_t i = 0; i < 4 * PageListener::kMaxConnections; ++i)
    sockets.push_back(Connect(address()));
  // Connections without a request make room.
  std::string answer;
  while (answer.empty()) {
    answer = Exchange(address(), "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  }
  EXPECT_THAT(answer, HasSubstr("GET / h"));
  for (const int socket : sockets) close(socket);
}

TEST_F(PageListenerTest, EndsAtOnceWithOpenConnections) {
  PageListener::Options options = PlainOptions();
  options.request_time = options.idle_time = kForever;
  Start(options);
  const int silent = Connect(address());
  const int half = Connect(address());
  Send(half, "GET / HTTP/1.1\r\n");
  listener_ = nullptr;
  EXPECT_EQ(ReadToEnd(silent), "");
  EXPECT_EQ(ReadToEnd(half), "");
}

// Sends requests without a pause, and reads the answers, until it is destroyed.
class BusyClient {
 public:
  explicit BusyClient(const std::string& address) : socket_(Connect(address)) {
    sender_ = std::thread([this] {
      const std::string request = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
      while (send(socket_, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
      }
    });
    reader_ = std::thread([this] {
      char bytes[4096];
      while (recv(socket_, bytes, sizeof(bytes), 0) > 0) ++reads_;
      has_ended_ = true;
    });
  }
  ~BusyClient() {
    shutdown(socket_, SHUT_RDWR);
    sender_.join();
    reader_.join();
    close(socket_);
  }
  int reads() const { return reads_; }
  // Returns once the server has ended the connection.
  void AwaitEnd() {
    while (!has_ended_) absl::SleepFor(absl::Milliseconds(1));
  }

 private:
  const int socket_;
  std::atomic<bool> has_ended_ = false;
  std::atomic<int> reads_ = 0;
  std::thread sender_;
  std::thread reader_;
};

TEST_F(PageListenerTest, EndsAtOnceWithABusyClient) {
  Start(PlainOptions());
  BusyClient busy(address());
  while (busy.reads() == 0) absl::SleepFor(absl::Milliseconds(1));
  listener_ = nullptr;
  busy.AwaitEnd();
}

TEST_F(PageListenerTest, BusyClientsDoNotKeepTheThreads) {
  Start(PlainOptions());
  std::vector<std::unique_ptr<BusyClient>> busy;
  for (size_t i = 0; i < PageListener::kThreads; ++i) {
    busy.push_back(std::make_unique<BusyClient>(address()));
  }
  for (const auto& client : busy) {
    while (client->reads() == 0) absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_THAT(Exchange(address(), "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              HasSubstr("GET / h"));
}

TEST_F(PageListenerTest, AWrongPlaceIsNamed) {
  PageListener::Options options = PlainOptions();
  options.listen = "nowhere";
  EXPECT_THAT(std::string(PageListener::Start(options).status().message()),
              HasSubstr("--http_listen: expected host:port"));
  Start(PlainOptions());
  options.listen = address();
  EXPECT_THAT(std::string(PageListener::Start(options).status().message()),
              HasSubstr("choose another --http_listen"));
}

// The common name of the server's certificate. If no TLS comes about: OpenSSL's words for it.
std::string CertificateNameOrError(const std::string& address, int version = TLS1_3_VERSION) {
  const SslContextPointer context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_security_level(context.get(), 0);
  SSL_CTX_set_min_proto_version(context.get(), version);
  SSL_CTX_set_max_proto_version(context.get(), version);
  const SslPointer ssl(SSL_new(context.get()));
  const int socket = Connect(address);
  SSL_set_fd(ssl.get(), socket);
  std::string name;
  if (SSL_connect(ssl.get()) == 1) {
    const CertificatePointer certificate(SSL_get1_peer_certificate(ssl.get()));
    char text[100] = {};
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, text,
                              sizeof(text));
    name = text;
    const std::string request = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    SSL_write(ssl.get(), request.data(), static_cast<int>(request.size()));
    char bytes[1000] = {};
    EXPECT_GT(SSL_read(ssl.get(), bytes, sizeof(bytes) - 1), 0);
    EXPECT_THAT(bytes, StartsWith("HTTP/1.1 200"));
  } else if (const char* const reason = ERR_reason_error_string(ERR_peek_error())) {
    name = reason;
  }
  ERR_clear_error();
  close(socket);
  return name;
}

TEST_F(PageListenerTest, NewKeysAreUsedAndWrongOnesAreNot) {
  Mutex mu;
  TlsKeys keys = MakeTlsKeys("first");
  PageListener::Options options = PlainOptions();
  options.tls = [&]() -> std::optional<TlsKeys> {
    MutexLock lock(&mu);
    return keys;
  };
  const auto replace = [&](TlsKeys next) {
    MutexLock lock(&mu);
    keys = std::move(next);
  };
  Start(options);
  EXPECT_EQ(CertificateNameOrError(address()), "first");
  EXPECT_EQ(CertificateNameOrError(address(), TLS1_2_VERSION), "first");
  // The words for an alert that the server has sent: the client itself does speak this version.
  EXPECT_EQ(CertificateNameOrError(address(), TLS1_1_VERSION), "tlsv1 alert protocol version");
  replace(MakeTlsKeys("second"));
  EXPECT_EQ(CertificateNameOrError(address()), "second");
  replace({"nothing", "nothing"});
  EXPECT_EQ(CertificateNameOrError(address()), "second");
  // Plaintext gets no answer.
  EXPECT_THAT(Exchange(address(), "GET / HTTP/1.1\r\nHost: h\r\n\r\n"),
              testing::Not(HasSubstr("HTTP/1.1")));
  listener_ = nullptr;  // its threads use `keys`
}

TEST_F(PageListenerTest, SilentConnectionsMakeRoomAlsoOverTls) {
  PageListener::Options options = PlainOptions();
  options.request_time = options.idle_time = kForever;
  options.tls = [] { return std::optional<TlsKeys>(MakeTlsKeys("host")); };
  Start(options);
  std::vector<int> sockets;
  for (size_t i = 0; i < PageListener::kMaxConnections / 2; ++i) {
    sockets.push_back(Connect(address()));
  }
  EXPECT_EQ(CertificateNameOrError(address()), "host");
  for (const int socket : sockets) close(socket);
}

TEST_F(PageListenerTest, WithoutKeysNobodyIsAnsweredInPlaintext) {
  PageListener::Options options = PlainOptions();
  options.tls = [] { return std::nullopt; };
  Start(options);
  EXPECT_EQ(Exchange(address(), "GET / HTTP/1.1\r\nHost: h\r\n\r\n"), "");
}

}  // namespace
}  // namespace capstan
