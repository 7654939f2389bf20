#ifndef COMMON_ROUTING_JOB_VIEW_H_
#define COMMON_ROUTING_JOB_VIEW_H_

#include <cstdint>
#include <vector>

#include "common/routing/routing_table.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"

// Reads the coordinator's view of the job.

namespace capstan {

// Number of elements of a table. The coordinator has checked that it fits.
// 0: the table is sparse.
uint64_t ElementCount(const v1::TableSpec& table);

// Number of elements of each table of the job, in order of table id.
std::vector<uint64_t> ElementCounts(const v1::JobView& view);

// How the job's values are cut and sent: as the coordinator has chosen, if it has.
const v1::SchedulerSpec& SchedulerOf(const v1::JobSpec& job, const v1::JobView& view);

RoutingTable RoutingTableFromView(const v1::JobView& view);

}  // namespace capstan

#endif  // COMMON_ROUTING_JOB_VIEW_H_
