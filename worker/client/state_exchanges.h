#ifndef WORKER_CLIENT_STATE_EXCHANGES_H_
#define WORKER_CLIENT_STATE_EXCHANGES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/tensor/slicing.h"
#include "worker/client/gradient_encoder.h"
#include "worker/client/own_state.h"
#include "worker/client/parameter_buffers.h"
#include "worker/client/worker_exchanges.h"

namespace capstan {

// The exchanges of a worker beside its steps: its own state, for checkpoints and from them, and
// initial values. The own state of a slice has the arrays of the engine, and behind them those of
// the encoder. A slice may be used by one thread at a time.
class StateExchanges {
 public:
  struct Options {
    WorkerExchanges* exchanges = nullptr;       // Required; outlives this object, like all here
    const ParameterBuffers* buffers = nullptr;  // Required
    GradientEncoder* encoder = nullptr;         // Required
    OwnState* own_state = nullptr;              // of the engine; null: it has none
    // The step after the last one, in jobs that may write checkpoints. None: there is none.
    std::optional<Step> last_pull_step;
  };

  explicit StateExchanges(const Options& options);

  // Pulls the own state of all tables.
  void PullOwnState();
  // Sends the table's values as the initial ones.
  void PushInitial(TableId table);

  // The cut for which the server is to have the slice's own state; 0: none. A cut is returned once.
  // `reply` answers a pull at `pull_step`, without an error.
  uint64_t TakeCut(SliceKey key, Step pull_step, const ExchangeReply& reply);
  // Sends the slice's own state. The slice has an open exchange, and the answer closes it. If there
  // is no memory for the state, all waits end.
  void SendOwnState(SliceKey key, uint64_t cut);

 private:
  // Number of arrays of own state: the engine's, and the encoder's.
  uint32_t OwnArrays(TableId table) const;
  absl::StatusOr<Payload> OwnStateOf(SliceKey key);
  absl::Status LoadOwnState(SliceKey key, const Payload& state);
  // Opens an exchange for each slice of the table, and submits the purpose that `make` returns.
  void SubmitForSlices(TableId table,
                       absl::FunctionRef<decltype(ExchangeRequest::purpose)(SliceKey)> make);
  // Submits an exchange that is open.
  void Submit(SliceKey key, decltype(ExchangeRequest::purpose) purpose);
  void OnReply(SliceKey key, bool is_pull, const ExchangeReply& reply);

  const Options options_;
  WorkerExchanges& exchanges_;
  const ParameterBuffers& buffers_;
  // By table and slice: the latest cut for which own state was sent. Guarded like values.
  std::vector<std::vector<uint64_t>> cuts_;
};

}  // namespace capstan

#endif  // WORKER_CLIENT_STATE_EXCHANGES_H_
