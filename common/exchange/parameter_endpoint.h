#ifndef COMMON_EXCHANGE_PARAMETER_ENDPOINT_H_
#define COMMON_EXCHANGE_PARAMETER_ENDPOINT_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/exchange/payload.h"
#include "common/tensor/slicing.h"
#include "common/trace/exchange_trace.h"

namespace capstan {

// How bytes encode float32 values. Numbered as v1::Codec; a peer may send any number.
enum class Codec : int32_t { kFloat32 = 1 };

// An optional push and an optional pull of one slice; at least one of them.
struct ExchangeRequest {
  uint64_t job = 0;  // fingerprint of the job file
  WorkerId worker;
  Incarnation incarnation;
  Epoch epoch;  // of the routing table that chose the endpoint
  SliceKey slice;
  std::optional<Step> push_step;  // the gradient's stamp
  std::optional<Step> pull_step;
  // The version of the values that the gradient was computed with. None: it counts as computed with
  // the newest values.
  std::optional<uint64_t> base_version;
  // Encoded by `codec`, with as many elements as the slice. Empty without a push.
  Payload gradient;
  Codec codec = Codec::kFloat32;
  // Where the values may be put, when they fit, instead of into memory of their own; not read, and
  // not written any more once the exchange is answered. Empty: nowhere.
  absl::Span<float> destination;
};

struct ExchangeReply {
  absl::Status status;
  Epoch epoch;           // the server's; newer than the request's when the shard has moved
  uint64_t version = 0;  // optimizer applications that the values contain
  Step min_step;         // smallest number of steps completed by a live worker
  Payload values;        // float32; empty unless a pull succeeded
  // What the learning rate of the push was divided by; 0: there was none, or it is applied later or
  // in the mean of its step, or it was applied before.
  uint64_t learning_rate_divisor = 0;
  // At a server that traces. Whoever sends the reply goes on with it.
  ExchangeTrace trace;
};

// The pull of `request` alone, without a place for its values: what is left once a server has
// applied the push.
inline ExchangeRequest PullAlone(const ExchangeRequest& request) {
  ExchangeRequest pull;
  pull.job = request.job;
  pull.worker = request.worker;
  pull.incarnation = request.incarnation;
  pull.epoch = request.epoch;
  pull.slice = request.slice;
  pull.pull_step = request.pull_step;
  return pull;
}

inline ExchangeReply ErrorReply(absl::Status status, Epoch epoch = Epoch()) {
  ExchangeReply reply;
  reply.status = std::move(status);
  reply.epoch = epoch;
  return reply;
}

// Something that answers exchanges: a shard host in this process, or a connection to one, or a
// decorator of either. Thread-safe.
class ParameterEndpoint {
 public:
  using DeliveredCallback = absl::AnyInvocable<void()>;
  using ReplyCallback = absl::AnyInvocable<void(ExchangeReply)>;

  virtual ~ParameterEndpoint() = default;

  // `delivered` runs once when the server has the gradient's bytes, whether it has answered or not,
  // or when they are lost; without a gradient, when the request has left. Then `done` runs once,
  // when the consistency policy lets the reply out. Both run on any thread, possibly before
  // Exchange returns, and also when the endpoint is destroyed. The gradient's bytes stay unchanged
  // until `done` has run with a status other than UNAVAILABLE. Errors of a server: INVALID_ARGUMENT
  // (names table, slice, expected and got), FAILED_PRECONDITION (stale epoch, incarnation or pull
  // step), RESOURCE_EXHAUSTED. UNAVAILABLE: the request or its reply was lost; send it again.
  virtual void Exchange(ExchangeRequest request, DeliveredCallback delivered,
                        ReplyCallback done) = 0;
};

}  // namespace capstan

#endif  // COMMON_EXCHANGE_PARAMETER_ENDPOINT_H_
