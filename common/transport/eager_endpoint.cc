#include "common/transport/eager_endpoint.h"

#include <utility>

namespace capstan {

EagerEndpoint::EagerEndpoint(Shared* shared, std::unique_ptr<ParameterEndpoint> inner)
    : shared_(*shared), inner_(std::move(inner)) {}

EagerEndpoint::~EagerEndpoint() {
  {
    MutexLock lock(&mu_);
    is_stopping_ = true;
    while (active_refreshes_ > 0) {
      shared_.clock->WaitUntil(mu_, refreshes_sent_, absl::InfiniteFuture());
    }
  }
  inner_.reset();
}

void EagerEndpoint::Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) {
  if (std::optional<ExchangeReply> kept = TakeKept(request)) {
    sent();
    return done(*std::move(kept));
  }
  const uint64_t exchange = Begin(request.slice);
  ExchangeRequest pull = request;
  pull.push_step.reset();
  pull.gradient = Payload();
  inner_->Exchange(std::move(request), std::move(sent),
                   [this, pull = std::move(pull), exchange, asked_at = shared_.clock->Now(),
                    done = std::move(done)](ExchangeReply reply) mutable {
                     if (pull.pull_step.has_value() && Keep(pull, exchange, asked_at, reply)) {
                       Refresh(std::move(pull), exchange, reply.min_step);
                     }
                     done(std::move(reply));
                   });
}

std::optional<ExchangeReply> EagerEndpoint::TakeKept(const ExchangeRequest& request) {
  if (request.push_step.has_value()) return std::nullopt;
  MutexLock lock(&mu_);
  std::optional<Kept>& kept = slices_[request.slice].kept;
  if (!kept.has_value() || kept->pull_step != request.pull_step) return std::nullopt;
  return std::exchange(kept, std::nullopt)->reply;
}

uint64_t EagerEndpoint::Begin(SliceKey slice) {
  MutexLock lock(&mu_);
  slices_[slice].kept.reset();
  return ++slices_[slice].exchanges;
}

bool EagerEndpoint::Keep(const ExchangeRequest& request, uint64_t exchange, absl::Time asked_at,
                         const ExchangeReply& reply) {
  if (!reply.status.ok()) return false;
  MutexLock lock(&mu_);
  Slice& slice = slices_[request.slice];
  const bool is_refresh = request.refresh_after.has_value();
  // Values must not go back: the worker has pushed since, or has used what was kept.
  if (slice.exchanges != exchange || slice.kept.has_value() != is_refresh) return false;
  slice.kept = Kept{*request.pull_step, reply};
  slice.kept->reply.asked_at = asked_at;
  // Nobody can get further than the worker's own next push.
  return reply.min_step < *request.pull_step;
}

void EagerEndpoint::Refresh(ExchangeRequest request, uint64_t exchange, Step min_step) {
  if (!BeginRefresh()) return;
  request.refresh_after = min_step;
  const ExchangeRequest copy = request;
  inner_->Exchange(
      copy, [] {},
      [this, request = std::move(request), exchange,
       asked_at = shared_.clock->Now()](const ExchangeReply& reply) mutable {
        shared_.refreshed_bytes += reply.values.size_bytes();
        if (!Keep(request, exchange, asked_at, reply)) return;
        Refresh(std::move(request), exchange, reply.min_step);
      });
  EndRefresh();
}

bool EagerEndpoint::BeginRefresh() {
  MutexLock lock(&mu_);
  if (is_stopping_) return false;
  ++active_refreshes_;
  return true;
}

void EagerEndpoint::EndRefresh() {
  MutexLock lock(&mu_);
  --active_refreshes_;
  refreshes_sent_.NotifyAll();
}

}  // namespace capstan
