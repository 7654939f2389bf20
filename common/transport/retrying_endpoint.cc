#include "common/transport/retrying_endpoint.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

bool MayTryAgain(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
}

}  // namespace

RetryingEndpoint::RetryingEndpoint(Options options, std::unique_ptr<ParameterEndpoint> inner)
    : options_(std::move(options)),
      jitter_(options_.seed),
      later_(options_.clock),
      inner_(std::move(inner)) {}

RetryingEndpoint::~RetryingEndpoint() {
  later_.Stop();
  // Answers what is open, and those answers come back here.
  inner_.reset();
}

void RetryingEndpoint::Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) {
  auto attempt = std::make_shared<Attempt>();
  attempt->endpoint = this;
  attempt->request = std::move(request);
  attempt->sent = std::move(sent);
  attempt->done = std::move(done);
  attempt->backoff = options_.first_backoff;
  Send(std::move(attempt));
}

void RetryingEndpoint::Send(std::shared_ptr<Attempt> attempt) {
  attempt->started = options_.clock->Now();
  // An earlier try of the same exchange may have told it already.
  auto tell_sent = [attempt] {
    if (attempt->sent) std::exchange(attempt->sent, nullptr)();
  };
  ExchangeRequest request = attempt->request;
  inner_->Exchange(std::move(request), std::move(tell_sent),
                   [attempt = std::move(attempt)](ExchangeReply reply) mutable {
                     RetryingEndpoint* const endpoint = attempt->endpoint;
                     endpoint->OnReply(std::move(attempt), std::move(reply));
                   });
}

void RetryingEndpoint::OnReply(std::shared_ptr<Attempt> attempt, ExchangeReply reply) {
  if (!MayTryAgain(reply.status)) return attempt->done(std::move(reply));
  const absl::Time now = options_.clock->Now();
  // A try that stayed open for so long was connected: its request was parked by a live server.
  const bool was_connected = now - attempt->started > options_.rpc_deadline;
  if (was_connected || !attempt->unreachable_since.has_value()) {
    attempt->unreachable_since = now;
    attempt->backoff = options_.first_backoff;
  }
  if (now - *attempt->unreachable_since >= options_.rpc_deadline) {
    reply.status = absl::UnavailableError(absl::StrCat(
        options_.peer, " has been unreachable for ", absl::FormatDuration(options_.rpc_deadline),
        " (--rpc_deadline_seconds); look at its log. Last error: ", reply.status.message()));
    return attempt->done(std::move(reply));
  }
  SendLater(std::move(attempt));
}

void RetryingEndpoint::SendLater(std::shared_ptr<Attempt> attempt) {
  absl::Duration delay = attempt->backoff;
  {
    MutexLock lock(&mu_);
    delay *= 1.0 - 0.5 * jitter_.UniformFloat();
  }
  attempt->backoff = std::min(2 * attempt->backoff, options_.last_backoff);
  later_.RunAfter(delay, [this, attempt = std::move(attempt)](bool is_due) mutable {
    if (is_due) return Send(std::move(attempt));
    attempt->done(
        ErrorReply(absl::CancelledError(absl::StrCat("connection to ", options_.peer, " closed"))));
  });
}

}  // namespace capstan
