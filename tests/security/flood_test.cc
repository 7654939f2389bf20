#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/random.h"
#include "common/trust/openssl_objects.h"
#include "tests/security/secure_job.h"
#include "tests/transport/test_keys.h"

namespace capstan {
namespace {

constexpr int kSteps = 300;
constexpr int kFloodedSteps = 1'000;
constexpr int kConnections = 10'000;
constexpr absl::Duration kLongestTraining = absl::Seconds(120);
constexpr size_t kHeld = 500;  // connections that are open at the same time
constexpr uint64_t kSeed = 17;

constexpr int64_t kMiB = 1 << 20;

// What deploy/guide/security.md promises: memory of coordinator and server together for strangers,
// and the bytes after which they close a connection without an admitted call.
constexpr int64_t kBoundBytes = 128 * kMiB;
constexpr int64_t kServerCutBytes = 8 * kMiB;
constexpr int64_t kCoordinatorCutBytes = 20 * kMiB;

// AddressSanitizer keeps what is freed, so memory says nothing under it.
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
constexpr bool kMeasuresMemory = false;
#else
constexpr bool kMeasuresMemory = true;
#endif

// Connects to 127.0.0.1, with the port of `address`, and waits this long for each answer. -1:
// nobody takes the connection.
int Connect(const std::string& address, int64_t seconds) {
  const size_t colon = address.rfind(':');
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(colon + 1), &port)) << address;
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval timeout = {/*tv_sec=*/seconds, /*tv_usec=*/0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) return fd;
  close(fd);
  return -1;
}

// Connections of a stranger who has no certificate.
class Stranger {
 public:
  ~Stranger() {
    for (const int fd : open_) close(fd);
  }

  // Attacks `address` in the way of this number.
  void Attack(const std::string& address, int number) {
    const int fd = Connect(address, /*seconds=*/1);
    if (fd < 0) return;
    ++connections_;
    switch (number % 5) {
      case 0:  // silent
        break;
      case 1:  // begins a handshake, and stops
        Send(fd, std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11));
        break;
      case 2:  // no TLS at all
        Send(fd, Garbage(500));
        break;
      case 3:  // HTTP/2 in plaintext, with headers that do not end
        Send(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Garbage(16 << 10));
        break;
      case 4:  // a whole handshake without a certificate; costly, so not each time
        if (number % 100 == 4) Shake(fd);
        break;
    }
    open_.push_back(fd);
    if (open_.size() <= kHeld) return;
    close(open_.front());
    open_.pop_front();
  }

  int connections() const { return connections_; }

 private:
  static void Send(int fd, const std::string& bytes) {
    send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  std::string Garbage(size_t size) {
    std::string bytes;
    while (bytes.size() < size) bytes += static_cast<char>(random_());
    return bytes;
  }
  void Shake(int fd) {
    const SslPointer ssl(SSL_new(context_.get()));
    SSL_set_fd(ssl.get(), fd);
    SSL_connect(ssl.get());
    SSL_write(ssl.get(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
  }

  const SslContextPointer context_{SSL_CTX_new(TLS_client_method())};
  Random random_{kSeed};
  std::deque<int> open_;
  int connections_ = 0;
};

TEST(FloodTest, TenThousandHostileConnectionsChangeNoBitOfAJob) {
  signal(SIGPIPE, SIG_IGN);
  SecureJob undisturbed(/*keys=*/"", kFloodedSteps);
  undisturbed.StartLastWorker();
  const std::string hash = undisturbed.AwaitHash();
  ASSERT_FALSE(hash.empty());

  TestKeys keys;
  keys.authority = MakeTestAuthority();
  keys.token = MakeToken();
  SecureJob job(WriteTestKeys(keys), kFloodedSteps);
  const int64_t before = job.PeakBytes();
  Stranger stranger;
  int attacks = 0;
  const auto attack = [&](int times) {
    for (const int end = attacks + times; attacks < end; ++attacks) {
      stranger.Attack(attacks % 2 == 0 ? job.server() : job.coordinator(), attacks / 2);
    }
    job.PeakBytes();
  };
  // A connection for which the listener has no room does not count.
  while (stranger.connections() < kConnections && attacks < 2 * kConnections) attack(500);
  ASSERT_GE(stranger.connections(), kConnections);
  // A member can join meanwhile, and the attack goes on until the job has ended.
  const int before_training = stranger.connections();
  job.StartLastWorker();
  EXPECT_TRUE(job.processes().WaitUntil(kLongestTraining, [&] {
    attack(50);
    return job.has_ended();
  }));
  EXPECT_GT(stranger.connections(), before_training);
  EXPECT_EQ(job.AwaitHash(), hash);
  for (const char* const name : {"server-0", "coordinator"}) {
    EXPECT_NE(job.processes().Log(name).find("connections ended without an admitted call"),
              std::string::npos);
  }
  if (kMeasuresMemory) {
    EXPECT_LE(job.PeakBytes() - before, kBoundBytes);
  }
  RecordProperty("grown_bytes", static_cast<int>(job.PeakBytes() - before));
}

// HTTP/2: the preface, and a call's headers that go on for ever, a frame at a time.
std::string EndlessHeaders() {
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  return preface + std::string("\0\0\0\4\0\0\0\0\0", 9) + std::string("\0\0\0\1\0\0\0\0\1", 9);
}
std::string Continuation() {
  const std::string header = std::string("\x10\x01") + "a\x7f\x01" + std::string(128, 'v');
  std::string block;
  while (block.size() + header.size() <= 16'000) block += header;
  const std::string size = {0, static_cast<char>(block.size() >> 8),
                            static_cast<char>(block.size())};
  return size + std::string("\x09\0\0\0\0\1", 6) + block;
}

// Sends at least this many bytes of headers, unless the connection is closed. Returns how many.
int64_t SendContinuations(SSL* ssl, int64_t bytes) {
  const std::string frame = Continuation();
  int64_t sent = 0;
  while (sent < bytes && SSL_write(ssl, frame.data(), static_cast<int>(frame.size())) > 0) {
    sent += static_cast<int64_t>(frame.size());
  }
  return sent;
}

// Whether the other side closes the connection while this one sends nothing.
bool AwaitEnd(int fd) {
  char bytes[1 << 10];
  ssize_t size = 0;
  do {
    size = recv(fd, bytes, sizeof(bytes), 0);
  } while (size > 0);
  return size == 0 || errno != EAGAIN;
}

// Connections with a member's certificate, and without its token.
class CertifiedStranger {
 public:
  explicit CertifiedStranger(const std::string& keys) {
    const std::string certificate = keys + "/tls.crt", key = keys + "/tls.key";
    EXPECT_EQ(SSL_CTX_use_certificate_file(context_.get(), certificate.c_str(), SSL_FILETYPE_PEM),
              1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context_.get(), key.c_str(), SSL_FILETYPE_PEM), 1);
    const unsigned char http2[] = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(context_.get(), http2, sizeof(http2));
  }

  // After the handshake. SSL_get_fd is to be closed.
  SslPointer Open(const std::string& address) {
    SslPointer ssl(SSL_new(context_.get()));
    SSL_set_fd(ssl.get(), Connect(address, /*seconds=*/30));
    EXPECT_EQ(SSL_connect(ssl.get()), 1) << address;
    return ssl;
  }

 private:
  const SslContextPointer context_{SSL_CTX_new(TLS_client_method())};
};

TEST(FloodTest, ACertificateWithoutATokenBuysFewBytes) {
  signal(SIGPIPE, SIG_IGN);
  TestKeys keys;
  keys.authority = MakeTestAuthority();
  keys.token = MakeToken();
  const std::string dir = WriteTestKeys(keys);
  // No connection is closed because of its time.
  SecureJob job(dir, kSteps, {"--field=limits.handshake_seconds=3600"});
  CertifiedStranger stranger(dir);
  const std::pair<std::string, int64_t> cuts[] = {{job.coordinator(), kCoordinatorCutBytes},
                                                  {job.server(), kServerCutBytes}};
  for (const auto& [address, cut_bytes] : cuts) {
    const SslPointer ssl = stranger.Open(address);
    const std::string begin = EndlessHeaders();
    SSL_write(ssl.get(), begin.data(), static_cast<int>(begin.size()));
    EXPECT_GE(SendContinuations(ssl.get(), cut_bytes - kMiB), cut_bytes - kMiB)
        << address << " refused it for another reason";
    // What it sends now may still be on its way when the connection is closed.
    SendContinuations(ssl.get(), 2 * kMiB);
    EXPECT_TRUE(AwaitEnd(SSL_get_fd(ssl.get()))) << address;
    close(SSL_get_fd(ssl.get()));
  }
  job.StartLastWorker();
  EXPECT_FALSE(job.AwaitHash().empty());
  for (const char* const name : {"server-0", "coordinator"}) {
    // A worker that a busy machine kept from its first call may have ended some, too.
    EXPECT_NE(job.processes().Log(name).find("ended without an admitted call (bytes 1"),
              std::string::npos)
        << job.processes().Log(name);
  }
}

TEST(FloodTest, ACertificateWithoutATokenBuysLittleTime) {
  signal(SIGPIPE, SIG_IGN);
  TestKeys keys;
  keys.authority = MakeTestAuthority();
  keys.token = MakeToken();
  const std::string dir = WriteTestKeys(keys);
  constexpr absl::Duration kAllowed = absl::Seconds(3);
  SecureJob job(dir, kSteps,
                {absl::StrCat("--field=limits.handshake_seconds=", kAllowed / absl::Seconds(1))});
  CertifiedStranger stranger(dir);
  const absl::Time begin = absl::Now();
  std::vector<SslPointer> connections;
  for (const std::string& address : {job.coordinator(), job.server()}) {
    for (const bool drips : {false, true}) {
      connections.push_back(stranger.Open(address));
      SSL* const ssl = connections.back().get();
      // Headers that never end: a byte at a time, or not at all.
      const std::string preface = EndlessHeaders();
      SSL_write(ssl, preface.data(), static_cast<int>(preface.size()));
      if (drips) SSL_write(ssl, "\x00\x3e\x80\x09\x00\x00\x00\x00\x01", 9);
    }
  }
  std::vector<bool> is_open(connections.size(), true);
  const auto count_open = [&is_open] { return std::count(is_open.begin(), is_open.end(), true); };
  while (count_open() > 0 && absl::Now() < begin + 10 * kAllowed) {
    for (size_t i = 0; i < connections.size(); ++i) {
      if (i % 2 == 1 && SSL_write(connections[i].get(), "\x10", 1) <= 0) is_open[i] = false;
      char settings[1 << 10];
      const int fd = SSL_get_fd(connections[i].get());
      const ssize_t size = recv(fd, settings, sizeof(settings), MSG_DONTWAIT);
      if (size == 0 || (size < 0 && errno != EAGAIN)) is_open[i] = false;
    }
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_EQ(count_open(), 0);
  EXPECT_GE(absl::Now() - begin, kAllowed / 2) << "they were refused for another reason";
  for (const SslPointer& ssl : connections) close(SSL_get_fd(ssl.get()));
  job.StartLastWorker();
  EXPECT_FALSE(job.AwaitHash().empty());
}

}  // namespace
}  // namespace capstan
