#include "tests/benchmark/copy/slow_link.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "common/base/delayed_calls.h"

namespace capstan {

class SlowLink::Endpoint : public ParameterEndpoint {
 public:
  Endpoint(SlowLink* link, std::unique_ptr<ParameterEndpoint> endpoint)
      : link_(*link), endpoint_(std::move(endpoint)), calls_(&link->clock_) {}
  ~Endpoint() override { calls_.Stop(); }

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    const std::optional<absl::Time> passes = link_.Pass(PayloadBytes(request));
    if (!passes.has_value()) {
      delivered();
      return done(ErrorReply(absl::UnavailableError("the link is cut")));
    }
    {
      MutexLock lock(&mu_);
      open_.push_back({std::move(request), std::move(delivered), std::move(done)});
    }
    // Each call takes the first one: calls of one time may come in any order.
    calls_.RunAfter(*passes - link_.clock_.Now(), [this](bool is_due) { PassFirst(is_due); });
  }

 private:
  struct Open {
    ExchangeRequest request;
    DeliveredCallback delivered;
    ReplyCallback done;
  };

  void PassFirst(bool is_due) {
    Open first = TakeFirst();
    if (is_due) {
      return endpoint_->Exchange(std::move(first.request), std::move(first.delivered),
                                 std::move(first.done));
    }
    first.delivered();
    first.done(ErrorReply(absl::UnavailableError("the link has ended")));
  }

  Open TakeFirst() {
    MutexLock lock(&mu_);
    Open first = std::move(open_.front());
    open_.pop_front();
    return first;
  }

  SlowLink& link_;
  const std::unique_ptr<ParameterEndpoint> endpoint_;
  Mutex mu_;
  std::deque<Open> open_ ABSL_GUARDED_BY(mu_);
  DelayedCalls calls_;
};

void SlowLink::CutUntil(absl::Time time) {
  MutexLock lock(&mu_);
  cut_until_ = time;
}

std::unique_ptr<ParameterEndpoint> SlowLink::Around(std::unique_ptr<ParameterEndpoint> endpoint) {
  return std::make_unique<Endpoint>(this, std::move(endpoint));
}

std::optional<absl::Time> SlowLink::Pass(size_t bytes) {
  MutexLock lock(&mu_);
  const absl::Time now = clock_.Now();
  if (now < cut_until_) return std::nullopt;
  busy_until_ =
      std::max(now, busy_until_) + absl::Seconds(seconds_per_byte_ * static_cast<double>(bytes));
  return busy_until_ + delay_;
}

}  // namespace capstan
