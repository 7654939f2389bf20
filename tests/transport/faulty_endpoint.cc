#include "tests/transport/faulty_endpoint.h"

#include <utility>

namespace capstan {

FaultyEndpoint::FaultyEndpoint(Options options, std::unique_ptr<ParameterEndpoint> inner)
    : options_(options), random_(options.seed), later_(options.clock), inner_(std::move(inner)) {}

FaultyEndpoint::~FaultyEndpoint() {
  later_.Stop();
  inner_.reset();
}

FaultyEndpoint::Counts FaultyEndpoint::counts() const {
  MutexLock lock(&mu_);
  return counts_;
}

FaultyEndpoint::Fate FaultyEndpoint::DrawFate() {
  MutexLock lock(&mu_);
  Fate fate;
  if (random_.Bernoulli(options_.drop)) {
    fate.request_lost = random_.Bernoulli(0.5);
    fate.reply_lost = !fate.request_lost;
  }
  fate.duplicated = random_.Bernoulli(options_.duplicate);
  const bool is_delayed = random_.Bernoulli(options_.delay);
  if (is_delayed) fate.delay = random_.UniformFloat() * options_.max_delay;
  fate.duplicate_delay = random_.UniformFloat() * options_.max_delay;
  counts_.dropped_requests += fate.request_lost;
  counts_.dropped_replies += fate.reply_lost;
  counts_.duplicated += fate.duplicated;
  counts_.delayed += is_delayed;
  return fate;
}

void FaultyEndpoint::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                              ReplyCallback done) {
  const Fate fate = DrawFate();
  if (fate.delay == absl::ZeroDuration()) {
    return Deliver(std::move(request), fate, std::move(delivered), std::move(done));
  }
  later_.RunAfter(
      fate.delay, [this, request = std::move(request), fate, delivered = std::move(delivered),
                   done = std::move(done)](bool is_due) mutable {
        if (is_due) return Deliver(std::move(request), fate, std::move(delivered), std::move(done));
        delivered();
        done(ErrorReply(absl::UnavailableError("connection closed while the request was delayed")));
      });
}

void FaultyEndpoint::Deliver(ExchangeRequest request, const Fate& fate, DeliveredCallback delivered,
                             ReplyCallback done) {
  if (fate.request_lost) {
    delivered();
    return done(ErrorReply(absl::UnavailableError("injected fault: the request was lost")));
  }
  ExchangeRequest copy;
  if (fate.duplicated) copy = request;
  inner_->Exchange(
      std::move(request), std::move(delivered),
      [is_lost = fate.reply_lost, done = std::move(done)](ExchangeReply reply) mutable {
        if (!is_lost) return done(std::move(reply));
        done(ErrorReply(absl::UnavailableError("injected fault: the reply was lost")));
      });
  if (!fate.duplicated) return;
  later_.RunAfter(fate.duplicate_delay, [this, copy = std::move(copy)](bool is_due) mutable {
    if (is_due)
      inner_->Exchange(
          std::move(copy), [] {}, [](ExchangeReply) {});
  });
}

}  // namespace capstan
