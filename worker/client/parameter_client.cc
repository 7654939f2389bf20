#include "worker/client/parameter_client.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

bool MayTryAgain(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
}

ExchangeReply NotLiveReply() {
  return ErrorReply(absl::UnavailableError("it is not live, and no other server has its shards"));
}

ExchangeReply ClosingReply() {
  return ErrorReply(absl::CancelledError("the worker is shutting down"));
}

}  // namespace

ParameterClient::ParameterClient(const Options& options, ShardMap shards,
                                 const RoutingTable& routing, EndpointFactory connect)
    : options_(options),
      shards_(std::move(shards)),
      connect_(std::move(connect)),
      jitter_(options.seed),
      later_(options.clock) {
  UpdateRouting(routing);
}

ParameterClient::~ParameterClient() {
  std::vector<std::shared_ptr<Attempt>> waiting;
  {
    MutexLock lock(&mu_);
    is_stopping_ = true;
    waiting.swap(waiting_for_routing_);
  }
  later_.Stop();
  Servers servers;
  {
    MutexLock lock(&mu_);
    servers = servers_;
    servers.insert(servers.end(), replaced_.begin(), replaced_.end());
    for (const auto& server : servers) {
      while (server->active_sends > 0) {
        options_.clock->WaitUntil(mu_, sends_ended_, absl::InfiniteFuture());
      }
    }
  }
  // The end of a connection answers its open exchanges. The answers come back to this client.
  for (const auto& server : servers) server->endpoint = nullptr;
  for (const auto& attempt : waiting) attempt->done(ClosingReply());
}

void ParameterClient::UpdateRouting(const RoutingTable& routing) {
  std::vector<std::shared_ptr<Attempt>> due;
  {
    MutexLock updating(&update_mu_);
    Servers servers;
    {
      MutexLock lock(&mu_);
      if (std::tie(routing.epoch, routing.version) <= std::tie(epoch_, version_)) return;
      servers = servers_;
    }
    due = Take(routing, ConnectTo(routing, servers));
  }
  for (auto& attempt : due) Send(std::move(attempt));
}

ParameterClient::Servers ParameterClient::ConnectTo(const RoutingTable& routing,
                                                    const Servers& servers) {
  Servers connected;
  for (uint32_t i = 0; i < routing.servers.size(); ++i) {
    const RoutedServer& process = routing.servers[i];
    if (i < servers.size() && servers[i]->process == process) {
      connected.push_back(servers[i]);
      continue;
    }
    auto server = std::make_shared<Server>();
    server->process = process;
    server->name = absl::StrCat("server ", i, " (", process.address.grpc, ")");
    if (process.is_live) server->endpoint = connect_(ServerId(i), process.address);
    connected.push_back(std::move(server));
  }
  return connected;
}

std::vector<std::shared_ptr<ParameterClient::Attempt>> ParameterClient::Take(
    const RoutingTable& routing, Servers servers) {
  std::vector<std::shared_ptr<Attempt>> due;
  {
    MutexLock lock(&mu_);
    if (std::exchange(epoch_, routing.epoch) < routing.epoch) due.swap(waiting_for_routing_);
    version_ = routing.version;
    server_of_shard_ = routing.server_of_shard;
    servers_.swap(servers);
    for (size_t i = 0; i < servers.size(); ++i) {
      const bool is_kept = i < servers_.size() && servers_[i] == servers[i];
      if (!is_kept) replaced_.push_back(servers[i]);
    }
    for (auto it = in_backoff_.begin(); it != in_backoff_.end();) {
      const bool has_moved = ServerOfLocked(*it->second) != it->second->server;
      if (has_moved) due.push_back(std::move(it->second));
      it = has_moved ? in_backoff_.erase(it) : std::next(it);
    }
    if (replaced_.empty()) return due;
  }
  EndReplacedLater();
  return due;
}

void ParameterClient::EndReplacedLater() {
  // If the client ends first, its destructor ends them.
  later_.RunAfter(absl::ZeroDuration(), [this](bool is_due) {
    if (is_due) EndReplaced();
  });
}

void ParameterClient::EndReplaced() {
  Servers idle;
  {
    MutexLock lock(&mu_);
    // The last DoneWithServer of another one comes back for it.
    const auto begin = std::partition(replaced_.begin(), replaced_.end(),
                                      [](const auto& server) { return server->active_sends > 0; });
    idle.assign(begin, replaced_.end());
    replaced_.erase(begin, replaced_.end());
  }
  for (const auto& server : idle) server->endpoint = nullptr;
}

void ParameterClient::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                               ReplyCallback done) {
  auto attempt = std::make_shared<Attempt>();
  attempt->client = this;
  attempt->request = std::move(request);
  attempt->delivered = std::move(delivered);
  attempt->done = std::move(done);
  Send(std::move(attempt));
}

int64_t ParameterClient::retries() const {
  MutexLock lock(&mu_);
  return retries_;
}

const std::shared_ptr<ParameterClient::Server>& ParameterClient::ServerOfLocked(
    const Attempt& attempt) const {
  const ShardId shard = shards_.ShardOf(attempt.request.slice);
  return servers_.at(server_of_shard_.at(shard.value()).value());
}

bool ParameterClient::TakeServer(Attempt& attempt) {
  attempt.started = options_.clock->Now();
  MutexLock lock(&mu_);
  if (is_stopping_) return false;
  attempt.request.epoch = epoch_;
  const std::shared_ptr<Server>& server = ServerOfLocked(attempt);
  if (attempt.server != server) {
    // One process's failures say nothing about another one.
    attempt.server = server;
    attempt.unreachable_since.reset();
  }
  ++server->active_sends;
  return true;
}

void ParameterClient::DoneWithServer(Server& server) {
  MutexLock lock(&mu_);
  --server.active_sends;
  sends_ended_.NotifyAll();
  // With the lock: the client may end as soon as it is free.
  if (server.active_sends == 0 && !replaced_.empty() && !is_stopping_) EndReplacedLater();
}

void ParameterClient::Send(std::shared_ptr<Attempt> attempt) {
  // An earlier try of the same exchange may have run `delivered`.
  auto tell_delivered = [attempt] {
    if (attempt->delivered) std::exchange(attempt->delivered, nullptr)();
  };
  if (!TakeServer(*attempt)) {
    tell_delivered();
    return attempt->done(ClosingReply());
  }
  // The answer may come within Exchange, and the next try may take another server.
  const std::shared_ptr<Server> server = attempt->server;
  if (server->endpoint == nullptr) {
    tell_delivered();
    OnReply(std::move(attempt), NotLiveReply());
  } else {
    ExchangeRequest request = attempt->request;
    server->endpoint->Exchange(std::move(request), std::move(tell_delivered),
                               [attempt = std::move(attempt)](ExchangeReply reply) mutable {
                                 ParameterClient* const client = attempt->client;
                                 client->OnReply(std::move(attempt), std::move(reply));
                               });
  }
  DoneWithServer(*server);
}

void ParameterClient::OnReply(std::shared_ptr<Attempt> attempt, ExchangeReply reply) {
  const bool has_moved =
      absl::IsFailedPrecondition(reply.status) && reply.epoch > attempt->request.epoch;
  if (has_moved) return RouteAgain(std::move(attempt), reply);
  if (MayTryAgain(reply.status)) return TryAgain(std::move(attempt), std::move(reply));
  attempt->done(std::move(reply));
}

void ParameterClient::RouteAgain(std::shared_ptr<Attempt> attempt, const ExchangeReply& refusal) {
  attempt->unreachable_since.reset();  // A server has answered.
  {
    MutexLock lock(&mu_);
    ++retries_;
    if (!is_stopping_ && epoch_ < refusal.epoch) {
      waiting_for_routing_.push_back(std::move(attempt));
      return;
    }
  }
  Send(std::move(attempt));
}

void ParameterClient::TryAgain(std::shared_ptr<Attempt> attempt, ExchangeReply failure) {
  const absl::Time now = options_.clock->Now();
  // A long open try was connected: a live server had parked its request.
  const bool was_connected = now - attempt->started > options_.rpc_deadline;
  if (was_connected || !attempt->unreachable_since.has_value()) {
    attempt->unreachable_since = now;
    attempt->backoff = options_.first_backoff;
  }
  // A coordinator that is back gives all members new leases, so the time begins anew.
  const absl::Time since = std::max(*attempt->unreachable_since, options_.coordinator_last_away());
  const bool may_wait = now - since < options_.rpc_deadline;
  bool has_moved;
  uint64_t backoff = 0;
  absl::Duration delay;
  {
    MutexLock lock(&mu_);
    has_moved = ServerOfLocked(*attempt) != attempt->server;
    if (has_moved || may_wait) ++retries_;
    if (!has_moved && may_wait) {
      delay = attempt->backoff * (1.0 - 0.5 * jitter_.UniformFloat());
      attempt->backoff = std::min(2 * attempt->backoff, options_.last_backoff);
      backoff = ++last_backoff_;
      in_backoff_[backoff] = attempt;
    }
  }
  if (has_moved) return Send(std::move(attempt));
  if (may_wait) {
    return later_.RunAfter(delay, [this, backoff](bool is_due) { EndBackoff(backoff, is_due); });
  }
  failure.status = absl::UnavailableError(absl::StrCat(
      attempt->server->name, " has been unreachable for ",
      absl::FormatDuration(options_.rpc_deadline),
      " (--rpc_deadline_seconds); look at its log. Last error: ", failure.status.message()));
  attempt->done(std::move(failure));
}

void ParameterClient::EndBackoff(uint64_t id, bool is_due) {
  std::map<uint64_t, std::shared_ptr<Attempt>>::node_type ended;
  {
    MutexLock lock(&mu_);
    ended = in_backoff_.extract(id);
  }
  if (ended.empty()) return;
  is_due ? Send(std::move(ended.mapped())) : ended.mapped()->done(ClosingReply());
}

}  // namespace capstan
