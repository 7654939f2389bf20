#ifndef COMMON_EXCHANGE_PARAMETER_ENDPOINT_H_
#define COMMON_EXCHANGE_PARAMETER_ENDPOINT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/exchange/exchange_request.h"
#include "common/exchange/payload.h"
#include "common/trace/exchange_trace.h"

namespace capstan {

struct ExchangeReply {
  absl::Status status;
  Epoch epoch;           // newer than the request's if the shard has moved
  uint64_t version = 0;  // number of optimizer applications in the values
  Step min_step;         // smallest number of steps completed by a live worker
  // Encoded by `codec`. Empty unless a pull succeeded, or there is state to pull. Of a sparse
  // table, the pulled rows, in the order of their keys.
  Payload values;
  CodecType codec = CodecType::kFloat32;  // of values
  // The number of the values that the worker has with this reply. If the codec is a topk, `values`
  // are a difference, to be added to those of the request's `copy`; if it is kChanged, they replace
  // elements of those. 0: the server will not know what the worker has.
  uint64_t copy = 0;
  // The optimizer divided the learning rate of the push by this. 0: there was no push, or it is
  // applied later or in the mean of its step, or an earlier copy of it was applied.
  uint64_t learning_rate_divisor = 0;
  // Number of updates that the optimizer has counted, in a reply to an OptimizerStatePull.
  uint64_t optimizer_steps = 0;
  // Number of times that the slice was cut for a checkpoint. Stays 0 if workers have no own state.
  uint64_t cut = 0;
  // Set by a server that records traces. The sender of the reply adds its own phases.
  ExchangeTrace trace;
  // Since when the reply has waited for the copy of its shard. None: it has not.
  std::optional<absl::Time> held_since;
};

inline size_t PayloadBytes(const ExchangeReply& reply) { return reply.values.size_bytes(); }

inline ExchangeReply ErrorReply(absl::Status status, Epoch epoch = Epoch()) {
  ExchangeReply reply;
  reply.status = std::move(status);
  reply.epoch = epoch;
  return reply;
}

// Answers exchanges: a shard host of this process, a connection to one, or a decorator of either.
// Thread-safe.
class ParameterEndpoint {
 public:
  using DeliveredCallback = absl::AnyInvocable<void()>;
  using ReplyCallback = absl::AnyInvocable<void(ExchangeReply)>;

  virtual ~ParameterEndpoint() = default;

  // `delivered` runs once: when the server has the request's payload, answered or not, or when it
  // is lost. Over UCX a payload below 64 KiB counts as delivered once it has left. Without a
  // payload it runs when the request has left the process. `done` runs once after it, when the
  // consistency policy allows the reply. Both run on any thread, possibly within Exchange, and at
  // the latest when the endpoint is destroyed. The caller must not change the payload's bytes
  // until `done` has run with a status other than UNAVAILABLE. Errors of a server: INVALID_ARGUMENT
  // (names table, slice, expected and got), FAILED_PRECONDITION (stale epoch, incarnation or pull
  // step), RESOURCE_EXHAUSTED, NOT_FOUND (the keys that the request names by
  // their hash are not here: send them with it). UNAVAILABLE: the request or its reply was lost;
  // send the request again.
  virtual void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                        ReplyCallback done) = 0;
};

}  // namespace capstan

#endif  // COMMON_EXCHANGE_PARAMETER_ENDPOINT_H_
