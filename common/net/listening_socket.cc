#include "common/net/listening_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace capstan {
namespace {

void SetOption(int socket, int level, int option) {
  const int on = 1;
  setsockopt(socket, level, option, &on, sizeof(on));
}

// A socket listening at `address`, or -1.
int ListenAtOne(const addrinfo& address) {
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

// Whether each address of `host` is this machine's alone. Nothing: it has none.
std::optional<bool> IsLoopback(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  const std::string name(absl::StripSuffix(absl::StripPrefix(host, "["), "]"));
  addrinfo* addresses = nullptr;
  if (getaddrinfo(name.c_str(), "0", &hints, &addresses) != 0) return std::nullopt;
  bool is_loopback = true;
  for (const addrinfo* next = addresses; next != nullptr; next = next->ai_next) {
    if (next->ai_family == AF_INET) {
      const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(next->ai_addr);
      is_loopback = is_loopback && ntohl(ipv4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    } else {
      const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(next->ai_addr);
      is_loopback = is_loopback && IN6_IS_ADDR_LOOPBACK(&ipv6->sin6_addr);
    }
  }
  freeaddrinfo(addresses);
  return is_loopback;
}

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view flag, const std::string& text) {
  return ParseHostPort(flag, text, /*least_port=*/0);
}

absl::Status CheckLoopback(absl::string_view flag, absl::string_view text,
                           const std::string& host) {
  const std::optional<bool> is_loopback = IsLoopback(host);
  if (!is_loopback.has_value()) return CannotListen(flag, text);
  if (*is_loopback) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag, "=", text,
      " can be reached from other machines, and without keys anybody could read and change the "
      "job; expected --keys=DIR (capstan keys --out=DIR makes them), or --insecure in a network "
      "that you trust"));
}

absl::Status CannotListen(absl::string_view flag, absl::string_view text) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", text,
                   ": the port is in use, or the host is not of this machine; choose another ",
                   flag, ", with port 0 for any free one"));
}

ListeningSocket ListenAt(const ListenAddress& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  const std::string& host = address.host;
  const bool has_brackets = host.size() > 1 && host.front() == '[' && host.back() == ']';
  const std::string name = has_brackets ? host.substr(1, host.size() - 2) : host;
  addrinfo* addresses = nullptr;
  if (getaddrinfo(name.c_str(), absl::StrCat(address.port).c_str(), &hints, &addresses) != 0) {
    return {};
  }
  int listener = -1;
  for (const addrinfo* next = addresses; next != nullptr && listener < 0; next = next->ai_next) {
    listener = ListenAtOne(*next);
  }
  freeaddrinfo(addresses);
  if (listener < 0) return {};
  return {listener, PortOf(listener)};
}

}  // namespace capstan
