#ifndef COMMON_EXCHANGE_EXCHANGE_REQUEST_H_
#define COMMON_EXCHANGE_EXCHANGE_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/exchange/collective.h"
#include "common/exchange/payload.h"
#include "common/exchange/rates.h"
#include "common/tensor/slicing.h"

namespace capstan {

// One life of a worker of a job. A server answers the latest one only.
struct Sender {
  uint64_t job = 0;  // fingerprint of the job file
  WorkerId worker;
  Incarnation incarnation;
};

// Float32 values, encoded.
struct Gradient {
  Payload bytes;
  CodecType codec = CodecType::kFloat32;
};

// One half of a step's exchange: what the worker has computed.
struct StepPush {
  Step step;
  // None: the worker has done the step without a gradient for this slice.
  std::optional<Gradient> gradient = std::nullopt;
  // Version of the values from which the gradient was computed. None: the newest version.
  std::optional<uint64_t> base_version = std::nullopt;
  // Under BSP those of the smallest worker id count for the step; in a dense table, of the smallest
  // one with a gradient.
  Rates rates = {};
};

// The other half: with what it goes on.
struct StepPull {
  Step step;                // to be computed with the values
  bool is_float32 = false;  // the values are to be float32, whatever the codec of the table's pulls
};

// A push, a pull, or both, of a slice of a dense table.
struct DenseStep {
  std::optional<StepPush> push = std::nullopt;
  std::optional<StepPull> pull = std::nullopt;
  // With a pull: the number of the values that the worker has (ExchangeReply::copy); 0: of none.
  uint64_t copy = 0;
};

// The keys of rows, ascending.
struct KeyList {
  uint32_t rows = 0;
  uint64_t hash = 0;  // HashKeyList of the list, sent or not
  // The list (common/codec/key_list.h). Empty, with rows: the server has it. It keeps that of a
  // worker's pull until the worker's push of the same step, if it has the memory.
  Payload bytes = {};
};

// A push, a pull, or both, of a sparse table's rows in one shard. The gradient has the pushed rows,
// row after row, in the order of their keys. It is none exactly if no rows are pushed.
struct RowStep {
  std::optional<StepPush> push = std::nullopt;
  std::optional<StepPull> pull = std::nullopt;
  KeyList pushed_keys = {};
  KeyList pulled_keys = {};
};

// WorkerState::cut of a worker that has done all its steps.
inline constexpr uint64_t kFinalCut = std::numeric_limits<uint64_t>::max();

// The worker's own state of the slice: what its engine keeps from step to step beside the
// parameters. For the slice's cut of this number, or for every cut from now on (kFinalCut).
struct WorkerState {
  uint64_t cut = 0;  // above 0; of a program also 0: from now on it has a state for each cut
  // float32, each as long as the slice, one after the other; of a program any bytes.
  Payload arrays;
  bool is_program = false;  // it is the program's, and sent to the job's first dense slice
};
inline constexpr size_t kMaxProgramStateBytes = size_t{64} << 20;

// Asks for the worker's own state in the checkpoint from which the job goes on.
struct WorkerStatePull {
  bool is_program = false;
};

// From worker 0, of a table that replies the mean: the parameters as the program has them, and
// behind them arrays of its optimizer's state. For a cut as WorkerState.
struct TableState {
  uint64_t cut = 0;  // above 0
  Payload arrays;    // float32, each as long as the slice, one after the other
};
// From worker 0: the slice is to begin with these values. A slice that has values keeps them.
struct InitialValues {
  Payload values;  // float32
};

// From worker 0: an array of the optimizer's state, and the number of updates that the optimizer is
// to count so far. A slice that has been updated keeps its own.
struct OptimizerState {
  uint32_t array = 0;
  uint64_t steps = 0;
  Payload values;  // float32, as long as the slice
};

// Asks for an array of the optimizer's state.
struct OptimizerStatePull {
  uint32_t array = 0;
};

// From the primary of a shard to the server with its other copy: a change of the shard. The
// sender's `worker` is the id of the primary's server. The reply's `version` is the sequence up to
// which the copy has all records.
struct ReplicaRecord {
  ShardId shard;
  uint64_t copy = 0;      // v1::ShardCopy::number
  uint64_t sequence = 0;  // from 1 on, without gaps
  Incarnation backup;     // the life of the server that has the copy
  std::string change;     // a serialized v1::ReplicaChange, at most kMaxChangeBytes
  Payload bytes;          // its floats and keys, at most kMaxSliceBytes
};
inline constexpr size_t kMaxChangeBytes = size_t{1} << 20;

// The reply's values are to be these bytes. A server answers it before it has shards, too.
struct Probe {
  Payload bytes;
};

struct ExchangeRequest {
  Sender sender;
  Epoch epoch;  // version of the routing table by which the client chose the server
  SliceKey slice;
  std::variant<DenseStep, RowStep, WorkerState, WorkerStatePull, TableState, InitialValues,
               OptimizerState, OptimizerStatePull, Collective, Probe, ReplicaRecord>
      purpose = {};
  // The endpoint may put the pulled values here, if their size fits, instead of allocating memory.
  // It never reads this memory, and no longer writes it once the exchange is answered. Empty: it
  // allocates memory.
  absl::Span<float> destination = {};
};

// Who sends a request: a server sends records, a worker all other purposes. Each kind has a method
// of its own, and needs a right of its own.
enum class SenderRole { kWorker, kServer };
SenderRole SenderRoleOf(const ExchangeRequest& request);

// Whether the purpose is a step, of a dense or of a sparse table.
bool IsStep(const ExchangeRequest& request);
// The halves of a step's exchange. Null: the request has no such half.
const StepPush* PushOf(const ExchangeRequest& request);
const StepPull* PullOf(const ExchangeRequest& request);
// The gradient of its push. Null: there is none.
const Gradient* GradientOf(const ExchangeRequest& request);

// Whether the exchange leaves the parameters of workers alone: it is about the worker's own state
// or the optimizer's, a collective operation, or a copy of a shard.
bool LeavesParameters(const ExchangeRequest& request);
// Whether it asks for such state.
bool PullsState(const ExchangeRequest& request);

// Calls `use` with what the request brings, in the order of the wire: a gradient, the pushed keys
// and the pulled keys, as far as there are such, or the one payload of another purpose.
void ForEachPayload(ExchangeRequest& request, absl::FunctionRef<void(Payload&)> use);
// The sum of their bytes.
size_t PayloadBytes(const ExchangeRequest& request);

// The request of a pull that remains once a server has applied the push of `request`, or has kept
// its state or its part of a collective operation; of other purposes nothing remains. Without a
// destination. A pull of rows names its keys by their hash.
ExchangeRequest PullAlone(const ExchangeRequest& request);

}  // namespace capstan

#endif  // COMMON_EXCHANGE_EXCHANGE_REQUEST_H_
