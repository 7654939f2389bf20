#ifndef COMMON_ROUTING_SERVER_ADDRESS_H_
#define COMMON_ROUTING_SERVER_ADDRESS_H_

#include <string>

namespace capstan {

// Where workers reach a server, as host:port.
struct ServerAddress {
  std::string grpc;

  friend bool operator==(const ServerAddress& a, const ServerAddress& b) {
    return a.grpc == b.grpc;
  }
};

}  // namespace capstan

#endif  // COMMON_ROUTING_SERVER_ADDRESS_H_
