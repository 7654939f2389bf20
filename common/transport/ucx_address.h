#ifndef COMMON_TRANSPORT_UCX_ADDRESS_H_
#define COMMON_TRANSPORT_UCX_ADDRESS_H_

#include <sys/socket.h>
#include <ucp/api/ucp.h>

#include <string>

#include "absl/status/statusor.h"

namespace capstan {

// host:port as UCX takes it.
struct UcxAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;

  // Valid as long as this.
  ucs_sock_addr_t sockaddr() const {
    return {reinterpret_cast<const struct sockaddr*>(&storage), length};
  }
};

// Looks the host up, which may take seconds. INVALID_ARGUMENT: `address` is not host:port;
// UNAVAILABLE: there is no such host.
absl::StatusOr<UcxAddress> ResolveUcxAddress(const std::string& address);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_ADDRESS_H_
