#include "worker/client/parameter_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

bool MayTryAgain(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
}

ExchangeReply ClosingReply() {
  return ErrorReply(absl::CancelledError("the worker is shutting down"));
}

}  // namespace

ParameterClient::ParameterClient(const Options& options, ShardMap shards,
                                 const RoutingTable& routing, EndpointFactory connect)
    : options_(options), shards_(std::move(shards)), jitter_(options.seed), later_(options.clock) {
  for (uint32_t i = 0; i < routing.server_address.size(); ++i) {
    const ServerAddress& address = routing.server_address[i];
    servers_[ServerId(i)] = {absl::StrCat("server ", i, " (", address.grpc, ")"),
                             connect(ServerId(i), address)};
  }
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
  {
    MutexLock lock(&mu_);
    while (active_sends_ > 0) {
      options_.clock->WaitUntil(mu_, sends_ended_, absl::InfiniteFuture());
    }
  }
  // The end of a connection answers its open exchanges. The answers come back to this client.
  for (auto& [id, server] : servers_) server.endpoint = nullptr;
  for (const auto& attempt : waiting) attempt->done(ClosingReply());
}

void ParameterClient::UpdateRouting(const RoutingTable& routing) {
  std::vector<std::shared_ptr<Attempt>> waiting;
  {
    MutexLock lock(&mu_);
    if (routing.epoch <= epoch_) return;
    epoch_ = routing.epoch;
    server_of_shard_ = routing.server_of_shard;
    waiting.swap(waiting_for_routing_);
  }
  for (auto& attempt : waiting) Send(std::move(attempt));
}

void ParameterClient::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                               ReplyCallback done) {
  auto attempt = std::make_shared<Attempt>();
  attempt->client = this;
  attempt->request = std::move(request);
  attempt->delivered = std::move(delivered);
  attempt->done = std::move(done);
  attempt->backoff = options_.first_backoff;
  Send(std::move(attempt));
}

int64_t ParameterClient::retries() const {
  MutexLock lock(&mu_);
  return retries_;
}

bool ParameterClient::TakeServer(Attempt& attempt) {
  attempt.started = options_.clock->Now();
  MutexLock lock(&mu_);
  if (is_stopping_) return false;
  ++active_sends_;
  attempt.request.epoch = epoch_;
  const ShardId shard = shards_.ShardOf(attempt.request.slice);
  const Server* const server = &servers_.at(server_of_shard_.at(shard.value()));
  if (std::exchange(attempt.server, server) != server) {
    // One server's failures say nothing about another one.
    attempt.unreachable_since.reset();
    attempt.backoff = options_.first_backoff;
  }
  return true;
}

void ParameterClient::DoneWithServer() {
  MutexLock lock(&mu_);
  --active_sends_;
  sends_ended_.NotifyAll();
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
  ParameterEndpoint& endpoint = *attempt->server->endpoint;
  ExchangeRequest request = attempt->request;
  endpoint.Exchange(std::move(request), std::move(tell_delivered),
                    [attempt = std::move(attempt)](ExchangeReply reply) mutable {
                      ParameterClient* const client = attempt->client;
                      client->OnReply(std::move(attempt), std::move(reply));
                    });
  DoneWithServer();
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
  if (now - *attempt->unreachable_since >= options_.rpc_deadline) {
    failure.status = absl::UnavailableError(absl::StrCat(
        attempt->server->name, " has been unreachable for ",
        absl::FormatDuration(options_.rpc_deadline),
        " (--rpc_deadline_seconds); look at its log. Last error: ", failure.status.message()));
    return attempt->done(std::move(failure));
  }
  absl::Duration delay = attempt->backoff;
  {
    MutexLock lock(&mu_);
    delay *= 1.0 - 0.5 * jitter_.UniformFloat();
    ++retries_;
  }
  attempt->backoff = std::min(2 * attempt->backoff, options_.last_backoff);
  later_.RunAfter(delay, [this, attempt = std::move(attempt)](bool is_due) mutable {
    is_due ? Send(std::move(attempt)) : attempt->done(ClosingReply());
  });
}

}  // namespace capstan
