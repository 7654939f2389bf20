#include "server/page/http_connection.h"

#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace capstan {
namespace {

constexpr absl::string_view kHeadEnd = "\r\n\r\n";
constexpr size_t kReadBytes = 4 << 10;
// What a client may still send when the answer is on its way, and for how long.
constexpr size_t kMostIgnoredBytes = 64 << 10;
constexpr absl::Duration kLongestEnd = absl::Milliseconds(300);

}  // namespace

HttpConnection::HttpConnection(int socket, int stop, Clock& clock, std::shared_ptr<SSL_CTX> tls)
    : socket_(socket),
      stop_(stop),
      clock_(clock),
      context_(std::move(tls)),
      ssl_(context_ == nullptr ? nullptr : SSL_new(context_.get())) {
  if (ssl_ != nullptr) SSL_set_fd(ssl_.get(), socket_);
}

HttpConnection::~HttpConnection() {
  ERR_clear_error();
  close(socket_);
}

bool HttpConnection::Wait(short events) {
  const absl::Duration left = deadline_ - clock_.Now();
  if (left <= absl::ZeroDuration()) return false;
  pollfd waiting[] = {{socket_, events, 0}, {stop_, POLLIN, 0}};
  const int timeout =
      static_cast<int>(absl::ToInt64Milliseconds(std::min(left, absl::Hours(1)))) + 1;
  const int ready = poll(waiting, 2, timeout);
  if (ready < 0 && errno == EINTR) return true;
  return ready > 0 && waiting[1].revents == 0;
}

short HttpConnection::Wanted(int result) const {
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ) return POLLIN;
  if (error == SSL_ERROR_WANT_WRITE) return POLLOUT;
  return 0;
}

bool HttpConnection::ShakeHands() {
  if (context_ == nullptr) return true;
  if (ssl_ == nullptr) return false;
  while (true) {
    ERR_clear_error();
    const int result = SSL_accept(ssl_.get());
    if (result == 1) return true;
    const short wants = Wanted(result);
    if (wants == 0 || !Wait(wants)) return false;
  }
}

bool HttpConnection::AwaitBytes(absl::Time until) {
  if (!buffered_.empty() || (ssl_ != nullptr && SSL_pending(ssl_.get()) > 0)) return true;
  const absl::Time deadline = std::exchange(deadline_, until);
  const bool is_there = Wait(POLLIN);
  deadline_ = deadline;
  return is_there;
}

ssize_t HttpConnection::TryRead(char* bytes, size_t size, short& wants) {
  if (ssl_ != nullptr) {
    ERR_clear_error();
    const int result = SSL_read(ssl_.get(), bytes, static_cast<int>(size));
    wants = result > 0 ? 0 : Wanted(result);
    return result;
  }
  const ssize_t result = recv(socket_, bytes, size, 0);
  wants = result < 0 && (errno == EAGAIN || errno == EINTR) ? POLLIN : 0;
  return result;
}

ssize_t HttpConnection::TryWrite(const char* bytes, size_t size, short& wants) {
  if (ssl_ != nullptr) {
    ERR_clear_error();
    const int result = SSL_write(ssl_.get(), bytes, static_cast<int>(size));
    wants = result > 0 ? 0 : Wanted(result);
    return result;
  }
  const ssize_t result = send(socket_, bytes, size, MSG_NOSIGNAL);
  wants = result < 0 && (errno == EAGAIN || errno == EINTR) ? POLLOUT : 0;
  return result;
}

std::optional<std::string> HttpConnection::ReadHead(size_t most_bytes) {
  char bytes[kReadBytes];
  while (true) {
    const size_t end = buffered_.find(kHeadEnd.data());
    const size_t size = end == buffered_.npos ? buffered_.size() : end + kHeadEnd.size();
    if (end != buffered_.npos || size > most_bytes) {
      std::string head = buffered_.substr(0, std::min(size, most_bytes));
      buffered_.erase(0, head.size());
      return head;
    }
    short wants = 0;
    const ssize_t read = TryRead(bytes, sizeof(bytes), wants);
    if (read > 0) {
      buffered_.append(bytes, read);
    } else if (wants == 0 || !Wait(wants)) {
      return std::nullopt;
    }
    // A client that sends byte after byte must not gain time.
    if (clock_.Now() >= deadline_) return std::nullopt;
  }
}

ssize_t HttpConnection::Read(char* bytes, size_t size) {
  if (!buffered_.empty()) {
    const size_t taken = std::min(size, buffered_.size());
    std::memcpy(bytes, buffered_.data(), taken);
    buffered_.erase(0, taken);
    return static_cast<ssize_t>(taken);
  }
  while (clock_.Now() < deadline_) {
    short wants = 0;
    const ssize_t read = TryRead(bytes, size, wants);
    if (read > 0) return read;
    if (wants == 0 || !Wait(wants)) break;
  }
  return -1;
}

ssize_t HttpConnection::Write(const char* bytes, size_t size) {
  if (size == 0) return 0;
  while (clock_.Now() < deadline_) {
    short wants = 0;
    const ssize_t written = TryWrite(bytes, size, wants);
    if (written > 0) return written;
    if (wants == 0 || !Wait(wants)) break;
  }
  return -1;
}

bool HttpConnection::WriteAll(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = Write(bytes.data(), bytes.size());
    if (written <= 0) return false;
    bytes.remove_prefix(written);
  }
  return true;
}

void HttpConnection::End() {
  if (ssl_ != nullptr) SSL_shutdown(ssl_.get());
  shutdown(socket_, SHUT_WR);
  deadline_ = clock_.Now() + kLongestEnd;
  char bytes[kReadBytes];
  size_t ignored = 0;
  while (ignored < kMostIgnoredBytes && Wait(POLLIN)) {
    const ssize_t read = recv(socket_, bytes, sizeof(bytes), 0);
    if (read <= 0) return;
    ignored += read;
  }
}

}  // namespace capstan
