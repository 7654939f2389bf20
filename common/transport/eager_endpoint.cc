#include "common/transport/eager_endpoint.h"

#include <tuple>
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
  // Whoever waits, waits for a push or a refresh that is open.
  inner_.reset();
}

void EagerEndpoint::Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) {
  const bool is_pull = request.pull_step.has_value();
  if (request.push_step.has_value() && !is_pull) {
    Push(std::move(request), std::move(sent), std::move(done));
  } else if (is_pull && !request.push_step.has_value() && !request.refresh_after.has_value()) {
    Pull(std::move(request), std::move(sent), std::move(done));
  } else {
    inner_->Exchange(std::move(request), std::move(sent), std::move(done));
  }
}

void EagerEndpoint::Push(ExchangeRequest request, SentCallback sent, ReplyCallback done) {
  request.pull_step = *request.push_step + 1;
  request.may_skip_pull = true;
  request.destination = {};  // What is kept must not lie where values are used now.
  ExchangeRequest pull = request;
  pull.push_step.reset();
  pull.may_skip_pull = false;
  pull.gradient = Payload();
  if (std::optional<Waiting> overtaken = BeginPush(pull)) {
    inner_->Exchange(
        std::move(overtaken->request), [] {}, std::move(overtaken->done));
  }
  inner_->Exchange(std::move(request), std::move(sent),
                   [this, pull = std::move(pull), asked_at = shared_.clock->Now(),
                    done = std::move(done)](ExchangeReply reply) mutable {
                     shared_.refreshed_bytes += reply.values.size_bytes();
                     reply.asked_at = asked_at;
                     Actions actions = OnPushed(pull, reply);
                     if (actions.refresh.has_value()) Refresh(*std::move(actions.refresh));
                     reply.asked_at.reset();
                     reply.values = Payload();
                     done(std::move(reply));
                     actions.Answer();
                   });
}

void EagerEndpoint::Pull(ExchangeRequest request, SentCallback sent, ReplyCallback done) {
  std::optional<Actions> actions = AnswerOrWait(request, done);
  if (!actions.has_value()) {
    return inner_->Exchange(std::move(request), std::move(sent), std::move(done));
  }
  sent();
  if (actions->refresh.has_value()) Refresh(*std::move(actions->refresh));
  actions->Answer();
}

void EagerEndpoint::Refresh(ExchangeRequest request) {
  const ExchangeRequest copy = request;
  inner_->Exchange(
      copy, [] {},
      [this, request = std::move(request),
       asked_at = shared_.clock->Now()](ExchangeReply reply) mutable {
        shared_.refreshed_bytes += reply.values.size_bytes();
        reply.asked_at = asked_at;
        Actions actions = OnRefreshed(request, reply);
        if (actions.refresh.has_value()) Refresh(*std::move(actions.refresh));
        actions.Answer();
      });
  MutexLock lock(&mu_);
  --active_refreshes_;
  refreshes_sent_.NotifyAll();
}

std::optional<EagerEndpoint::Waiting> EagerEndpoint::BeginPush(const ExchangeRequest& pull) {
  MutexLock lock(&mu_);
  Slice& slice = slices_[pull.slice];
  ++slice.open_pushes;
  if (*pull.pull_step <= slice.next) return std::nullopt;
  slice.next = *pull.pull_step;
  slice.is_taken = false;
  slice.kept.reset();
  return std::exchange(slice.waiting, std::nullopt);
}

EagerEndpoint::Actions EagerEndpoint::OnPushed(const ExchangeRequest& pull,
                                               const ExchangeReply& reply) {
  MutexLock lock(&mu_);
  Slice& slice = slices_[pull.slice];
  --slice.open_pushes;
  if (!reply.status.ok() && *pull.pull_step == slice.next) {
    slice.next = kNoValues;
    slice.kept.reset();
  }
  return AdvanceLocked(slice, pull, reply);
}

EagerEndpoint::Actions EagerEndpoint::OnRefreshed(const ExchangeRequest& pull,
                                                  const ExchangeReply& reply) {
  MutexLock lock(&mu_);
  Slice& slice = slices_[pull.slice];
  slice.is_refresh_open = false;
  return AdvanceLocked(slice, pull, reply);
}

std::optional<EagerEndpoint::Actions> EagerEndpoint::AnswerOrWait(const ExchangeRequest& request,
                                                                  ReplyCallback& done) {
  MutexLock lock(&mu_);
  Slice& slice = slices_[request.slice];
  const bool is_next = request.pull_step == slice.next && !slice.is_taken;
  if (!is_next || slice.waiting.has_value()) return std::nullopt;
  const CacheWait waits_for = slice.kept.has_value() ? CacheWait::kNothing : CacheWait::kOwnPush;
  slice.waiting = Waiting{request, waits_for, std::move(done)};
  return AdvanceLocked(slice, request, ExchangeReply());
}

void EagerEndpoint::KeepLocked(Slice& slice, const ExchangeReply& reply) {
  const bool has_values = reply.status.ok() && !reply.values.empty();
  if (!has_values || slice.is_taken || reply.pull_step != slice.next) return;
  const auto age = [](const ExchangeReply& of) { return std::tie(of.version, of.min_step); };
  // The answers to a push and to a refresh may overtake each other.
  if (slice.kept.has_value() && age(reply) < age(*slice.kept)) return;
  slice.kept = reply;
  slice.kept->learning_rate_divisor = 0;  // It is of the push, which has its own answer.
}

EagerEndpoint::Actions EagerEndpoint::AdvanceLocked(Slice& slice, const ExchangeRequest& pull,
                                                    const ExchangeReply& reply) {
  KeepLocked(slice, reply);
  Actions actions;
  if (slice.waiting.has_value() && slice.kept.has_value()) {
    actions.done = std::move(slice.waiting->done);
    actions.reply = *std::exchange(slice.kept, std::nullopt);
    actions.reply.waited_for = slice.waiting->waits_for;
    slice.waiting.reset();
    slice.is_taken = true;
    return actions;
  }
  if (reply.status.ok() && !is_stopping_ && WantsRefresh(slice)) {
    slice.is_refresh_open = true;
    ++active_refreshes_;
    actions.refresh = pull;
    actions.refresh->destination = {};
    actions.refresh->pull_step = slice.next;
    actions.refresh->refresh_after = slice.kept.has_value() ? slice.kept->min_step : kNoValues;
  }
  if (!slice.waiting.has_value()) return actions;
  if (slice.open_pushes == 0) slice.waiting->waits_for = CacheWait::kOtherWorkers;
  const bool is_open = slice.open_pushes > 0 || slice.is_refresh_open;
  if (is_open && slice.next != kNoValues) return actions;
  actions.done = std::move(slice.waiting->done);
  actions.reply = reply.status.ok() ? ErrorReply(absl::CancelledError("the connection is closing"))
                                    : ErrorReply(reply.status, reply.epoch);
  slice.waiting.reset();
  return actions;
}

bool EagerEndpoint::WantsRefresh(const Slice& slice) {
  if (slice.next == kNoValues || slice.is_taken) return false;
  if (slice.open_pushes > 0 || slice.is_refresh_open) return false;
  // Nobody can get further than the worker's own next push.
  return !slice.kept.has_value() || slice.kept->min_step < slice.next;
}

void EagerEndpoint::Actions::Answer() {
  if (done) done(std::move(reply));
}

}  // namespace capstan
