#ifndef COMMON_ROUTING_ROUTING_TABLE_H_
#define COMMON_ROUTING_ROUTING_TABLE_H_

#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/routing/server_address.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Which server holds each shard, and where it is reached.
struct RoutingTable {
  Epoch epoch;  // 0: nothing is placed yet.
  std::vector<ServerId> server_of_shard;
  std::vector<ServerAddress> server_address;  // in server id order
};

RoutingTable RoutingTableFromView(const v1::JobView& view);

}  // namespace capstan

#endif  // COMMON_ROUTING_ROUTING_TABLE_H_
