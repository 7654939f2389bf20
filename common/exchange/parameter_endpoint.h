#ifndef COMMON_EXCHANGE_PARAMETER_ENDPOINT_H_
#define COMMON_EXCHANGE_PARAMETER_ENDPOINT_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/exchange/payload.h"
#include "common/tensor/slicing.h"
#include "common/trace/exchange_trace.h"

namespace capstan {

// ExchangeRequest::own_cut of a worker that has done all its steps.
inline constexpr uint64_t kFinalCut = std::numeric_limits<uint64_t>::max();

// The rows of a sparse table in an exchange. Its slice is a shard's part of the table. Keys are
// sent as a key list (common/codec/key_list.h). The payload is the gradient of the pushed rows, row
// after row, then their keys, then the keys of the pulled rows.
struct RowBatch {
  // One half of the exchange.
  struct Part {
    uint32_t rows = 0;
    // Bytes of the key list in the payload. 0, with rows: the server has the list. It keeps that of
    // a worker's pull until the worker's push of the same step, if it has the memory.
    uint32_t key_bytes = 0;
    uint64_t keys_hash = 0;  // HashKeyList of the key list, sent or not
  };
  Part push;
  Part pull;
};

// A push, a pull, or both, of one slice. Or the worker's own state of the slice: float32 arrays,
// each as long as the slice, that its engine keeps from step to step beside the parameters. Or the
// slice's initial values.
struct ExchangeRequest {
  uint64_t job = 0;  // fingerprint of the job file
  WorkerId worker;
  Incarnation incarnation;
  Epoch epoch;  // version of the routing table by which the client chose the server
  SliceKey slice;
  std::optional<Step> push_step;  // the gradient's step
  std::optional<Step> pull_step;
  // Version of the values from which the gradient was computed. None: the newest version.
  std::optional<uint64_t> base_version;
  // With push_step: takes the place of the optimizer's learning rate. Under BSP that of the
  // smallest worker id with a gradient counts for the step. None: the optimizer's.
  std::optional<double> learning_rate;
  // With push_step: the worker has done the step without a gradient for this slice.
  bool is_empty_push = false;
  // What the request brings:
  // - a push to a dense table: the gradient of the slice, encoded by `codec`;
  // - an exchange with a sparse table: what RowBatch says;
  // - with `own_cut`: the arrays of the own state, one after the other, as float32;
  // - with `is_initial`: the initial values, as float32;
  // - else nothing.
  Payload gradient;
  CodecType codec = CodecType::kFloat32;  // of the gradient; all else is float32
  RowBatch rows;                          // only of a sparse table
  // With neither push nor pull: the own state is for the slice's cut of this number, or for every
  // cut from now on (kFinalCut). 0: there is none.
  uint64_t own_cut = 0;
  // With pull_step: the values are to be float32, whatever the codec of the table's pulls.
  bool pulls_float32 = false;
  // With pull_step: the number of the values that the worker has (ExchangeReply::copy); 0: of none.
  uint64_t copy = 0;
  // With neither push nor pull nor own_cut: asks for the worker's own state in the checkpoint from
  // which the job goes on.
  bool pulls_own = false;
  // With none of these, from worker 0: the slice is to begin with the values in `gradient`. A slice
  // that has values already keeps them.
  bool is_initial = false;
  // With none of these: the reply's values are to be the bytes of `gradient`. Answered by a server
  // before it has shards, too.
  bool is_probe = false;
  // The endpoint may put the pulled values here, if their size fits, instead of allocating memory.
  // It never reads this memory, and no longer writes it once the exchange is answered. Empty: it
  // allocates memory.
  absl::Span<float> destination;
};

struct ExchangeReply {
  absl::Status status;
  Epoch epoch;           // the server's; newer than the request's if the shard has moved
  uint64_t version = 0;  // number of optimizer applications in the values
  Step min_step;         // smallest number of steps completed by a live worker
  // Encoded by `codec`. Empty unless a pull succeeded, or there is own state to pull. Of a sparse
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
  // Number of times that the slice was cut for a checkpoint. Stays 0 if workers have no own state.
  uint64_t cut = 0;
  // Set by a server that records traces. The sender of the reply adds its own phases.
  ExchangeTrace trace;
};

// Whether the exchange is about the worker's own state, and not about parameters.
inline bool MovesOwnState(const ExchangeRequest& request) {
  return request.own_cut != 0 || request.pulls_own;
}

// The request of a pull that remains once a server has applied the push of `request`, or has kept
// its own state. Without a destination. A pull of rows names its keys by their hash.
inline ExchangeRequest PullAlone(const ExchangeRequest& request) {
  ExchangeRequest pull;
  pull.job = request.job;
  pull.worker = request.worker;
  pull.incarnation = request.incarnation;
  pull.epoch = request.epoch;
  pull.slice = request.slice;
  pull.pull_step = request.pull_step;
  pull.pulls_float32 = request.pulls_float32;
  pull.copy = request.copy;
  pull.rows.pull = {request.rows.pull.rows, /*key_bytes=*/0, request.rows.pull.keys_hash};
  pull.pulls_own = request.pulls_own;
  return pull;
}

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

  // `delivered` runs once: when the server has the gradient's bytes, answered or not, or when the
  // bytes are lost. Over UCX a gradient below 64 KiB counts as delivered once it has left. Without
  // a gradient it runs when the request has left the process. `done` runs once after it, when the
  // consistency policy allows the reply. Both run on any thread, possibly within Exchange, and at
  // the latest when the endpoint is destroyed. The caller must not change the gradient's bytes
  // until `done` has run with a status other than UNAVAILABLE. Errors of a server: INVALID_ARGUMENT
  // (names table, slice, expected and got), FAILED_PRECONDITION (stale epoch, incarnation or pull
  // step), RESOURCE_EXHAUSTED, NOT_FOUND (the keys that the request names by
  // their hash are not here: send them with it). UNAVAILABLE: the request or its reply was lost;
  // send the request again.
  virtual void Exchange(ExchangeRequest request, DeliveredCallback delivered,
                        ReplyCallback done) = 0;
};

}  // namespace capstan

#endif  // COMMON_EXCHANGE_PARAMETER_ENDPOINT_H_
