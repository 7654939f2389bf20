#ifndef SERVER_SHARD_ONE_TABLE_HOST_H_
#define SERVER_SHARD_ONE_TABLE_HOST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/exchange/parameter_endpoint.h"
#include "server/consistency/consistency_schedule.h"
#include "server/shard/shard_host.h"

namespace capstan {

// For tests: a host with one table "w" of 20 floats in slices of 16, zero at first. It trains with
// SGD at learning rate 1, so the values are minus the sum of the applied gradients.
std::unique_ptr<ShardHost> MakeHost(ConsistencyMode mode, int64_t staleness, int num_workers,
                                    Shard::Interruption interruption = nullptr);
// The options of such a host.
ShardHost::Options HostOptions(ConsistencyMode mode, int64_t staleness = 0);

std::shared_ptr<const ConsistencySchedule> Schedule(std::vector<ConsistencyPeriod> periods);

Incarnation IncarnationOf(int worker);
std::vector<ShardHost::Worker> Workers(const std::vector<int>& ids);

// An exchange of the first slice. A push has `gradient` everywhere.
ExchangeRequest Request(int worker, std::optional<Step> push, std::optional<Step> pull,
                        float gradient = 0);

// Collects the one reply of an exchange.
struct Result {
  int replies = 0;
  ExchangeReply reply;
  float first_value() const;
};

std::shared_ptr<Result> Send(ShardHost& host, ExchangeRequest request);

// Pushes `gradient` at `step` and pulls at the next.
std::shared_ptr<Result> PushPull(ShardHost& host, int worker, int64_t step, float gradient);

}  // namespace capstan

#endif  // SERVER_SHARD_ONE_TABLE_HOST_H_
