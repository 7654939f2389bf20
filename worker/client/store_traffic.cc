#include "worker/client/store_traffic.h"

#include <algorithm>
#include <numeric>

namespace capstan {
namespace {

double CountReplies(const StoreTraffic& traffic) {
  return std::accumulate(traffic.replies_of_staleness.begin(), traffic.replies_of_staleness.end(),
                         0.0);
}

}  // namespace

StoreTraffic& StoreTraffic::operator+=(const StoreTraffic& other) {
  bytes_pushed += other.bytes_pushed;
  bytes_pulled += other.bytes_pulled;
  pushed_by_codec.Add(other.pushed_by_codec);
  pulled_by_codec.Add(other.pulled_by_codec);
  exchanges += other.exchanges;
  float_bytes_pushed += other.float_bytes_pushed;
  float_bytes_pulled += other.float_bytes_pulled;
  gradient_squares += other.gradient_squares;
  residual_squares += other.residual_squares;
  coding += other.coding;
  steps_ahead = std::max(steps_ahead, other.steps_ahead);
  max_staleness_seen = std::max(max_staleness_seen, other.max_staleness_seen);
  const double replies = CountReplies(*this);
  const double others = CountReplies(other);
  if (replies + others > 0) {
    mean_staleness_seen =
        (mean_staleness_seen * replies + other.mean_staleness_seen * others) / (replies + others);
  }
  replies_of_staleness.resize(
      std::max(replies_of_staleness.size(), other.replies_of_staleness.size()));
  for (size_t i = 0; i < other.replies_of_staleness.size(); ++i) {
    replies_of_staleness[i] += other.replies_of_staleness[i];
  }
  waiting += other.waiting;
  sending += other.sending;
  return *this;
}

void TrafficCounter::CountPull(Step pull_step, const ExchangeReply& reply, uint64_t float_bytes) {
  traffic_.steps_ahead = pull_step - reply.min_step;
  CountStaleness(traffic_.steps_ahead);
  traffic_.bytes_pulled += reply.values.size_bytes();
  traffic_.pulled_by_codec.Add(reply.codec, reply.values.size_bytes());
  traffic_.float_bytes_pulled += float_bytes;
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
