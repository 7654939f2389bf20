#ifndef SERVER_SERVICE_PARAMETER_SERVER_H_
#define SERVER_SERVICE_PARAMETER_SERVER_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/end_request.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/membership/view_watch.h"
#include "common/metrics/metrics_sources.h"
#include "common/routing/routing_table.h"
#include "common/trace/tracer.h"
#include "proto/coordinator_service.pb.h"
#include "proto/reader_service.pb.h"
#include "server/checkpoint/checkpoint_writer.h"
#include "server/checkpoint/shard_storage.h"
#include "server/service/copy_reports.h"
#include "server/service/job_models.h"
#include "server/service/next_steps.h"
#include "server/service/replica_links.h"
#include "server/service/tracing_endpoint.h"
#include "server/shard/shard_host.h"

namespace capstan {

// One server of a job, without its transport: registers, creates its shards, follows the
// coordinator's view of the job, and answers exchanges. Exchange is thread-safe.
class ParameterServer : public ParameterEndpoint {
 public:
  struct Options {
    Clock* clock = nullptr;                      // Required; outlives the server
    CoordinatorEndpoint* coordinator = nullptr;  // Required; outlives the server
    Incarnation incarnation;
    Tracer* tracer = nullptr;  // Optional; outlives the server
    std::string host;          // Optional: v1::RegisterServerRequest::host
    // Optional; outlives the server. Asks it to end, which it awaits once it is registered.
    EndRequest* end = nullptr;
    // Optional; outlives the server. Gets the server's counts.
    MetricsSources* metrics = nullptr;
    // Optional: hears whether the server owns its shards. UNAVAILABLE: the message says what it
    // waits for.
    std::function<void(absl::Status)> on_readiness = [](const absl::Status&) {};
    // Connects to another server of the job, for changes of copies. Required in jobs with two
    // replicas.
    ReplicaLinks::Connect connect_replica;
    // Optional, for simulations: interruptions, threads, and files of checkpoints.
    Shard::Interruption interruption;
    std::function<void(absl::AnyInvocable<void()> body)> spawn;
    std::function<std::unique_ptr<ShardStorage>()> open_storage;
  };

  // Most keys of one ReadRows.
  static constexpr int kMostReadKeys = 512;

  explicit ParameterServer(const Options& options) : options_(options) {}

  // Makes the server reachable for the workers of the job, and returns its addresses.
  using ListenFunction = absl::FunctionRef<absl::StatusOr<ServerAddress>(const v1::JobSpec& job)>;

  // Serves one job to its end, on the calling thread. ABORTED, with the reason, if the job failed.
  // UNAVAILABLE if the coordinator cannot be reached. CANCELLED if it was asked to end: at once,
  // and the job fails; or if it has two copies of each shard, once they are whole, and the job goes
  // on with the others. Otherwise the coordinator's refusal, or the server's own error. The
  // coordinator learns of an own error even before the registration.
  absl::Status Run(ListenFunction listen);

  // UNAVAILABLE until the shards exist. Then as ShardHost::Exchange. Sends probes back at any time.
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

  // Takes the changes of other servers' shards, for the copies here. UNAVAILABLE until these exist.
  ParameterEndpoint& records() { return records_; }
  // For simulations; null until the shards exist.
  const ShardHost* host() const { return serving_ == nullptr ? nullptr : host_.get(); }

  // The rows that a reader asks for. UNAVAILABLE until the shards exist. INVALID_ARGUMENT: too
  // many, or see ShardHost::ReadRows. Thread-safe.
  using ReadCallback = absl::AnyInvocable<void(absl::StatusOr<v1::ReadRowsReply>)>;
  void ReadRows(const v1::ReadRowsRequest& request, ReadCallback done);

  // The layer of a table. 0 for an unknown table, or before the shards exist. Thread-safe.
  int LayerOf(TableId table) const;

  // The credit of the latest view; 0 before the shards exist. Thread-safe.
  uint64_t credit_bytes() const { return credit_bytes_; }

 private:
  // The other door, for servers.
  class Records : public ParameterEndpoint {
   public:
    explicit Records(ParameterServer* server) : server_(*server) {}
    void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                  ReplyCallback done) override;

   private:
    ParameterServer& server_;
  };

  absl::StatusOr<ServerId> ListenAndRegister(const v1::JobSpec& job, ListenFunction listen);
  // Waits a while if all servers are live, as one of them may have ended.
  absl::StatusOr<v1::RegisterReply> Register(const v1::RegisterServerRequest& request,
                                             const v1::MembershipSpec& membership);
  absl::Status Follow(const v1::GetJobReply& job, ServerId id);
  // Acts on each view until the job ends. `acted_on` is the version of the latest one.
  absl::Status FollowViews(const v1::GetJobReply& job, ServerId id, ViewWatch& watch,
                           std::atomic<uint64_t>& acted_on);
  bool IsLive(const v1::JobView& view, ServerId id) const;
  // It was asked to end, and the job goes on without it.
  bool HasLeft() const;
  // Acts on a view. The first view with a placement creates the shards, and this may take long.
  absl::Status Apply(const v1::GetJobReply& job, ServerId id, const v1::JobView& view);

  absl::Status CreateShards(const v1::GetJobReply& job, ServerId id, const v1::JobView& view);
  absl::Status CreateHost(ShardHost::Options options, const ShardHost::Source& source,
                          const v1::JobView& view);
  // Opens the job's folder for checkpoints, if it has one.
  absl::Status OpenCheckpoints(const v1::GetJobReply& job, const v1::JobView& view);
  // Opens the checkpoint to go on from, and sets `restored`.
  absl::Status OpenRestored(const v1::GetJobReply& job, ShardHost::Source& source);
  // The next three are called in this order. The first two end the holding back.
  // Takes over new periods of the consistency.
  absl::Status FollowPeriods(const v1::JobView& view);
  // Cuts the shards for the checkpoint, once it has a step, and begins to write them.
  void FollowCheckpoint(const v1::CheckpointOrder& order);
  // Holds exchanges back while a change of the consistency or a checkpoint has no step. If it is
  // given up without one, they go on.
  absl::Status HoldBack(const v1::JobView& view);
  // Takes over the shards whose primary this server has become.
  absl::Status FollowRoles(ServerId id, const v1::JobView& view);
  // Has the copies of its shards made that the view names, and waits for those of others.
  void FollowCopies(const v1::GetJobReply& job, ServerId id, const v1::JobView& view);
  // In phase SAVING: writes the shards here into the file of --output, after each change of them.
  absl::Status FollowSaving(const v1::JobView& view);
  // Adds the results of the latest view to a heartbeat.
  void Report(v1::HeartbeatRequest& request);

  const Options options_;
  std::function<void()> report_now_;  // sends a heartbeat while the job runs
  // These and host_ are set once, by the thread of Run, before serving_.
  std::unique_ptr<TracingEndpoint> traced_host_;  // null: nothing is traced
  std::vector<int> layer_of_table_;
  absl::Time serving_since_;
  std::atomic<ParameterEndpoint*> serving_ =
      nullptr;  // host_ or traced_host_; null until it exists
  std::atomic<uint64_t> credit_bytes_ = 0;
  // Only for the thread of Run:
  int periods_acted_on_ = 0;  // of the consistency
  bool holds_back_ = false;
  std::optional<JobModels> models_;           // none until the shards exist
  uint64_t cut_for_ = 0;                      // number of the latest checkpoint with a step
  std::map<ShardId, uint64_t> copy_numbers_;  // of copies that were begun or are expected
  Epoch saved_epoch_;                         // in which the shards were written
  Records records_{this};
  std::atomic<bool> has_copies_ = false;  // two copies of each shard

  NextSteps next_steps_;
  Mutex mu_;
  std::optional<v1::HeldStep> held_step_ ABSL_GUARDED_BY(mu_);  // of the latest change
  CopyReports copy_reports_ ABSL_GUARDED_BY(mu_);
  v1::CheckpointPart checkpoint_ ABSL_GUARDED_BY(mu_);  // the held step for the latest checkpoint

  // Null: the job has no folder for checkpoints. Cuts of host_ use the writer.
  std::unique_ptr<ShardStorage> storage_;
  std::unique_ptr<CheckpointWriter> writer_;

  // Destroyed before all above: it then answers parked exchanges, and connections ask for their
  // layers.
  std::unique_ptr<ShardHost> host_;

  std::optional<ReplicaLinks> links_;  // between copies of host_ and other servers

  // Uses host_.
  MetricsSources::Registration host_metrics_;
};

}  // namespace capstan

#endif  // SERVER_SERVICE_PARAMETER_SERVER_H_
