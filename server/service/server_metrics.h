#ifndef SERVER_SERVICE_SERVER_METRICS_H_
#define SERVER_SERVICE_SERVER_METRICS_H_

#include <cstdint>
#include <map>

#include "common/base/ids.h"
#include "common/metrics/metrics_page.h"
#include "server/slice/shard_counts.h"

namespace capstan {

// Adds what a server's shards have counted. `non_finite_pushes` is ShardHost's; a worker up to
// `num_workers` that is not in it has 0.
void AddShardMetrics(const ShardCounts& counts,
                     const std::map<WorkerId, int64_t>& non_finite_pushes, uint32_t num_workers,
                     MetricsPage& page);

// Adds the memory of replies on all connections, and its bound.
void AddReplyMetrics(int64_t held_bytes, uint64_t limit_bytes, MetricsPage& page);

}  // namespace capstan

#endif  // SERVER_SERVICE_SERVER_METRICS_H_
