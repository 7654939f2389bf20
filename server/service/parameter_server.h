#ifndef SERVER_SERVICE_PARAMETER_SERVER_H_
#define SERVER_SERVICE_PARAMETER_SERVER_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/routing/routing_table.h"
#include "common/trace/tracer.h"
#include "proto/coordinator_service.pb.h"
#include "server/service/tracing_endpoint.h"
#include "server/shard/shard_host.h"

namespace capstan {

// One server of a job, without its transport: registers, creates the shards that the coordinator
// gives it, follows the membership, and answers exchanges. Exchange is thread-safe.
class ParameterServer : public ParameterEndpoint {
 public:
  struct Options {
    Clock* clock = nullptr;                      // All of these are required.
    CoordinatorEndpoint* coordinator = nullptr;  // Both outlive the server.
    Incarnation incarnation;
    Tracer* tracer = nullptr;          // Optional: what the server does. Outlives it.
    Shard::Interruption interruption;  // Optional: for simulations.
  };

  explicit ParameterServer(const Options& options) : options_(options) {}

  // Makes the server reachable for the workers of the job; says under which addresses.
  using ListenFunction = absl::FunctionRef<absl::StatusOr<ServerAddress>(const v1::JobSpec& job)>;

  // Serves one job to its end, on the calling thread. ABORTED with the reason when the job failed;
  // UNAVAILABLE when the coordinator cannot be reached; else what it refused, or the server's own
  // error, which the coordinator has been told, whether the server had registered or not.
  absl::Status Run(ListenFunction listen);

  // UNAVAILABLE until the shards exist; then as ShardHost.
  void Exchange(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done) override;

  // The layer that reads a table; 0 of a table that the job does not have, or before the shards
  // exist. Thread-safe.
  int LayerOf(TableId table) const;

  // Of the latest period of a job whose schedule is tuned; 0 before there is one. Thread-safe.
  uint64_t tuned_credit_bytes() const { return tuned_credit_bytes_; }

 private:
  absl::StatusOr<ServerId> ListenAndRegister(const v1::JobSpec& job, ListenFunction listen);
  absl::Status Follow(const v1::GetJobReply& job, ServerId id);
  // Acts on a view: creates the shards with the first that places them, which may take long.
  absl::Status Apply(const v1::GetJobReply& job, ServerId id, const v1::JobView& view);

  absl::Status CreateHost(ShardHost::Options options, const v1::JobView& view);
  // Takes over new periods, and holds back what a change that is not settled may concern.
  absl::Status FollowConsistency(const v1::JobView& view);
  // What there is to say of the view that was acted on last.
  void Report(v1::HeartbeatRequest& request);

  const Options options_;
  // These and host_ are set once, by the thread of Run, before serving_.
  std::unique_ptr<TracingEndpoint> traced_host_;  // null: nothing is traced
  std::vector<int> layer_of_table_;
  std::atomic<ParameterEndpoint*> serving_ = nullptr;  // host_ or traced_host_, once it exists
  std::atomic<uint64_t> tuned_credit_bytes_ = 0;
  int periods_acted_on_ = 0;  // of the consistency; used by the thread of Run

  Mutex mu_;
  std::vector<v1::NextStep> next_steps_ ABSL_GUARDED_BY(mu_);   // of the workers that are entering
  std::optional<v1::HeldStep> held_step_ ABSL_GUARDED_BY(mu_);  // of the latest change

  // Ends first: it answers then what is parked, and connections ask for the layers of that.
  std::unique_ptr<ShardHost> host_;
};

// The options of a host of the shards that `view` gives to server `id`. INVALID_ARGUMENT when the
// job's optimizer or consistency does not fit.
absl::StatusOr<ShardHost::Options> ShardHostOptions(const v1::GetJobReply& job, ServerId id,
                                                    const v1::JobView& view);

}  // namespace capstan

#endif  // SERVER_SERVICE_PARAMETER_SERVER_H_
