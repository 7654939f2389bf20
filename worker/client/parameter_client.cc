#include "worker/client/parameter_client.h"

#include <utility>

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
                               std::optional<Step> pull_step, ParameterEndpoint::SentCallback sent,
                               ParameterEndpoint::ReplyCallback done) {
  auto pending = std::make_shared<Pending>();
  ExchangeRequest& request = pending->request;
  request.job = options_.job;
  request.worker = options_.worker;
  request.incarnation = options_.incarnation;
  request.slice = slice;
  request.push_step = push_step;
  request.pull_step = pull_step;
  request.gradient = std::move(gradient);
  pending->sent = std::move(sent);
  pending->done = std::move(done);
  Send(std::move(pending));
}

void ParameterClient::Send(std::shared_ptr<Pending> pending) {
  ParameterEndpoint* endpoint;
  {
    MutexLock lock(&mu_);
    pending->request.epoch = epoch_;
    const ShardId shard = shards_.ShardOf(pending->request.slice);
    endpoint = endpoints_.at(server_of_shard_.at(shard.value())).get();
  }
  endpoint->Exchange(
      pending->request,
      [pending] {
        // An earlier try of the same exchange has told it already.
        if (pending->sent) std::exchange(pending->sent, nullptr)();
      },
      [this, pending](ExchangeReply reply) { OnReply(pending, std::move(reply)); });
}

void ParameterClient::OnReply(const std::shared_ptr<Pending>& pending, ExchangeReply reply) {
  const bool has_moved =
      absl::IsFailedPrecondition(reply.status) && reply.epoch > pending->request.epoch;
  if (has_moved && RouteAgain(pending, reply.epoch)) return;
  pending->done(std::move(reply));
}

bool ParameterClient::RouteAgain(const std::shared_ptr<Pending>& pending, Epoch epoch) {
  {
    MutexLock lock(&mu_);
    if (is_stopping_) return false;
    if (epoch_ < epoch) {
      waiting_for_routing_.push_back(pending);
      return true;
    }
  }
  Send(pending);
  return true;
}

}  // namespace capstan
