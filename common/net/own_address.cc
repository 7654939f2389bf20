#include "common/net/own_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

// An address that belongs to nobody (RFC 5737). Nothing is sent there.
constexpr char kElsewhere[] = "192.0.2.1";

std::string TextOf(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
              sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof(text));
  }
  return text;
}

bool IsLinkLocal(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// The bytes of an address, 4 or 16; empty: the text is none.
std::string BytesOf(const std::string& address) {
  char bytes[16];
  if (inet_pton(AF_INET, address.c_str(), bytes) == 1) return std::string(bytes, 4);
  if (inet_pton(AF_INET6, address.c_str(), bytes) == 1) return std::string(bytes, 16);
  return "";
}

struct AddressRange {
  std::string bytes;  // 4 or 16
  int bits = 0;       // that count

  bool Contains(const std::string& address) const {
    const std::string other = BytesOf(address);
    if (other.size() != bytes.size()) return false;
    for (int bit = 0; bit < bits; ++bit) {
      const int mask = 0x80 >> (bit % 8);
      if ((bytes[bit / 8] & mask) != (other[bit / 8] & mask)) return false;
    }
    return true;
  }
};

// Reads "10.0.0.0/16". Nothing: the text has no slash, so it is an interface's name.
absl::StatusOr<std::optional<AddressRange>> ParseRange(const std::string& network) {
  const size_t slash = network.find('/');
  if (slash == network.npos) return std::nullopt;
  AddressRange range;
  range.bytes = BytesOf(network.substr(0, slash));
  const bool is_number = absl::SimpleAtoi(network.substr(slash + 1), &range.bits);
  const int most_bits = 8 * static_cast<int>(range.bytes.size());
  if (!range.bytes.empty() && is_number && range.bits >= 0 && range.bits <= most_bits) return range;
  return absl::InvalidArgumentError(
      absl::StrCat("--network: expected a range such as 10.0.0.0/16, got ", network));
}

std::string ListOf(absl::Span<const InterfaceAddress> addresses) {
  if (addresses.empty()) return "none";
  return absl::StrJoin(addresses, ", ", [](std::string* out, const InterfaceAddress& one) {
    absl::StrAppend(out, one.interface, " ", one.address);
  });
}

std::string WithoutBrackets(const std::string& host) {
  return std::string(absl::StripSuffix(absl::StripPrefix(host, "["), "]"));
}

bool IsLoopback(const std::string& address) {
  const std::string bytes = BytesOf(address);
  return address == "::1" || (bytes.size() == 4 && bytes[0] == IN_LOOPBACKNET);
}

bool IsOwnName(const std::string& host) {
  char own_name[256] = {};
  return gethostname(own_name, sizeof(own_name) - 1) == 0 && host == own_name;
}

struct AddressListDeleter {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, AddressListDeleter>;

absl::StatusOr<AddressList> Resolve(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  // Some port; it does not matter which.
  const int error = getaddrinfo(WithoutBrackets(host).c_str(), "9", &hints, &found);
  if (error == 0) return AddressList(found);
  return absl::UnavailableError(absl::StrCat("expected a host that this machine knows, got \"",
                                             host, "\" (", gai_strerror(error),
                                             "); take its IP address, or add it to /etc/hosts"));
}

// The source address for datagrams to `to`; empty: there is no way.
std::string SourceTowards(const addrinfo& to) {
  const int socket = ::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return "";
  const auto closer = absl::MakeCleanup([socket] { close(socket); });
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  if (connect(socket, to.ai_addr, to.ai_addrlen) != 0) return "";
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0) return "";
  return TextOf(reinterpret_cast<const sockaddr*>(&own));
}

}  // namespace

absl::StatusOr<std::vector<InterfaceAddress>> InterfaceAddresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot list the network interfaces: ", std::strerror(errno)));
  }
  const auto freer = absl::MakeCleanup([list] { freeifaddrs(list); });
  std::vector<InterfaceAddress> addresses;
  for (const ifaddrs* next = list; next != nullptr; next = next->ifa_next) {
    if (next->ifa_addr == nullptr || (next->ifa_flags & IFF_UP) == 0) continue;
    const std::string address = TextOf(next->ifa_addr);
    if (address.empty() || IsLinkLocal(next->ifa_addr)) continue;
    addresses.push_back({next->ifa_name, address, (next->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return addresses;
}

absl::StatusOr<std::string> AddressIn(const std::string& network,
                                      absl::Span<const InterfaceAddress> addresses) {
  ASSIGN_OR_RETURN(const std::optional<AddressRange> range, ParseRange(network));
  std::vector<std::string> found;
  for (const InterfaceAddress& one : addresses) {
    const bool is_in = range.has_value() ? range->Contains(one.address) : one.interface == network;
    if (is_in) found.push_back(one.address);
  }
  const auto ipv4 = std::find_if(found.begin(), found.end(), [](const std::string& address) {
    return BytesOf(address).size() == 4;
  });
  if (ipv4 != found.end()) return *ipv4;
  if (!found.empty()) return found.front();
  return absl::InvalidArgumentError(absl::StrCat(
      "--network: expected an interface of this machine, or a range such as 10.0.0.0/16 with one "
      "of its addresses, got ",
      network, "; this machine has ", ListOf(addresses)));
}

absl::StatusOr<std::string> AddressTowards(const std::string& host) {
  ASSIGN_OR_RETURN(const AddressList resolved, Resolve(host));
  for (const addrinfo* next = resolved.get(); next != nullptr; next = next->ai_next) {
    const std::string source = SourceTowards(*next);
    if (!source.empty()) return source;
  }
  return absl::UnavailableError(absl::StrCat("expected a way to ", host,
                                             ", but this machine's network has none; look at "
                                             "`ip route`"));
}

absl::StatusOr<std::string> DefaultAddress(absl::Span<const InterfaceAddress> addresses) {
  const absl::StatusOr<std::string> outward = AddressTowards(kElsewhere);
  if (outward.ok()) return outward;
  for (const bool is_loopback : {false, true}) {
    for (const InterfaceAddress& one : addresses) {
      if (one.is_loopback == is_loopback) return one.address;
    }
  }
  return absl::UnavailableError("expected an address of this machine, but no interface is up");
}

absl::StatusOr<bool> IsThisMachine(const std::string& host,
                                   absl::Span<const InterfaceAddress> addresses) {
  if (IsOwnName(host)) return true;
  ASSIGN_OR_RETURN(const AddressList resolved, Resolve(host));
  for (const addrinfo* next = resolved.get(); next != nullptr; next = next->ai_next) {
    const std::string text = TextOf(next->ai_addr);
    if (IsLoopback(text)) return true;
    for (const InterfaceAddress& one : addresses) {
      if (one.address == text) return true;
    }
  }
  return false;
}

absl::StatusOr<std::string> HostToAnnounce(const std::string& address,
                                           absl::Span<const std::string> certified) {
  if (certified.empty()) return address;
  const std::string bytes = BytesOf(address);
  for (const std::string& host : certified) {
    if (BytesOf(host) == bytes && !bytes.empty()) return address;
  }
  for (const std::string& host : certified) {
    if (!BytesOf(host).empty() || host.find('*') != host.npos) continue;
    const absl::StatusOr<AddressList> resolved = Resolve(host);
    if (!resolved.ok()) continue;
    for (const addrinfo* next = resolved->get(); next != nullptr; next = next->ai_next) {
      const std::string text = TextOf(next->ai_addr);
      if (text == address) return host;
      // Debian gives a machine's own name the address 127.0.1.1. Others know a better one.
      if (IsOwnName(host) && IsLoopback(text)) return host;
    }
  }
  return absl::FailedPreconditionError(
      absl::StrCat("expected a certificate for this machine's address ", address, ", got one for ",
                   absl::StrJoin(certified, ", "), "; make keys with --hosts=", address,
                   ",... , or choose another address with --network"));
}

std::string HostAndPort(const std::string& host, int port) {
  const bool is_ipv6 = host.find(':') != host.npos && host[0] != '[';
  return is_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

}  // namespace capstan
