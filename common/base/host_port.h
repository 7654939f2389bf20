#ifndef COMMON_BASE_HOST_PORT_H_
#define COMMON_BASE_HOST_PORT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// Where a process listens.
struct HostPort {
  std::string host;  // a name, an IPv4 address, or an IPv6 address in brackets
  int port = 0;
};

// Reads "host:port", the value of `what`: a flag such as "--coordinator". INVALID_ARGUMENT names
// it, and says what is wrong. Every address that a user or a peer gives is read here.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view what, absl::string_view text,
                                       int least_port = 1);

// Reads "host:port,host:port,...", likewise: one address or several different ones, in this order.
absl::StatusOr<std::vector<std::string>> ParseAddresses(absl::string_view what,
                                                        absl::string_view text);

}  // namespace capstan

#endif  // COMMON_BASE_HOST_PORT_H_
