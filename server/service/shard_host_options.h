#ifndef SERVER_SERVICE_SHARD_HOST_OPTIONS_H_
#define SERVER_SERVICE_SHARD_HOST_OPTIONS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "proto/coordinator_service.pb.h"
#include "server/shard/shard_host.h"

namespace capstan {

// The options of a host with the shards of server `id`. INVALID_ARGUMENT if the job's optimizer or
// consistency is not valid.
absl::StatusOr<ShardHost::Options> ShardHostOptions(const v1::GetJobReply& job, ServerId id,
                                                    const v1::JobView& view);

// The schedule of each table of `view`. INVALID_ARGUMENT if the periods of `view` make no schedule.
absl::StatusOr<TableSchedules> SchedulesOfView(const v1::JobView& view);

std::vector<ShardHost::Worker> LiveWorkers(const v1::JobView& view);

}  // namespace capstan

#endif  // SERVER_SERVICE_SHARD_HOST_OPTIONS_H_
