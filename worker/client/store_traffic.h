#ifndef WORKER_CLIENT_STORE_TRAFFIC_H_
#define WORKER_CLIENT_STORE_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/codec/codec.h"
#include "common/codec/codec_bytes.h"
#include "common/exchange/parameter_endpoint.h"

namespace capstan {

// The bytes of a worker's exchanges, and the staleness of its values.
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
  absl::Duration waiting;  // for exchanges
  absl::Duration sending;  // in calls that push or pull
};

// Counts a worker's traffic. Thread-safe.
class TrafficCounter {
 public:
  void CountExchange();
  void CountPush(CodecType codec, uint64_t bytes, uint64_t float_bytes);
  // `reply` is a success, with values that are decoded to `float_bytes`.
  void CountPull(Step pull_step, const ExchangeReply& reply, uint64_t float_bytes);
  void CountNorms(const Codec::Norms& norms);
  void CountCoding(absl::Duration time);
  void CountWaiting(absl::Duration time);
  void CountSending(absl::Duration time);

  StoreTraffic traffic() const;
  // Its parts, without a copy of the rest.
  absl::Duration waiting() const;
  absl::Duration sending() const;

 private:
  void CountStaleness(int64_t staleness) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  StoreTraffic traffic_ ABSL_GUARDED_BY(mu_);
  uint64_t staleness_sum_ ABSL_GUARDED_BY(mu_) = 0;  // over all replies
  uint64_t replies_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace capstan

#endif  // WORKER_CLIENT_STORE_TRAFFIC_H_
