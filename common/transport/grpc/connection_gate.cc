#include "common/transport/grpc/connection_gate.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

// Values of epoll_wait's timeout.
constexpr int kNow = 0;
constexpr int kUntilAnEvent = -1;
constexpr int kRetryMilliseconds = 100;

// The latest refused connections stay half open, so that their clients can read the reason.
constexpr size_t kMaxRefused = 16;

void SetOption(int socket, int level, int option) {
  const int on = 1;
  setsockopt(socket, level, option, &on, sizeof(on));
}

// A socket listening at `address`, or -1.
int ListenAt(const addrinfo& address) {
  const int listener =
      socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, address.ai_protocol);
  if (listener < 0) return -1;
  SetOption(listener, SOL_SOCKET, SO_REUSEADDR);
  SetOption(listener, IPPROTO_TCP, TCP_NODELAY);  // Connections inherit it.
  if (bind(listener, address.ai_addr, address.ai_addrlen) == 0 &&
      listen(listener, SOMAXCONN) == 0) {
    return listener;
  }
  close(listener);
  return -1;
}

int PortOf(int listener) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// An HTTP/2 frame of stream 0.
std::string Frame(char type, const std::string& body) {
  const auto size = static_cast<char>(body.size());
  return std::string{0, 0, size, type, 0, 0, 0, 0, 0} + body;
}

// Empty SETTINGS, required as the first frame of a peer, and GOAWAY with the reason.
std::string Refusal(const std::string& reason) {
  constexpr char kSettings = 4;
  constexpr char kGoAway = 7;
  const std::string no_stream(4, '\0');
  const std::string enhance_your_calm = {0, 0, 0, 11};
  return Frame(kSettings, "") + Frame(kGoAway, no_stream + enhance_your_calm + reason);
}

}  // namespace

std::unique_ptr<ConnectionGate> ConnectionGate::Listen(const std::string& host, int port,
                                                       uint32_t max_connections) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  const bool has_brackets = host.size() > 1 && host.front() == '[' && host.back() == ']';
  const std::string name = has_brackets ? host.substr(1, host.size() - 2) : host;
  addrinfo* addresses = nullptr;
  int listener = -1;
  if (getaddrinfo(name.c_str(), absl::StrCat(port).c_str(), &hints, &addresses) == 0) {
    for (const addrinfo* next = addresses; next != nullptr && listener < 0; next = next->ai_next) {
      listener = ListenAt(*next);
    }
    freeaddrinfo(addresses);
  }
  if (listener < 0) return nullptr;
  return std::unique_ptr<ConnectionGate>(
      new ConnectionGate(listener, PortOf(listener), max_connections));
}

ConnectionGate::ConnectionGate(int listener, int port, uint32_t max_connections)
    : listener_(listener),
      port_(port),
      max_connections_(max_connections),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC)) {}

ConnectionGate::~ConnectionGate() {
  eventfd_write(wake_, 1);
  if (thread_.joinable()) thread_.join();
  for (const int fd : open_) close(fd);
  for (const int fd : refused_) close(fd);
  for (const int fd : {listener_, events_, wake_}) close(fd);
}

void ConnectionGate::Open(Taker take) {
  take_ = std::move(take);
  for (const int fd : {listener_, wake_}) Watch(fd, EPOLLIN);
  thread_ = std::thread([this] { Run(); });
}

void ConnectionGate::Watch(int fd, uint32_t event_kinds) {
  epoll_event event = {};
  event.events = event_kinds | EPOLLET;
  event.data.fd = fd;
  epoll_ctl(events_, EPOLL_CTL_ADD, fd, &event);
}

void ConnectionGate::Run() {
  int timeout = kUntilAnEvent;
  while (true) {
    epoll_event event = {};
    event.data.fd = -1;
    epoll_wait(events_, &event, 1, timeout);
    if (event.data.fd == wake_) return;
    if ((event.events & EPOLLHUP) != 0) Forget(event.data.fd);
    timeout = TakeConnection();
  }
}

void ConnectionGate::Forget(int duplicate) {
  // The taker may still have the connection open. Then closing the duplicate does not end its
  // events.
  epoll_ctl(events_, EPOLL_CTL_DEL, duplicate, nullptr);
  open_.erase(duplicate);
  close(duplicate);
}

int ConnectionGate::TakeConnection() {
  const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (connection < 0) {
    // Without file descriptors or memory the connection stays in the kernel's queue. No event tells
    // when accepting works again.
    return errno == EAGAIN ? kUntilAnEvent : kRetryMilliseconds;
  }
  const bool is_full = open_.size() >= max_connections_;
  const int duplicate = is_full ? -1 : fcntl(connection, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) {
    Refuse(connection, is_full ? absl::StrCat("the server has ", max_connections_,
                                              " connections (--max_connections)")
                               : "the server has no file descriptor left");
    return kNow;
  }
  open_.insert(duplicate);
  Watch(duplicate, EPOLLHUP);  // comes once both ends have shut the connection down
  take_(connection);
  return kNow;
}

void ConnectionGate::Refuse(int connection, const std::string& reason) {
  const std::string refusal = Refusal(reason);
  send(connection, refusal.data(), refusal.size(), MSG_NOSIGNAL);
  // Closing with unread bytes resets the connection. Then the client may lose the reason.
  shutdown(connection, SHUT_WR);
  refused_.push_back(connection);
  if (refused_.size() <= kMaxRefused) return;
  close(refused_.front());
  refused_.pop_front();
}

}  // namespace capstan
