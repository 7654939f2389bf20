#ifndef COMMON_ROUTING_SERVER_ADDRESS_H_
#define COMMON_ROUTING_SERVER_ADDRESS_H_

#include <string>

namespace capstan {

// Where workers reach a server over each transport, as host:port.
struct ServerAddress {
  std::string grpc;
  std::string ucx = "";  // empty: the server has no UCX

  friend bool operator==(const ServerAddress& a, const ServerAddress& b) {
    return a.grpc == b.grpc && a.ucx == b.ucx;
  }
};

}  // namespace capstan

#endif  // COMMON_ROUTING_SERVER_ADDRESS_H_
