#ifndef COMMON_NET_LISTENING_SOCKET_H_
#define COMMON_NET_LISTENING_SOCKET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/host_port.h"

namespace capstan {

// A place to listen at. Port 0 chooses a free port.
using ListenAddress = HostPort;

// As ParseHostPort, also with port 0. INVALID_ARGUMENT names `flag`, such as "--listen".
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view flag, const std::string& text);

// Plaintext stays within this machine: INVALID_ARGUMENT if others can reach `host`, the host of the
// value `text` of `flag`. It says what to do.
absl::Status CheckLoopback(absl::string_view flag, absl::string_view text, const std::string& host);

// The error of the value `text` of `flag`, if nobody can listen there. UNAVAILABLE.
absl::Status CannotListen(absl::string_view flag, absl::string_view text);

// A TCP socket that listens and does not block. Whoever has it closes it.
struct ListeningSocket {
  int socket = -1;  // -1: the port is in use, or the host is not of this machine
  int port = 0;
};

// Listens at the first free address of the host.
ListeningSocket ListenAt(const ListenAddress& address);

}  // namespace capstan

#endif  // COMMON_NET_LISTENING_SOCKET_H_
