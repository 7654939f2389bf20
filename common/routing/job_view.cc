#include "common/routing/job_view.h"

#include <cstddef>

namespace capstan {

uint64_t ElementCount(const v1::TableSpec& table) {
  if (table.has_sparse()) return 0;
  uint64_t count = 1;
  for (const uint64_t size : table.shape()) count *= size;
  return count;
}

std::vector<uint64_t> ElementCounts(const v1::JobView& view) {
  std::vector<uint64_t> counts;
  for (const v1::TableSpec& table : view.tables()) counts.push_back(ElementCount(table));
  return counts;
}

const v1::SchedulerSpec& SchedulerOf(const v1::JobSpec& job, const v1::JobView& view) {
  return view.has_scheduler() ? view.scheduler() : job.scheduler();
}

RoutingTable RoutingTableFromView(const v1::JobView& view) {
  RoutingTable table;
  table.epoch = Epoch(view.epoch());
  table.version = view.version();
  for (const uint32_t server : view.server_of_shard()) table.server_of_shard.emplace_back(server);
  // A server without an entry is not live.
  table.servers.assign(view.servers_size(), {{}, {}, /*is_live=*/false});
  for (const v1::ServerInfo& info : view.servers()) {
    // Ids are dense. The test is for forged views.
    if (info.server() >= table.servers.size()) continue;
    table.servers[info.server()] = {
        {info.address()}, Incarnation(info.incarnation()), info.is_live()};
  }
  return table;
}

}  // namespace capstan
