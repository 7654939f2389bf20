#include "common/routing/routing_table.h"

#include <cstddef>

namespace capstan {

RoutingTable RoutingTableFromView(const v1::JobView& view) {
  RoutingTable table;
  table.epoch = Epoch(view.epoch());
  for (const uint32_t server : view.server_of_shard()) table.server_of_shard.emplace_back(server);
  table.server_address.resize(view.servers_size());
  for (const v1::ServerInfo& info : view.servers()) {
    // Ids are dense; the test is for a view that somebody made up.
    if (info.server() < table.server_address.size()) {
      table.server_address[info.server()] = {info.address()};
    }
  }
  return table;
}

}  // namespace capstan
