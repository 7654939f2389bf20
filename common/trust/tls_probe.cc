#include "common/trust/tls_probe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/trust/openssl_objects.h"

namespace capstan {
namespace {

// HTTP/2, as gRPC asks for it.
constexpr unsigned char kAlpn[] = {2, 'h', '2'};

// A connection that is waited for until a deadline.
class Socket {
 public:
  Socket(int fd, absl::Time deadline) : fd_(fd), deadline_(deadline) {}
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_; }
  // False when the time is up.
  bool Wait(int16_t events) {
    const int64_t left = absl::ToInt64Milliseconds(deadline_ - absl::Now());
    pollfd waits = {fd_, events, 0};
    return left > 0 && poll(&waits, 1, static_cast<int>(left)) > 0;
  }
  // Runs `step` until it neither wants to read nor to write. Returns SSL_get_error's code, or
  // SSL_ERROR_WANT_READ when the time is up.
  int Repeat(SSL* ssl, const std::function<int()>& step) {
    while (true) {
      ERR_clear_error();
      const int result = step();
      if (result > 0) return SSL_ERROR_NONE;
      const int error = SSL_get_error(ssl, result);
      const bool wants_write = error == SSL_ERROR_WANT_WRITE;
      if (error != SSL_ERROR_WANT_READ && !wants_write) return error;
      if (!Wait(wants_write ? POLLOUT : POLLIN)) return SSL_ERROR_WANT_READ;
    }
  }

 private:
  const int fd_;
  const absl::Time deadline_;
};

// OpenSSL writes to sockets that the peer may have closed. Without this, the signal would end the
// process.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~SigpipeBlocked() {
    const timespec at_once = {};
    if (sigismember(&before_, SIGPIPE) == 0) sigtimedwait(&sigpipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t sigpipe_;
  sigset_t before_;
};

// Null: nobody listens.
std::unique_ptr<Socket> Connect(const std::string& host, const std::string& port,
                                absl::Time deadline) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* addresses = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &addresses) != 0) return nullptr;
  std::unique_ptr<Socket> connected;
  for (const addrinfo* next = addresses; next != nullptr && connected == nullptr;
       next = next->ai_next) {
    const int fd = socket(next->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    auto candidate = std::make_unique<Socket>(fd, deadline);
    int error = connect(fd, next->ai_addr, next->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS && candidate->Wait(POLLOUT)) {
      socklen_t size = sizeof(error);
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) connected = std::move(candidate);
  }
  freeaddrinfo(addresses);
  return connected;
}

// A client with `keys`, or one that trusts everybody.
SslContextPointer MakeContext(const TlsKeys* keys) {
  SslContextPointer context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  if (keys == nullptr) return context;
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  // As gRPC does: each certificate among the authorities is trusted, also one that another signed.
  X509_STORE_set_flags(SSL_CTX_get_cert_store(context.get()), X509_V_FLAG_PARTIAL_CHAIN);
  const BioPointer authorities = PemReader(keys->authorities);
  while (X509* next = PEM_read_bio_X509(authorities.get(), nullptr, nullptr, nullptr)) {
    const CertificatePointer authority(next);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority.get());
  }
  const BioPointer own = PemReader(keys->identity);
  const CertificatePointer certificate(PEM_read_bio_X509(own.get(), nullptr, nullptr, nullptr));
  const BioPointer secret = PemReader(keys->identity);
  const PrivateKeyPointer key(PEM_read_bio_PrivateKey(secret.get(), nullptr, nullptr, nullptr));
  SSL_CTX_use_certificate(context.get(), certificate.get());
  while (X509* next = PEM_read_bio_X509(own.get(), nullptr, nullptr, nullptr)) {
    SSL_CTX_add_extra_chain_cert(context.get(), next);  // The context owns it.
  }
  SSL_CTX_use_PrivateKey(context.get(), key.get());
  return context;
}

void ExpectHost(SSL* ssl, const std::string& host) {
  in6_addr unused;
  const bool is_ip = inet_pton(AF_INET, host.c_str(), &unused) == 1 ||
                     inet_pton(AF_INET6, host.c_str(), &unused) == 1;
  if (is_ip) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
  } else {
    SSL_set1_host(ssl, host.c_str());
    SSL_set_tlsext_host_name(ssl, host.c_str());
  }
}

absl::Status Distrust(const std::string& address, absl::string_view why) {
  return absl::UnauthenticatedError(absl::StrCat(address, " ", why));
}

// The error of OpenSSL at which a handshake with keys has ended.
absl::Status Explain(const std::string& address, const std::string& host, SSL* ssl) {
  const int64_t verified = SSL_get_verify_result(ssl);
  if (verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    return Distrust(address, absl::StrCat("has a certificate for other hosts; expected ", host,
                                          " among its names (capstan keys --hosts=", host, ")"));
  }
  if (verified != X509_V_OK) {
    return Distrust(address, absl::StrCat("has a certificate that is not trusted here: ",
                                          X509_verify_cert_error_string(verified),
                                          "; expected one signed by a CA in ", kAuthorityFile));
  }
  const uint64_t code = ERR_peek_last_error();
  const char* const text = ERR_reason_error_string(code);
  const absl::string_view reason = text == nullptr ? "" : text;
  if (ERR_GET_LIB(code) == ERR_LIB_SSL && absl::StrContains(reason, "alert")) {
    return Distrust(address, absl::StrCat("refuses the certificate of this process (", reason,
                                          "); expected one that is valid and signed by a CA in "
                                          "its ",
                                          kAuthorityFile));
  }
  if (SSL_get0_peer_certificate(ssl) != nullptr) {
    // gRPC 1.51 does not tell a client that its certificate is refused.
    return absl::UnavailableError(absl::StrCat(
        address,
        " closes the connection; perhaps it refuses the certificate of this process, which "
        "must be valid and signed by a CA in its ",
        kAuthorityFile));
  }
  if (ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER) {
    return Distrust(address,
                    "does not speak TLS; start it with --keys=DIR, or this program without");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ProbeTrust(const std::string& address, const TlsKeys* keys, absl::Duration timeout) {
  const size_t colon = address.rfind(':');
  if (colon == address.npos) return absl::OkStatus();
  const std::string host(absl::StripSuffix(absl::StripPrefix(address.substr(0, colon), "["), "]"));
  const SigpipeBlocked blocked;
  const std::unique_ptr<Socket> socket =
      Connect(host, address.substr(colon + 1), absl::Now() + timeout);
  if (socket == nullptr) return absl::OkStatus();
  const SslContextPointer context = MakeContext(keys);
  const SslPointer ssl(SSL_new(context.get()));
  SSL_set_alpn_protos(ssl.get(), kAlpn, sizeof(kAlpn));
  SSL_set_fd(ssl.get(), socket->fd());
  if (keys != nullptr) ExpectHost(ssl.get(), host);
  int error = socket->Repeat(ssl.get(), [&] { return SSL_connect(ssl.get()); });
  if (keys == nullptr) {
    const CertificatePointer certificate(SSL_get1_peer_certificate(ssl.get()));
    if (certificate == nullptr) return absl::OkStatus();
    return Distrust(address, "speaks TLS; expected --keys=DIR, the folder with this job's keys");
  }
  if (error == SSL_ERROR_NONE) {
    // With TLS 1.3 the peer's verdict on a client's certificate comes after the handshake.
    char byte;
    error = socket->Repeat(ssl.get(), [&] { return SSL_read(ssl.get(), &byte, 1); });
  }
  if (error == SSL_ERROR_NONE || error == SSL_ERROR_WANT_READ) return absl::OkStatus();
  return Explain(address, host, ssl.get());
}

}  // namespace capstan
