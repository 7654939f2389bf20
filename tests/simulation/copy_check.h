#ifndef TESTS_SIMULATION_COPY_CHECK_H_
#define TESTS_SIMULATION_COPY_CHECK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/ids.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/tensor/slicing.h"
#include "proto/coordinator_service.pb.h"
#include "server/shard/shard_host.h"

namespace capstan {

// Looks into the servers of a job with two copies of each shard: copies have the same bytes after
// the same changes, and no reply leaves before the copy has what it says. Guarded by the baton.
class CopyCheck {
 public:
  // Returns the host of each server, null if it has none yet.
  using Hosts = std::function<std::vector<const ShardHost*>()>;

  explicit CopyCheck(Hosts hosts) : hosts_(std::move(hosts)) {}

  // Compares all copies that have the changes of their shard.
  void Compare();

  // Exchanges of workers with a server, looked at when they arrive and when they are answered. The
  // check and `server` outlive the endpoint and its exchanges.
  std::unique_ptr<ParameterEndpoint> Watch(ParameterEndpoint* server, size_t index);

  // A heartbeat of the server that leaves. Where the place of a lost worker is held, copies have
  // its pushes before the step at which another process is to begin. `is_held` tells whose.
  void CheckNextSteps(size_t server, const v1::HeartbeatRequest& heartbeat,
                      absl::FunctionRef<bool(uint32_t worker)> is_held);

  // Copies that are given up for this reason have a right to.
  static constexpr char kWanted[] = "the simulation wants another copy";

  // What is wrong; empty: nothing.
  const std::string& fault() const { return fault_; }
  int64_t compared() const { return compared_; }
  // Copies that became whole in place of a lost one.
  int64_t made_again() const { return static_cast<int64_t>(made_again_.size()); }
  int64_t replies() const { return replies_; }

 private:
  class Watched;

  // The shard of the slice on a server, and its copy; null: not there.
  struct Pair {
    ShardId id;
    const Shard* shard = nullptr;
    const ShardBackup* copy = nullptr;
  };
  Pair Find(SliceKey slice, size_t server) const;
  // The one of this number, also if it has taken over. Null: there is none.
  const ShardBackup* CopyOf(ShardId id, uint64_t number) const;
  // A reply with all values of a worker's copy: the copy's number has not stood for others.
  void CheckNumber(SliceKey slice, const ExchangeReply& reply);
  void NoteFault(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
  }

  const Hosts hosts_;
  std::string fault_;
  int64_t compared_ = 0;
  std::set<std::pair<ShardId, uint64_t>> made_again_;
  int64_t replies_ = 0;
  // The values of workers' copies, by their numbers (ExchangeReply::copy).
  std::map<std::pair<SliceKey, uint64_t>, std::vector<uint8_t>> numbered_;
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_COPY_CHECK_H_
