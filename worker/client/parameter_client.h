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
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/delayed_calls.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/routing/placement.h"
#include "common/routing/routing_table.h"

namespace capstan {

// Routes each exchange of one worker to the server of the slice. Tries again after a loss of the
// request or the reply, and after a move of the shard; the server applies a push once. Retries are
// timers, so no thread waits. Thread-safe.
class ParameterClient : public ParameterEndpoint {
 public:
  // Connects to a server.
  using EndpointFactory =
      absl::AnyInvocable<std::unique_ptr<ParameterEndpoint>(ServerId, const ServerAddress&)>;

  struct Options {
    Clock* clock = nullptr;  // Required; outlives the client
    // An exchange fails after its server has been unreachable for this time.
    absl::Duration rpc_deadline = absl::Seconds(30);
    absl::Duration first_backoff = absl::Milliseconds(20);  // doubles with every failure
    absl::Duration last_backoff = absl::Seconds(1);
    uint64_t seed = 0;  // of the jitter, up to half of the backoff
  };

  // `shards` maps slices to shards. Connects to every server of `routing`. Servers keep their
  // addresses for the life of the job.
  ParameterClient(const Options& options, ShardMap shards, const RoutingTable& routing,
                  EndpointFactory connect);
  // Answers open exchanges CANCELLED.
  ~ParameterClient() override;

  // Takes over a newer routing table; ignores an older one.
  void UpdateRouting(const RoutingTable& routing);

  // Number of exchanges sent again so far, for whatever reason.
  int64_t retries() const;

  // Fills in the request's epoch. UNAVAILABLE: the server was unreachable for rpc_deadline.
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

 private:
  struct Server {
    std::string name;  // for errors, as in "server 1 (host:port)"
    std::unique_ptr<ParameterEndpoint> endpoint;
  };
  // One exchange on its way to an answer.
  struct Attempt {
    ParameterClient* client = nullptr;  // here, so a reply's callback needs no allocation
    ExchangeRequest request;
    DeliveredCallback delivered;  // null once it has run
    ReplyCallback done;
    const Server* server = nullptr;  // of the latest try
    absl::Time started;              // the latest try
    absl::Duration backoff;
    std::optional<absl::Time> unreachable_since;  // first of the failures in a row
  };

  void Send(std::shared_ptr<Attempt> attempt);
  // Chooses the server. It may be used until DoneWithServer. False during destruction.
  bool TakeServer(Attempt& attempt);
  void DoneWithServer();
  void OnReply(std::shared_ptr<Attempt> attempt, ExchangeReply reply);
  // Tries again at once, or once the routing table of the refusal's epoch is known.
  void RouteAgain(std::shared_ptr<Attempt> attempt, const ExchangeReply& refusal);
  // Tries again after the backoff, or gives up.
  void TryAgain(std::shared_ptr<Attempt> attempt, ExchangeReply failure);

  const Options options_;
  const ShardMap shards_;
  std::map<ServerId, Server> servers_;  // constant until the end

  mutable Mutex mu_;
  CondVar sends_ended_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  int64_t active_sends_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t retries_ ABSL_GUARDED_BY(mu_) = 0;
  Random jitter_ ABSL_GUARDED_BY(mu_);
  Epoch epoch_ ABSL_GUARDED_BY(mu_);
  std::vector<ServerId> server_of_shard_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<Attempt>> waiting_for_routing_ ABSL_GUARDED_BY(mu_);

  DelayedCalls later_;  // uses servers_ until it is stopped
};

}  // namespace capstan

#endif  // WORKER_CLIENT_PARAMETER_CLIENT_H_
