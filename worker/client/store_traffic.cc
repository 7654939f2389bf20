#include "worker/client/store_traffic.h"

#include <algorithm>

namespace capstan {

void TrafficCounter::CountExchange() {
  MutexLock lock(&mu_);
  ++traffic_.exchanges;
}

void TrafficCounter::CountPush(CodecType codec, uint64_t bytes, uint64_t float_bytes) {
  MutexLock lock(&mu_);
  traffic_.pushed_by_codec.Add(codec, bytes);
  traffic_.bytes_pushed += bytes;
  traffic_.float_bytes_pushed += float_bytes;
}

void TrafficCounter::CountPull(Step pull_step, const ExchangeReply& reply, uint64_t float_bytes) {
  MutexLock lock(&mu_);
  traffic_.steps_ahead = pull_step - reply.min_step;
  CountStaleness(traffic_.steps_ahead);
  traffic_.bytes_pulled += reply.values.size_bytes();
  traffic_.pulled_by_codec.Add(reply.codec, reply.values.size_bytes());
  traffic_.float_bytes_pulled += float_bytes;
}

void TrafficCounter::CountNorms(const Codec::Norms& norms) {
  MutexLock lock(&mu_);
  traffic_.gradient_squares += norms.gradient;
  traffic_.residual_squares += norms.residual;
}

void TrafficCounter::CountCoding(absl::Duration time) {
  MutexLock lock(&mu_);
  traffic_.coding += time;
}

void TrafficCounter::CountWaiting(absl::Duration time) {
  MutexLock lock(&mu_);
  traffic_.waiting += time;
}

void TrafficCounter::CountSending(absl::Duration time) {
  MutexLock lock(&mu_);
  traffic_.sending += time;
}

StoreTraffic TrafficCounter::traffic() const {
  MutexLock lock(&mu_);
  return traffic_;
}

absl::Duration TrafficCounter::waiting() const {
  MutexLock lock(&mu_);
  return traffic_.waiting;
}

absl::Duration TrafficCounter::sending() const {
  MutexLock lock(&mu_);
  return traffic_.sending;
}

void TrafficCounter::CountStaleness(int64_t staleness) {
  traffic_.max_staleness_seen = std::max(traffic_.max_staleness_seen, staleness);
  const int64_t index = std::clamp<int64_t>(staleness, 0, StoreTraffic::kStalenessCounts - 1);
  std::vector<uint64_t>& counts = traffic_.replies_of_staleness;
  if (index >= static_cast<int64_t>(counts.size())) counts.resize(index + 1);
  ++counts[index];
  staleness_sum_ += std::max<int64_t>(staleness, 0);
  ++replies_;
  traffic_.mean_staleness_seen =
      static_cast<double>(staleness_sum_) / static_cast<double>(replies_);
}

}  // namespace capstan
