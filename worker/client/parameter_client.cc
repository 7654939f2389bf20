#include "worker/client/parameter_client.h"

#include <utility>

#include "absl/time/time.h"

namespace capstan {

ParameterClient::ParameterClient(const Options& options, ShardMap shards,
                                 const RoutingTable& routing, EndpointFactory connect)
    : options_(options), shards_(std::move(shards)) {
  for (uint32_t i = 0; i < routing.server_address.size(); ++i) {
    endpoints_.emplace(ServerId(i), connect(ServerId(i), routing.server_address[i]));
  }
  UpdateRouting(routing);
}

ParameterClient::~ParameterClient() {
  std::vector<std::shared_ptr<Pending>> waiting;
  {
    MutexLock lock(&mu_);
    is_stopping_ = true;
    waiting.swap(waiting_for_routing_);
    while (active_sends_ > 0) {
      options_.clock->WaitUntil(mu_, sends_ended_, absl::InfiniteFuture());
    }
  }
  // Their destruction answers what is open; those answers come back here.
  endpoints_.clear();
  for (const auto& pending : waiting) {
    pending->done(ErrorReply(absl::CancelledError("the worker is shutting down")));
  }
}

void ParameterClient::UpdateRouting(const RoutingTable& routing) {
  std::vector<std::shared_ptr<Pending>> waiting;
  {
    MutexLock lock(&mu_);
    if (routing.epoch <= epoch_) return;
    epoch_ = routing.epoch;
    server_of_shard_ = routing.server_of_shard;
    waiting.swap(waiting_for_routing_);
  }
  for (auto& pending : waiting) Send(std::move(pending));
}

void ParameterClient::Exchange(SliceKey slice, std::optional<Step> push_step, Payload gradient,
                               std::optional<Step> pull_step, std::optional<uint64_t> base_version,
                               absl::Span<float> destination, ParameterEndpoint::SentCallback sent,
                               ParameterEndpoint::ReplyCallback done) {
  auto pending = std::make_shared<Pending>();
  pending->client = this;
  ExchangeRequest& request = pending->request;
  request.job = options_.job;
  request.worker = options_.worker;
  request.incarnation = options_.incarnation;
  request.slice = slice;
  request.push_step = push_step;
  request.pull_step = pull_step;
  request.base_version = base_version;
  request.gradient = std::move(gradient);
  request.destination = destination;
  pending->sent = std::move(sent);
  pending->done = std::move(done);
  Send(std::move(pending));
}

ParameterEndpoint* ParameterClient::TakeEndpoint(ExchangeRequest* request) {
  MutexLock lock(&mu_);
  if (is_stopping_) return nullptr;
  ++active_sends_;
  request->epoch = epoch_;
  const ShardId shard = shards_.ShardOf(request->slice);
  return endpoints_.at(server_of_shard_.at(shard.value())).get();
}

void ParameterClient::DoneWithEndpoint() {
  MutexLock lock(&mu_);
  --active_sends_;
  sends_ended_.NotifyAll();
}

void ParameterClient::Send(std::shared_ptr<Pending> pending) {
  // An earlier try of the same exchange may have told it already.
  auto tell_sent = [pending] {
    if (pending->sent) std::exchange(pending->sent, nullptr)();
  };
  ParameterEndpoint* const endpoint = TakeEndpoint(&pending->request);
  if (endpoint == nullptr) {
    tell_sent();
    pending->done(ErrorReply(absl::CancelledError("the worker is shutting down")));
    return;
  }
  ExchangeRequest request = pending->request;
  endpoint->Exchange(std::move(request), std::move(tell_sent),
                     [pending = std::move(pending)](ExchangeReply reply) mutable {
                       ParameterClient* const client = pending->client;
                       client->OnReply(std::move(pending), std::move(reply));
                     });
  DoneWithEndpoint();
}

void ParameterClient::OnReply(std::shared_ptr<Pending> pending, ExchangeReply reply) {
  const bool has_moved =
      absl::IsFailedPrecondition(reply.status) && reply.epoch > pending->request.epoch;
  has_moved ? RouteAgain(std::move(pending), std::move(reply)) : pending->done(std::move(reply));
}

void ParameterClient::RouteAgain(std::shared_ptr<Pending> pending, ExchangeReply refusal) {
  bool is_stopping;
  {
    MutexLock lock(&mu_);
    is_stopping = is_stopping_;
    if (!is_stopping && epoch_ < refusal.epoch) {
      waiting_for_routing_.push_back(std::move(pending));
      return;
    }
  }
  is_stopping ? pending->done(std::move(refusal)) : Send(std::move(pending));
}

}  // namespace capstan
