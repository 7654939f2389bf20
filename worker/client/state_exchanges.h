#ifndef WORKER_CLIENT_STATE_EXCHANGES_H_
#define WORKER_CLIENT_STATE_EXCHANGES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/tensor/slicing.h"
#include "worker/client/gradient_encoder.h"
#include "worker/client/own_state.h"
#include "worker/client/parameter_buffers.h"
#include "worker/client/worker_exchanges.h"

namespace capstan {

// An array of a table's optimizer's state, while it is pulled.
struct OptimizerArray {
  std::vector<float> values;
  std::atomic<uint64_t> steps{0};  // the largest number that the optimizer of a slice has counted
  std::atomic<bool> is_missing{false};  // of a table that replies the mean: a server has none
};

// The exchanges of a worker beside its steps: its own state, for checkpoints and from them, initial
// values, and the optimizer's state. The own state of a slice has the arrays of the engine, and
// behind them those of the encoder. A slice may be used by one thread at a time.
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
  // Pulls an array of the table's optimizer's state into `to`, which is as long as the table.
  void PullOptimizerState(TableId table, uint32_t array, const std::shared_ptr<OptimizerArray>& to);
  // Sends one, as long as the table, and the number of updates that the optimizer is to count so
  // far.
  void PushOptimizerState(TableId table, uint32_t array, uint64_t steps,
                          const std::shared_ptr<const std::vector<float>>& values);

  // The number of slices whose servers wait for the table's state. Those of a table may be asked
  // for while no exchange of its layer is open. Only worker 0 has any.
  int64_t due_table_states() const { return due_table_states_; }
  bool IsTableStateDue(TableId table) const;
  // Notes what a reply to a pull says of it.
  void NoteTableCut(SliceKey key, const ExchangeReply& reply);
  // Sends the table's state, where a server waits for it, or everywhere if it is the last one: its
  // parameters, then arrays of the optimizer's state, each as long as the table.
  void PushTableState(TableId table, bool is_last,
                      const std::shared_ptr<const std::vector<std::vector<float>>>& arrays);

  // The cut for which the server is to have the slice's own state; 0: none. A cut is returned once.
  // `reply` answers a pull at `pull_step`, without an error.
  uint64_t TakeCut(SliceKey key, Step pull_step, const ExchangeReply& reply);
  // Sends the own state of all tables, as far as the last pull has not: the worker has ended before
  // the step after which it was to be the last one. Nothing is open.
  void PushLastOwnState();
  // Sends the slice's own state. The slice has an open exchange, and the answer closes it. If there
  // is no memory for the state, all waits end.
  void SendOwnState(SliceKey key, uint64_t cut);

 private:
  // Takes what has come with a reply. Returns its error, or OK in spite of one.
  using Taker = std::function<absl::Status(SliceKey key, const ExchangeReply& reply)>;

  // The slice's part of an array that is as long as its table.
  template <typename T>
  absl::Span<T> PartOf(SliceKey key, absl::Span<T> table) const {
    const SliceRange range = buffers_.table(key.table).slicing.Range(key.slice);
    return table.subspan(range.offset, range.size);
  }
  // Number of arrays of own state: the engine's, and the encoder's.
  uint32_t OwnArrays(TableId table) const;
  absl::StatusOr<Payload> OwnStateOf(SliceKey key);
  absl::Status LoadOwnState(SliceKey key, const Payload& state);
  // Opens an exchange for each slice of the table, and submits the purpose that `make` returns.
  void SubmitForSlices(TableId table,
                       absl::FunctionRef<decltype(ExchangeRequest::purpose)(SliceKey)> make,
                       const Taker& take = nullptr);
  // Opens an exchange, and submits it.
  void OpenAndSubmit(SliceKey key, decltype(ExchangeRequest::purpose) purpose, Taker take);
  // Submits an exchange that is open. `take` may be null.
  void Submit(SliceKey key, decltype(ExchangeRequest::purpose) purpose, Taker take = nullptr);
  void OnReply(SliceKey key, const Taker& take, const ExchangeReply& reply);

  const Options options_;
  WorkerExchanges& exchanges_;
  const ParameterBuffers& buffers_;
  // By table and slice: the latest cut for which own state was sent. Guarded like values.
  std::vector<std::vector<uint64_t>> cuts_;
  // The same of tables that reply the mean, for worker 0.
  struct TableCut {
    uint64_t latest = 0;
    bool is_due = false;  // the server waits for the slice's part of the table's state
  };
  mutable Mutex mu_;
  std::vector<std::vector<TableCut>> table_cuts_ ABSL_GUARDED_BY(mu_);
  std::atomic<int64_t> due_table_states_{0};
};

}  // namespace capstan

#endif  // WORKER_CLIENT_STATE_EXCHANGES_H_
