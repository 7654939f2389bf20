#ifndef SERVER_SERVICE_SCHEDULES_OF_VIEW_H_
#define SERVER_SERVICE_SCHEDULES_OF_VIEW_H_

#include "absl/status/statusor.h"
#include "proto/coordinator_service.pb.h"
#include "server/shard/shard.h"

namespace capstan {

// What the periods of `view` mean for each of its tables. INVALID_ARGUMENT when they are no
// schedule.
absl::StatusOr<TableSchedules> SchedulesOfView(const v1::JobView& view);

}  // namespace capstan

#endif  // SERVER_SERVICE_SCHEDULES_OF_VIEW_H_
