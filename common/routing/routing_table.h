#ifndef COMMON_ROUTING_ROUTING_TABLE_H_
#define COMMON_ROUTING_ROUTING_TABLE_H_

#include <cstdint>
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

// The process that has a server's id. If it dies, another one may take its place.
struct RoutedServer {
  ServerAddress address;
  Incarnation incarnation = {};
  bool is_live = true;

  friend bool operator==(const RoutedServer& a, const RoutedServer& b) {
    return a.address == b.address && a.incarnation == b.incarnation && a.is_live == b.is_live;
  }
};

// The server of each shard, and the process of each server.
struct RoutingTable {
  Epoch epoch;           // 0: nothing is placed yet.
  uint64_t version = 0;  // of the view: tables of one epoch may have different processes
  std::vector<ServerId> server_of_shard;
  std::vector<RoutedServer> servers;  // in order of id
};

}  // namespace capstan

#endif  // COMMON_ROUTING_ROUTING_TABLE_H_
