#include "common/transport/grpc/http_listener.h"

#include <glog/logging.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc/http_answer.h"
#include "common/transport/grpc/listening_socket.h"

namespace capstan {
namespace {

// Values of epoll_wait's timeout. While a connection is open, the thread looks at the time at each
// tick.
constexpr int kNow = 0;
constexpr int kUntilAnEvent = -1;
constexpr int kTickMilliseconds = 100;

// A client that sends more than this after its request is cut off.
constexpr size_t kMaxBytesRead = 64 << 10;
// What the kernel keeps of a connection until it is read.
constexpr int kSocketBytes = 32 << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(Options options) {
  ASSIGN_OR_RETURN(const ListenAddress wanted, ParseListenAddress(options.flag, options.listen));
  const ListeningSocket listening = ListenAt(wanted);
  if (listening.socket < 0) return CannotListen(options.flag, options.listen);
  auto listener = std::unique_ptr<HttpListener>(new HttpListener(
      std::move(options), listening.socket, absl::StrCat(wanted.host, ":", listening.port)));
  for (const int fd : {listener->listener_, listener->wake_}) listener->Watch(fd, EPOLLIN);
  listener->thread_ = std::thread([listener = listener.get()] { listener->Run(); });
  LOG(INFO) << listener->options_.purpose << " at " << listener->address();
  return listener;
}

HttpListener::HttpListener(Options options, int listener, std::string address)
    : options_(std::move(options)),
      listener_(listener),
      address_(std::move(address)),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC)) {}

HttpListener::~HttpListener() {
  eventfd_write(wake_, 1);
  thread_.join();
  for (const auto& [fd, connection] : connections_) close(fd);
  for (const int fd : {listener_, events_, wake_}) close(fd);
}

void HttpListener::Watch(int fd, uint32_t event_kinds) {
  epoll_event event = {};
  event.events = event_kinds | EPOLLET;
  event.data.fd = fd;
  epoll_ctl(events_, EPOLL_CTL_ADD, fd, &event);
}

void HttpListener::Run() {
  int timeout = kUntilAnEvent;
  while (true) {
    epoll_event event = {};
    event.data.fd = -1;
    epoll_wait(events_, &event, 1, timeout);
    if (event.data.fd == wake_) return;
    const auto connection = connections_.find(event.data.fd);
    if (connection != connections_.end()) OnEvent(connection);
    CloseLate();
    timeout = Accept();
  }
}

int HttpListener::Accept() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    // Without file descriptors or memory the connection stays in the kernel's queue. No event tells
    // when accepting works again.
    const bool is_idle = errno == EAGAIN && connections_.empty();
    return is_idle ? kUntilAnEvent : kTickMilliseconds;
  }
  if (connections_.size() >= kMaxConnections) {
    close(fd);
    return kNow;
  }
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof(kSocketBytes));
  connections_[fd].deadline = options_.clock->Now() + options_.request_time;
  Watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
  return kNow;
}

void HttpListener::OnEvent(Connections::iterator connection) {
  if (!connection->second.unsent.empty()) Send(connection);
  Read(connection);
}

void HttpListener::Read(Connections::iterator connection) {
  char bytes[kMaxHttpRequestBytes];
  while (connection->second.bytes_read <= kMaxBytesRead) {
    const ssize_t size = recv(connection->first, bytes, sizeof(bytes), 0);
    if (size < 0 && errno == EAGAIN) return;
    // The client may have no more to say, and still read.
    if (size == 0 && !connection->second.unsent.empty()) return;
    if (size <= 0) break;
    connection->second.bytes_read += size;
    if (!connection->second.is_answered) Take(connection, {bytes, static_cast<size_t>(size)});
  }
  Close(connection);
}

void HttpListener::Take(Connections::iterator connection, absl::string_view bytes) {
  absl::StrAppend(&connection->second.received, bytes);
  std::optional<std::string> answer = options_.answer(connection->second.received);
  if (!answer.has_value()) return;
  connection->second.is_answered = true;
  connection->second.unsent = *std::move(answer);
  Send(connection);
}

void HttpListener::Send(Connections::iterator connection) {
  std::string& unsent = connection->second.unsent;
  while (!unsent.empty()) {
    const ssize_t size =
        send(connection->first, unsent.data(), unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    // A long answer goes in parts, as its client reads. Room for the next one is an event.
    if (size < 0 && errno == EAGAIN) return;
    unsent.erase(0, size < 0 ? unsent.size() : static_cast<size_t>(size));
  }
  // Closing with unread bytes resets the connection. Then the client may lose the answer. So this
  // side reads to the client's end.
  shutdown(connection->first, SHUT_WR);
}

void HttpListener::Close(Connections::iterator connection) {
  close(connection->first);
  connections_.erase(connection);
}

void HttpListener::CloseLate() {
  const absl::Time now = options_.clock->Now();
  for (auto next = connections_.begin(); next != connections_.end();) {
    const auto connection = next++;
    if (connection->second.deadline <= now) Close(connection);
  }
}

}  // namespace capstan
