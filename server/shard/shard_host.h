#ifndef SERVER_SHARD_SHARD_HOST_H_
#define SERVER_SHARD_SHARD_HOST_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/routing/placement.h"
#include "common/tensor/slicing.h"
#include "server/consistency/update_scale.h"
#include "server/optimizer/optimizer.h"
#include "server/shard/shard.h"
#include "server/shard/worker_counter.h"

namespace capstan {

// The shards of one server. Answers the exchanges of workers that are members of the job; parks
// what must wait, so that no thread ever does. Thread-safe.
class ShardHost : public ParameterEndpoint {
 public:
  struct Table {
    std::string name;
    uint64_t elements = 0;
    double initial_stddev = 0;
  };
  struct Options {
    uint64_t job = 0;           // Required: the job's fingerprint
    uint64_t seed = 0;          // of the initial values
    std::vector<Table> tables;  // Required: of the whole job, in order of table id
    uint64_t slice_bytes = 0;   // Required
    uint32_t shard_count = 0;   // Required
    UpdateScale update_scale = UpdateScale::kStaleness;
    bool check_finite = true;
    std::unique_ptr<Optimizer> optimizer;  // Required
    TableSchedules schedules;              // Required
    std::vector<ShardId> shards;           // the ones that live here
    Epoch epoch;                           // of the routing table that says so
    Shard::Interruption interruption;      // optional, for simulations
  };
  using Worker = Shard::Worker;

  // Creates the shards with their initial values; nobody is a member yet. RESOURCE_EXHAUSTED when
  // there is not enough memory for them.
  static absl::StatusOr<std::unique_ptr<ShardHost>> Create(Options options);
  ~ShardHost() override;

  // The live workers of the job, all of them. Who is new enters at each slice's min_step, or at its
  // first step if that is later; who is missing is taken out of it. When this returns, nothing of
  // another incarnation is admitted any more, and what still waits of one is answered.
  void SetLiveWorkers(absl::Span<const Worker> workers);

  // The first step of which no slice has an update of this live worker. When the worker is new, it
  // stays so until its first push: no slice moves past the worker's place in it.
  Step NextStep(WorkerId worker);

  // Another schedule for each table, which differs from those before at steps from HoldBack's on at
  // most; ends the holding back.
  void SetSchedules(const TableSchedules& schedules);

  // Until SetSchedules, no exchange of the returned step or a later one is admitted, nor has been.
  // The same until then, however often it is called.
  Step HoldBack();

  // Besides the errors of Slice::Exchange. INVALID_ARGUMENT: unknown table or slice, neither push
  // nor pull, negative step, gradient without push. FAILED_PRECONDITION: other job, no live member,
  // stale incarnation, stale epoch (with the current one). UNAVAILABLE: this server has not heard
  // of the epoch yet, or of the worker's first step.
  void Exchange(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done) override;

  // Pushes refused because they were not finite, by worker.
  std::map<WorkerId, int64_t> non_finite_pushes() const { return non_finite_pushes_.counts(); }

 private:
  explicit ShardHost(Options options);
  absl::Status Check(const ExchangeRequest& request) const;
  std::string SliceName(SliceKey key) const;
  absl::Status AddShard(ShardId shard);

  const Options options_;          // its schedules are those of the beginning
  std::vector<Slicing> slicings_;  // of each table
  ShardMap shard_map_;
  WorkerCounter non_finite_pushes_;
  // Constant after construction:
  std::vector<std::unique_ptr<Shard>> shards_;  // that live here
  std::vector<Shard*> shard_of_id_;             // null: it lives elsewhere

  Mutex membership_mu_;  // serialises changes of the membership
};

}  // namespace capstan

#endif  // SERVER_SHARD_SHARD_HOST_H_
