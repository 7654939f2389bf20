#ifndef WORKER_CLIENT_PARAMETER_CLIENT_H_
#define WORKER_CLIENT_PARAMETER_CLIENT_H_

#include <cstdint>
#include <functional>
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
// timers, so no thread waits. If a server's process is gone, three things happen in this order: its
// connection is ended, the open exchanges are answered, they are sent to the new process. So an
// exchange is open at one server at a time. Thread-safe.
class ParameterClient : public ParameterEndpoint {
 public:
  // Connects to a process of a server.
  using EndpointFactory =
      absl::AnyInvocable<std::unique_ptr<ParameterEndpoint>(ServerId, const ServerAddress&)>;

  struct Options {
    Clock* clock = nullptr;  // Required; outlives the client
    // An exchange fails after its server has been unreachable for this time, while the coordinator
    // was there: it tells where a lost server's shards are.
    absl::Duration rpc_deadline = absl::Seconds(30);
    // The latest time at which the coordinator was away, as CoordinatorAbsence::last_away.
    std::function<absl::Time()> coordinator_last_away = [] { return absl::InfinitePast(); };
    absl::Duration first_backoff = absl::Milliseconds(20);  // doubles with every failure
    absl::Duration last_backoff = absl::Seconds(1);
    uint64_t seed = 0;  // of the jitter, up to half of the backoff
  };

  // `shards` maps slices to shards. Connects to every live server of `routing`. Later `connect` is
  // called in UpdateRouting, by one thread at a time.
  ParameterClient(const Options& options, ShardMap shards, const RoutingTable& routing,
                  EndpointFactory connect);
  // Answers open exchanges CANCELLED.
  ~ParameterClient() override;

  // Takes over a newer routing table; ignores an older one. Connects to new processes. Sends at
  // once what has waited for them. Connections to processes that are gone are ended later, by the
  // clock's thread. An exchange of a shard whose server is not live waits, as for an unreachable
  // server.
  void UpdateRouting(const RoutingTable& routing);

  // Number of exchanges sent again so far, for whatever reason.
  int64_t retries() const;

  // Fills in the request's epoch. UNAVAILABLE: the server was unreachable for rpc_deadline.
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

 private:
  // A process of a server.
  struct Server {
    RoutedServer process;
    std::string name;                             // for errors, as in "server 1 (host:port)"
    std::unique_ptr<ParameterEndpoint> endpoint;  // null: not live, or ended
    int64_t active_sends = 0;                     // calls of endpoint->Exchange; guarded by mu_
  };
  using Servers = std::vector<std::shared_ptr<Server>>;
  // One exchange on its way to an answer.
  struct Attempt {
    ParameterClient* client = nullptr;  // here, so a reply's callback needs no allocation
    ExchangeRequest request;
    DeliveredCallback delivered;  // null once it has run
    ReplyCallback done;
    std::shared_ptr<Server> server;               // of the latest try
    absl::Time started;                           // the latest try
    absl::Duration backoff;                       // begins anew with unreachable_since
    std::optional<absl::Time> unreachable_since;  // first of the failures in a row
  };

  // `servers` as `routing` has them: those whose process is the same, and new ones.
  Servers ConnectTo(const RoutingTable& routing, const Servers& servers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(update_mu_);
  // Takes over the table. Returns what is to be sent now.
  std::vector<std::shared_ptr<Attempt>> Take(const RoutingTable& routing, Servers servers);
  // On the clock's thread: ends the connections to processes that are gone.
  void EndReplacedLater();
  void EndReplaced();
  const std::shared_ptr<Server>& ServerOfLocked(const Attempt& attempt) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void Send(std::shared_ptr<Attempt> attempt);
  // Chooses the server. It may be used until DoneWithServer. False during destruction.
  bool TakeServer(Attempt& attempt);
  void DoneWithServer(Server& server);
  void OnReply(std::shared_ptr<Attempt> attempt, ExchangeReply reply);
  // Tries again at once, or once the routing table of the refusal's epoch is known.
  void RouteAgain(std::shared_ptr<Attempt> attempt, const ExchangeReply& refusal);
  // Tries again: at once if the shard has another server now, otherwise after the backoff. Or gives
  // up.
  void TryAgain(std::shared_ptr<Attempt> attempt, ExchangeReply failure);
  // Does nothing if a routing table has ended the backoff before.
  void EndBackoff(uint64_t id, bool is_due);

  const Options options_;
  const ShardMap shards_;

  // Held while a routing table is taken over. Taken before mu_. No exchange takes it.
  Mutex update_mu_;
  EndpointFactory connect_ ABSL_GUARDED_BY(update_mu_);

  mutable Mutex mu_;
  CondVar sends_ended_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  int64_t retries_ ABSL_GUARDED_BY(mu_) = 0;
  Random jitter_ ABSL_GUARDED_BY(mu_);
  Epoch epoch_ ABSL_GUARDED_BY(mu_);
  uint64_t version_ ABSL_GUARDED_BY(mu_) = 0;  // of the routing table
  std::vector<ServerId> server_of_shard_ ABSL_GUARDED_BY(mu_);
  Servers servers_ ABSL_GUARDED_BY(mu_);   // by id
  Servers replaced_ ABSL_GUARDED_BY(mu_);  // are to be ended: they get no exchange any more
  std::vector<std::shared_ptr<Attempt>> waiting_for_routing_ ABSL_GUARDED_BY(mu_);
  uint64_t last_backoff_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, std::shared_ptr<Attempt>> in_backoff_ ABSL_GUARDED_BY(mu_);

  DelayedCalls later_;  // uses all above until it is stopped
};

}  // namespace capstan

#endif  // WORKER_CLIENT_PARAMETER_CLIENT_H_
