#ifndef WORKER_CLIENT_STORE_TRAFFIC_H_
#define WORKER_CLIENT_STORE_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/codec/codec_bytes.h"
#include "common/exchange/parameter_endpoint.h"

namespace capstan {

// The bytes of a store's exchanges, and the staleness of its values.
struct StoreTraffic {
  static constexpr int64_t kStalenessCounts = 128;

  uint64_t bytes_pushed = 0;   // payloads of answered pushes
  uint64_t bytes_pulled = 0;   // payloads of replies
  CodecBytes pushed_by_codec;  // the two above, by codec
  CodecBytes pulled_by_codec;
  int64_t exchanges = 0;  // answered without an error, of any kind
  // The bytes, if all were float32.
  uint64_t float_bytes_pushed = 0;
  uint64_t float_bytes_pulled = 0;
  // Sums of squares over all pushes with a lossy codec.
  double gradient_squares = 0;
  double residual_squares = 0;
  absl::Duration coding;           // encoding gradients and decoding values
  int64_t steps_ahead = 0;         // pull step - min_step of the latest reply
  int64_t max_staleness_seen = 0;  // largest (pull step - min_step of its reply), in steps
  double mean_staleness_seen = 0;  // over all replies to pulls
  // Element i counts replies with a staleness of i steps. Element kStalenessCounts - 1 also counts
  // all larger ones.
  std::vector<uint64_t> replies_of_staleness;
  absl::Duration waiting;  // in WaitForLayer
  absl::Duration sending;  // in calls that push or pull

  // Adds another store's traffic in the same steps.
  StoreTraffic& operator+=(const StoreTraffic& other);
};

// Counts a store's traffic. Not thread-safe: the owner guards it.
class TrafficCounter {
 public:
  void CountExchange() { ++traffic_.exchanges; }
  void CountPush(CodecType codec, uint64_t bytes, uint64_t float_bytes) {
    traffic_.pushed_by_codec.Add(codec, bytes);
    traffic_.bytes_pushed += bytes;
    traffic_.float_bytes_pushed += float_bytes;
  }
  // `reply` is a success, with values that are decoded to `float_bytes`.
  void CountPull(Step pull_step, const ExchangeReply& reply, uint64_t float_bytes);
  void CountNorms(const Codec::Norms& norms) {
    traffic_.gradient_squares += norms.gradient;
    traffic_.residual_squares += norms.residual;
  }
  void CountCoding(absl::Duration time) { traffic_.coding += time; }
  void CountWaiting(absl::Duration time) { traffic_.waiting += time; }
  void CountSending(absl::Duration time) { traffic_.sending += time; }

  const StoreTraffic& traffic() const { return traffic_; }

 private:
  void CountStaleness(int64_t staleness);

  StoreTraffic traffic_;
  uint64_t staleness_sum_ = 0;  // over all replies
  uint64_t replies_ = 0;
};

}  // namespace capstan

#endif  // WORKER_CLIENT_STORE_TRAFFIC_H_
