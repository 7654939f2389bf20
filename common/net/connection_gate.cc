#include "common/net/connection_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <glog/logging.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/net/listening_socket.h"

namespace capstan {
namespace {

// Values of epoll_wait's timeout.
constexpr int kNow = 0;
constexpr int kUntilAnEvent = -1;
constexpr int kRetryMilliseconds = 100;
constexpr int kCheckMilliseconds = 10;
// Between two looks at the time and bytes of strangers: neither makes an event.
constexpr absl::Duration kCheckInterval = absl::Milliseconds(kCheckMilliseconds);

// The peer of a connection as gRPC names it: "ipv4:127.0.0.1:40000" or "ipv6:%5B::1%5D:40000". And
// the same without the port.
struct PeerName {
  std::string peer;
  std::string host;
};

PeerName NameOf(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  PeerName name;
  uint16_t port = 0;
  if (address.ss_family == AF_INET6) {
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &ipv6.sin6_addr, text, sizeof(text));
    const std::string scope =
        ipv6.sin6_scope_id == 0 ? "" : absl::StrCat("%25", ipv6.sin6_scope_id);
    name.host = absl::StrCat("ipv6:%5B", text, scope, "%5D");
    port = ntohs(ipv6.sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&ipv6.sin6_addr)) {
      inet_ntop(AF_INET, &ipv6.sin6_addr.s6_addr[12], text, sizeof(text));
      name.host = absl::StrCat("ipv4:", text);
    }
  } else {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &ipv4.sin_addr, text, sizeof(text));
    name.host = absl::StrCat("ipv4:", text);
    port = ntohs(ipv4.sin_port);
  }
  name.peer = absl::StrCat(name.host, ":", port);
  return name;
}

uint64_t BytesReceived(int socket) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size);
  return info.tcpi_bytes_received;
}

}  // namespace

std::unique_ptr<ConnectionGate> ConnectionGate::Listen(const std::string& host, int port,
                                                       Limits limits) {
  const ListeningSocket listening = ListenAt({host, port});
  if (listening.socket < 0) return nullptr;
  return std::unique_ptr<ConnectionGate>(
      new ConnectionGate(listening.socket, listening.port, limits));
}

ConnectionGate::ConnectionGate(int listener, int port, Limits limits)
    : listener_(listener),
      port_(port),
      limits_(limits),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC)) {}

ConnectionGate::~ConnectionGate() {
  Close();
  for (const Connection& connection : connections_) close(connection.duplicate);
  for (const int fd : {events_, wake_}) close(fd);
}

void ConnectionGate::Close() {
  eventfd_write(wake_, 1);
  if (thread_.joinable()) thread_.join();
  if (listener_ >= 0) close(std::exchange(listener_, -1));
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
  absl::Time next_check;
  while (true) {
    epoll_event event = {};
    event.data.fd = -1;
    epoll_wait(events_, &event, 1, timeout);
    if (event.data.fd == wake_) return;
    if ((event.events & EPOLLHUP) != 0) Forget(event.data.fd);
    timeout = TakeConnection();
    // A flood of connections must not put the check off.
    if (timeout != kNow || absl::Now() >= next_check) {
      if (CloseStrangers() && timeout != kNow) timeout = kCheckMilliseconds;
      next_check = absl::Now() + kCheckInterval;
    }
    LogStranger();
  }
}

void ConnectionGate::LogStranger() {
  if (last_stranger_.empty()) return;
  LOG_EVERY_T(WARNING, 1) << "a connection from " << last_stranger_
                          << " has ended without an admitted call; " << counts().strangers()
                          << " so far";
  last_stranger_.clear();
}

int ConnectionGate::TakeConnection() {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  const int socket = accept4(listener_, reinterpret_cast<sockaddr*>(&address), &size,
                             SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) {
    // Without file descriptors or memory the connection stays in the kernel's queue. No event tells
    // when accepting works again.
    return errno == EAGAIN ? kUntilAnEvent : kRetryMilliseconds;
  }
  const int duplicate = fcntl(socket, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) {
    close(socket);
    return kNow;
  }
  const PeerName name = NameOf(address);
  {
    MutexLock lock(&mu_);
    if (connections_.size() - num_proved_ >= limits_.unproved) CloseOneLocked();
    connections_.push_back({duplicate, name.peer, name.host, absl::Now()});
    const auto connection = std::prev(connections_.end());
    by_duplicate_[duplicate] = connection;
    by_peer_[name.peer] = connection;
    ++unproved_of_host_[name.host];
  }
  Watch(duplicate, EPOLLHUP);  // comes once both ends have shut the connection down
  take_(socket);
  return kNow;
}

bool ConnectionGate::Prove(const std::string& peer, bool is_member) {
  MutexLock lock(&mu_);
  const auto found = by_peer_.find(peer);
  if (found == by_peer_.end()) return true;  // it is closing
  Connection& connection = *found->second;
  connection.is_stranger = false;
  if (!is_member || connection.is_proved) return true;
  if (num_proved_ >= limits_.proved) return false;
  connection.is_proved = true;
  ++num_proved_;
  const auto unproved = unproved_of_host_.find(connection.host);
  if (--unproved->second == 0) unproved_of_host_.erase(unproved);
  return true;
}

ConnectionGate::Counts ConnectionGate::counts() const {
  MutexLock lock(&mu_);
  Counts counts = counts_;
  counts.proved = num_proved_;
  counts.unproved = static_cast<uint32_t>(connections_.size()) - num_proved_;
  return counts;
}

void ConnectionGate::CloseOneLocked() {
  const auto most =
      std::max_element(unproved_of_host_.begin(), unproved_of_host_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto oldest =
      std::find_if(connections_.begin(), connections_.end(), [&most](const Connection& connection) {
        return !connection.is_proved && connection.host == most->first;
      });
  CloseLocked(oldest, &Counts::too_many);
}

bool ConnectionGate::CloseStrangers() {
  const absl::Time latest = absl::Now() - limits_.stranger_time;
  bool has_strangers = false;
  MutexLock lock(&mu_);
  for (auto next = connections_.begin(); next != connections_.end();) {
    const auto connection = next++;
    if (!connection->is_stranger) continue;
    connection->bytes = BytesReceived(connection->duplicate);
    const bool is_late = connection->begin < latest;
    const bool is_long = connection->bytes > limits_.stranger_bytes;
    if (is_late || is_long) CloseLocked(connection, is_late ? &Counts::time : &Counts::bytes);
    has_strangers = has_strangers || !(is_late || is_long);
  }
  CloseLargestHostsLocked();
  return has_strangers;
}

void ConnectionGate::CloseLargestHostsLocked() {
  const uint64_t most_bytes =
      std::max(limits_.stranger_bytes, limits_.unproved * limits_.mean_stranger_bytes);
  uint64_t bytes = 0;
  std::map<std::string, uint64_t> bytes_of_host;
  for (const Connection& connection : connections_) {
    if (!connection.is_stranger) continue;
    bytes += connection.bytes;
    bytes_of_host[connection.host] += connection.bytes;
  }
  while (bytes > most_bytes) {
    const auto most =
        std::max_element(bytes_of_host.begin(), bytes_of_host.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto oldest = std::find_if(
        connections_.begin(), connections_.end(), [&most](const Connection& connection) {
          return connection.is_stranger && connection.bytes > 0 && connection.host == most->first;
        });
    bytes -= oldest->bytes;
    most->second -= oldest->bytes;
    CloseLocked(oldest, &Counts::bytes);
  }
}

void ConnectionGate::CloseLocked(Connections::iterator connection, int64_t Counts::*count) {
  // What is still on its way is not worth waiting for. Whoever took the socket closes it.
  const linger at_once = {/*l_onoff=*/1, /*l_linger=*/0};
  setsockopt(connection->duplicate, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  shutdown(connection->duplicate, SHUT_RDWR);
  ForgetLocked(connection, count);
}

void ConnectionGate::Forget(int duplicate) {
  MutexLock lock(&mu_);
  const auto found = by_duplicate_.find(duplicate);
  if (found != by_duplicate_.end()) ForgetLocked(found->second, &Counts::ended);
}

void ConnectionGate::ForgetLocked(Connections::iterator connection, int64_t Counts::*count) {
  const auto unproved = unproved_of_host_.find(connection->host);
  if (connection->is_proved) {
    --num_proved_;
  } else if (--unproved->second == 0) {
    unproved_of_host_.erase(unproved);
  }
  if (connection->is_stranger) {
    ++(counts_.*count);
    last_stranger_ = connection->peer;
  }
  const auto named = by_peer_.find(connection->peer);
  if (named != by_peer_.end() && named->second == connection) by_peer_.erase(named);
  by_duplicate_.erase(connection->duplicate);
  // The taker may still have the connection open. Then closing the duplicate does not end its
  // events.
  epoll_ctl(events_, EPOLL_CTL_DEL, connection->duplicate, nullptr);
  close(connection->duplicate);
  connections_.erase(connection);
}

}  // namespace capstan
