#ifndef COMMON_NET_OWN_ADDRESS_H_
#define COMMON_NET_OWN_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace capstan {

// The addresses of this machine, and which of them others are told. All functions are thread-safe.

// An address of a network interface that is up. IPv6 addresses are without brackets; link-local
// ones are left out, because they mean nothing to other machines.
struct InterfaceAddress {
  std::string interface;  // "eth0"
  std::string address;    // "10.0.0.1", "2001:db8::1"
  bool is_loopback = false;
};

// In the kernel's order. UNAVAILABLE when the kernel does not tell.
absl::StatusOr<std::vector<InterfaceAddress>> InterfaceAddresses();

// The address in `network`: the name of an interface, or an address range such as 10.0.0.0/16 or
// 2001:db8::/32. IPv4 comes before IPv6, else the first one counts. INVALID_ARGUMENT names the
// addresses that there are.
absl::StatusOr<std::string> AddressIn(const std::string& network,
                                      absl::Span<const InterfaceAddress> addresses);

// This machine's address on the way to `host`, a name or an address. Sends nothing. UNAVAILABLE
// when the name is not known or there is no way.
absl::StatusOr<std::string> AddressTowards(const std::string& host);

// The address on the way to other networks. Without such a way: the first address that is not of
// the loopback interface, else loopback's.
absl::StatusOr<std::string> DefaultAddress(absl::Span<const InterfaceAddress> addresses);

// Whether `host`, a name or an address, is this machine. UNAVAILABLE when the name is not known.
absl::StatusOr<bool> IsThisMachine(const std::string& host,
                                   absl::Span<const InterfaceAddress> addresses);

// The host under which others reach this machine at `address`. Clients look for that host in its
// certificate, which is for `certified`: it is the address, or a name there that stands for the
// address. Without `certified` it is the address. FAILED_PRECONDITION when the certificate has
// neither.
absl::StatusOr<std::string> HostToAnnounce(const std::string& address,
                                           absl::Span<const std::string> certified);

// "host:port", with brackets around an IPv6 address.
std::string HostAndPort(const std::string& host, int port);

}  // namespace capstan

#endif  // COMMON_NET_OWN_ADDRESS_H_
