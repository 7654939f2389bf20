#include "tests/simulation/push_ahead_endpoint.h"

namespace capstan {

namespace {

// The values of the earlier reply once more. Who has them as a numbered copy is told that nothing
// has changed: a difference must not be added twice.
ExchangeReply Again(ExchangeReply earlier) {
  if (earlier.copy == 0) return earlier;
  earlier.values.Clear();
  earlier.codec = CodecType::kChanged;
  return earlier;
}

}  // namespace

void PushAheadEndpoint::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                                 ReplyCallback done) {
  std::optional<ExchangeReply> earlier;
  const StepPull* const pull = PullOf(request);
  // The exact values at the end may come after any step.
  const bool is_last = pull != nullptr && pull->is_float32 && PushOf(request) == nullptr;
  if (pull != nullptr && !is_last) earlier = InPlaceOf(request.slice, pull->step);
  if (!earlier.has_value()) {
    auto keep = [this, slice = request.slice, has_pull = pull != nullptr,
                 done = std::move(done)](ExchangeReply reply) mutable {
      if (has_pull && reply.status.ok()) {
        MutexLock lock(&mu_);
        latest_[slice] = reply;
      }
      done(std::move(reply));
    };
    return inner_->Exchange(std::move(request), std::move(delivered), std::move(keep));
  }
  if (PushOf(request) == nullptr) {
    delivered();
    return done(*std::move(earlier));
  }
  auto& step = std::get<DenseStep>(request.purpose);
  step.pull.reset();
  request.destination = {};
  inner_->Exchange(
      std::move(request), std::move(delivered),
      [earlier = *std::move(earlier), done = std::move(done)](ExchangeReply reply) mutable {
        if (reply.status.ok()) {
          reply.values = std::move(earlier.values);
          reply.codec = earlier.codec;
          reply.copy = earlier.copy;
          reply.version = earlier.version;
        }
        done(std::move(reply));
      });
}

std::optional<ExchangeReply> PushAheadEndpoint::InPlaceOf(SliceKey slice, Step pull_step) {
  if (pull_step.value() % 2 == 0 || pull_step >= Step(steps_)) return std::nullopt;
  MutexLock lock(&mu_);
  const auto latest = latest_.find(slice);
  if (latest == latest_.end()) return std::nullopt;
  return Again(latest->second);
}

}  // namespace capstan
