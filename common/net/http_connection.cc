#include "common/net/http_connection.h"

#include <openssl/err.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace capstan {
namespace {

// The most records of TLS without bytes that one Read takes. An honest client sends one or two.
constexpr int kMostEmptyRecords = 64;

}  // namespace

HttpConnection::HttpConnection(int socket, SslPointer tls) : socket_(socket), tls_(std::move(tls)) {
  if (tls_ != nullptr) SSL_set_fd(tls_.get(), socket_);
}

HttpConnection::~HttpConnection() {
  ERR_clear_error();
  close(socket_);
}

ssize_t HttpConnection::TlsResult(int result) const {
  if (result > 0) return result;
  const int error = SSL_get_error(tls_.get(), result);
  return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

ssize_t HttpConnection::SocketResult(ssize_t result) {
  if (result > 0) return result;
  return result < 0 && errno == EAGAIN ? 0 : -1;
}

bool HttpConnection::HasUnreadBytes() const {
  int bytes = 0;
  return ioctl(socket_, FIONREAD, &bytes) == 0 && bytes > 0;
}

ssize_t HttpConnection::Read(char* bytes, size_t size) {
  if (tls_ == nullptr) return SocketResult(recv(socket_, bytes, size, 0));
  // SSL_read returns without bytes for two reasons. The socket is empty: an event follows. Or it
  // has taken a record that has none, such as KeyUpdate: no event follows for what is behind it. A
  // hostile client sends any number of those.
  for (int i = 0; i < kMostEmptyRecords; ++i) {
    ERR_clear_error();
    const ssize_t result = TlsResult(SSL_read(tls_.get(), bytes, static_cast<int>(size)));
    if (result != 0 || !HasUnreadBytes()) return result;
  }
  return -1;
}

ssize_t HttpConnection::Write(absl::string_view bytes) {
  if (tls_ == nullptr) {
    return SocketResult(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  ERR_clear_error();
  return TlsResult(SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size())));
}

void HttpConnection::End() {
  if (tls_ != nullptr) SSL_shutdown(tls_.get());
  shutdown(socket_, SHUT_WR);
}

}  // namespace capstan
