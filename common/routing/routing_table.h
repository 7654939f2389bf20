#ifndef COMMON_ROUTING_ROUTING_TABLE_H_
#define COMMON_ROUTING_ROUTING_TABLE_H_

#include <string>
#include <vector>

#include "common/base/ids.h"

namespace capstan {

// The address of a server for workers, as host:port.
struct ServerAddress {
  std::string grpc;

  friend bool operator==(const ServerAddress& a, const ServerAddress& b) {
    return a.grpc == b.grpc;
  }
};

// The server of each shard, and the address of each server.
struct RoutingTable {
  Epoch epoch;  // 0: nothing is placed yet.
  std::vector<ServerId> server_of_shard;
  std::vector<ServerAddress> server_address;  // in server id order
};

}  // namespace capstan

#endif  // COMMON_ROUTING_ROUTING_TABLE_H_
