#include "worker/client/store_traffic.h"

#include <algorithm>

namespace capstan {

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
