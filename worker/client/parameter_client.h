#ifndef WORKER_CLIENT_PARAMETER_CLIENT_H_
#define WORKER_CLIENT_PARAMETER_CLIENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/routing/placement.h"
#include "common/routing/routing_table.h"
#include "common/routing/server_address.h"
#include "common/routing/slice_key.h"
#include "common/transport/parameter_endpoint.h"
#include "common/transport/payload.h"

namespace capstan {

// Sends each exchange of one worker to the server that holds the slice. An exchange that a server
// refuses because its shard has moved waits for the newer routing table and is sent again.
// Thread-safe; when destroyed, what is open is answered.
class ParameterClient {
 public:
  // Connects to a server.
  using EndpointFactory =
      absl::AnyInvocable<std::unique_ptr<ParameterEndpoint>(ServerId, const ServerAddress&)>;

  struct Options {
    uint64_t job = 0;         // Required: the job's fingerprint
    WorkerId worker;          // Required
    Incarnation incarnation;  // Required
    Clock* clock = nullptr;   // Required; outlives the client
  };

  // `shards` says which shard holds each slice. Connects to every server of `routing`; their
  // addresses stay for the life of the job.
  ParameterClient(const Options& options, ShardMap shards, const RoutingTable& routing,
                  EndpointFactory connect);
  ~ParameterClient();

  // A newer routing table; older ones are ignored.
  void UpdateRouting(const RoutingTable& routing);

  // As ParameterEndpoint::Exchange. The gradient is empty without a push; `base_version` and
  // `destination` as in ExchangeRequest.
  void Exchange(SliceKey slice, std::optional<Step> push_step, Payload gradient,
                std::optional<Step> pull_step, std::optional<uint64_t> base_version,
                absl::Span<float> destination, ParameterEndpoint::SentCallback sent,
                ParameterEndpoint::ReplyCallback done);

 private:
  // An exchange, and what is left to tell about it.
  struct Pending {
    ParameterClient* client = nullptr;  // here, so that callbacks that have this need no memory
    ExchangeRequest request;
    ParameterEndpoint::SentCallback sent;
    ParameterEndpoint::ReplyCallback done;
  };

  void Send(std::shared_ptr<Pending> pending);
  // The endpoint to use until DoneWithEndpoint; null when the client is being destroyed.
  ParameterEndpoint* TakeEndpoint(ExchangeRequest* request);
  void DoneWithEndpoint();
  void OnReply(std::shared_ptr<Pending> pending, ExchangeReply reply);
  // Has the exchange wait for the routing table of the refusal's epoch, or sends it again; answers
  // it when the client is being destroyed.
  void RouteAgain(std::shared_ptr<Pending> pending, ExchangeReply refusal);

  const Options options_;
  const ShardMap shards_;
  std::map<ServerId, std::unique_ptr<ParameterEndpoint>> endpoints_;  // constant until the end

  Mutex mu_;
  CondVar sends_ended_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  int64_t active_sends_ ABSL_GUARDED_BY(mu_) = 0;
  Epoch epoch_ ABSL_GUARDED_BY(mu_);
  std::vector<ServerId> server_of_shard_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<Pending>> waiting_for_routing_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // WORKER_CLIENT_PARAMETER_CLIENT_H_
