#ifndef WORKER_CLIENT_PARAMETER_STORE_H_
#define WORKER_CLIENT_PARAMETER_STORE_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/codec/table_codecs.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/rates.h"
#include "common/scheduler/scheduler.h"
#include "common/trace/exchange_trace.h"
#include "common/trace/tracer.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/encode_queue.h"
#include "worker/client/gradient_encoder.h"
#include "worker/client/own_state.h"
#include "worker/client/parameter_buffers.h"
#include "worker/client/parameter_mirror.h"
#include "worker/client/row_store.h"
#include "worker/client/state_exchanges.h"
#include "worker/client/store_traffic.h"
#include "worker/client/worker_exchanges.h"

namespace capstan {

// Exchanges a worker's parameters with the servers, layer by layer. Hands the exchanges of each
// slice to the scheduler, puts the replies in place, and lets others wait for a layer. Thread-safe.
// But a layer's values and gradients may be touched only while no exchange of the layer is open.
class ParameterStore {
 public:
  struct Options {
    Clock* clock = nullptr;               // Required; outlives the store
    ParameterEndpoint* client = nullptr;  // Required; answers every exchange before the store ends
    Scheduler* scheduler = nullptr;       // Required; outlives the store's exchanges
    Sender sender;                        // Required: the worker, as in all its requests
    std::vector<v1::TableSpec> tables;    // Required: all of the job, in order of table id
    std::vector<TableCodecs> codecs;      // of each table; empty: float32 for all
    uint64_t seed = 0;                    // the job's; of the codecs' draws
    uint32_t num_workers = 1;             // of the job
    double learning_rate = 1;             // of the job: of tables without an optimizer of their own
    uint64_t slice_bytes = 0;             // Required
    uint32_t shard_count = 0;             // of the job; required for sparse tables
    uint64_t partition_bytes = 0;         // as SetPartition says
    // The scheduler's: gradients are encoded in the same order.
    v1::SchedulerSpec::Policy policy = v1::SchedulerSpec::PRIORITY;
    // Outlives the store's exchanges. Null: the device computes on the store's own memory.
    ParameterMirror* mirror = nullptr;
    Tracer* tracer = nullptr;  // outlives the store's exchanges; null: nothing is traced
    // The engine's own state. Outlives the store's exchanges. Null: it has none. The residuals of
    // lossy codecs come in addition.
    OwnState* own_state = nullptr;
    bool has_program_state = false;  // the worker's program may have one, as WorkerState says
    // The step after the last one, in jobs that may write checkpoints: the own state is then sent
    // unasked, since no later answer would ask for it. None: it is not.
    std::optional<Step> last_pull_step;
  };
  using Traffic = StoreTraffic;
  using Taker = absl::AnyInvocable<absl::Status(const ExchangeReply&)>;

  // RESOURCE_EXHAUSTED if there is not enough memory.
  static absl::StatusOr<std::unique_ptr<ParameterStore>> Create(const Options& options);

  // One span for each table. A device that decodes values has those of lossy codecs, and these are
  // stale until PullAllExactly.
  absl::Span<const absl::Span<const float>> values() const { return buffers_->values(); }
  absl::Span<const absl::Span<float>> gradients() const { return buffers_->gradients(); }
  // The rows of sparse tables. They are exchanged apart from the layers. Null: all tables are
  // dense.
  RowStore* rows() { return rows_.get(); }
  // Keeps the memory of values and gradients, also when the store has ended.
  std::shared_ptr<const void> memory() const { return buffers_; }

  // Pulls the own state in the checkpoint from which the job goes on, and the program's; WaitForAll
  // waits for it. Only before everything else. Without own state it does nothing.
  void PullOwnState();
  // Sends the own state of a worker that ends before Options::last_pull_step, as StateExchanges
  // says; WaitForAll waits for it.
  void PushLastOwnState() { states_.PushLastOwnState(); }
  // What the checkpoint has of the program, once it was pulled; only one call gets it.
  Payload TakeRestoredProgramState() {
    Payload taken = restored_program_state_;
    restored_program_state_.Clear();
    return taken;
  }
  // Replies tell of cuts. This is the latest one that waits for the program's state.
  uint64_t program_cut() const { return program_cut_; }
  // Sends the program's state for this cut, as WorkerState says. `take` as in Send.
  void SendProgramState(uint64_t cut, Payload state, Taker take);
  // Memory of the table's values before the first pull, for PushInitial.
  absl::Span<float> InitialValuesOf(TableId table) const { return buffers_->MutableValues(table); }
  // Sends the table's values as the initial ones: only worker 0, in tables with
  // initial_from_worker. WaitForAll waits for the answers. Before it has returned, nobody may
  // change the values, or pull.
  void PushInitial(TableId table) { states_.PushInitial(table); }

  // Pulls and sends the optimizer's state of a dense table, as StateExchanges says. WaitForLayer
  // waits for it.
  void PullOptimizerState(TableId table, uint32_t array,
                          const std::shared_ptr<OptimizerArray>& to) {
    states_.PullOptimizerState(table, array, to);
  }
  void PushOptimizerState(TableId table, uint32_t array, uint64_t steps,
                          const std::shared_ptr<const std::vector<float>>& values) {
    states_.PushOptimizerState(table, array, steps, values);
  }

  // The same of the table's state, of a table that replies the mean. WaitForLayer waits for it.
  int64_t due_table_states() const { return states_.due_table_states(); }
  bool IsTableStateDue(TableId table) const { return states_.IsTableStateDue(table); }
  void PushTableState(TableId table, bool is_last,
                      const std::shared_ptr<const std::vector<std::vector<float>>>& arrays) {
    states_.PushTableState(table, is_last, arrays);
  }

  // The number of updates in the table's values, while no exchange of its layer is open.
  uint64_t UpdatesOf(TableId table) const { return buffers_->VersionOf({table, SliceIndex(0)}); }

  // The worker, as in all its requests.
  const Sender& sender() const { return exchanges_.sender(); }

  // Sends the worker's part of a collective operation. `take` gets the answer, and returns the
  // error that ends all waits, or OK. WaitForCollectives returns after it.
  void Send(Collective part, Taker take);
  // Blocks until all sent parts are answered, for `limit` at most. False: one is not.
  absl::StatusOr<bool> WaitForCollectives(absl::Duration limit) {
    return exchanges_.WaitFor(exchanges_.collectives(), limit);
  }

  // Pulls all layers at `step`, in the codecs of the tables or as float32.
  void PullAll(Step step) { PullAll(step, /*is_exact=*/false); }
  void PullAllExactly(Step step) { PullAll(step, /*is_exact=*/true); }
  // Pushes the layer's gradients of `step`, and pulls the layer at the next step. Without a mirror,
  // gradients are encoded after the call, on the clock's thread, and each is sent then.
  void PushPull(int layer, Step step);
  // As PushPull, of a layer without a gradient in this step. What lossy codecs have left out of
  // earlier pushes goes with the next gradient.
  void PushNothing(int layer, Step step);
  // PushPull in two calls, for gradients on their way into the store. After Open, WaitForLayer
  // waits. PushOpened then pushes and pulls. Each PushOpened follows its Open.
  void Open(int layer);
  void PushOpened(int layer, Step step);

  // The pushes of the table, dense or sparse, have this learning rate from now on instead of its
  // optimizer's. Finite, 0 or more. Pushes that wait or are sent again keep theirs.
  void SetLearningRate(TableId table, double learning_rate) {
    exchanges_.SetLearningRate(table, learning_rate);
  }
  void SetMomentum(TableId table, double momentum) { exchanges_.SetMomentum(table, momentum); }

  // From the next push on, a transfer holds consecutive slices of one table: at most
  // `partition_bytes` of them, or one slice if a slice is larger.
  void SetPartition(uint64_t partition_bytes);

  // The auto codecs of these tables encode pushes and pulls of this step and later ones, except
  // pulls that have begun. Called at most once, before the first push of `step`.
  void UseAutoCodecs(Step step, absl::Span<const TableId> tables) {
    for (const TableId table : tables) {
      if (table.value() < auto_tables_.size()) auto_tables_[table.value()] = true;
    }
    auto_codecs_from_ = step;
  }
  // Whether the table's push of `step` is encoded. Otherwise it is the gradient in this store.
  bool Encodes(TableId table, Step step) const;

  // Blocks until no exchange of the layer is open. A server whose slice was cut for a checkpoint
  // has the worker's own state of the slice by then. The first error of any exchange ends all
  // waits.
  absl::Status WaitForLayer(int layer) {
    return WaitForLayerFor(layer, absl::InfiniteDuration()).status();
  }
  // The same, for `limit` at most. False: an exchange is still open.
  absl::StatusOr<bool> WaitForLayerFor(int layer, absl::Duration limit) {
    return exchanges_.WaitFor(layer, limit);
  }
  // All layers, all rows, and collective operations.
  absl::Status WaitForAll() { return exchanges_.WaitForAll(); }
  // Ends all waits with `status`, now and later, unless an exchange failed before.
  void Fail(const absl::Status& status) { exchanges_.Fail(status); }
  // Drops gradients that wait to be encoded, now and later; their layers stay open. Comes before
  // the client and the scheduler end.
  void CancelPushes() { encode_queue_.Stop(); }

  Traffic traffic() const { return exchanges_.traffic().traffic(); }
  // Traffic::waiting, with a wait that goes on, and Traffic::sending. Cheap.
  struct Times {
    absl::Duration waiting;
    absl::Duration sending;
  };
  Times times() const { return {exchanges_.waiting(), exchanges_.traffic().sending()}; }

 private:
  ParameterStore(const Options& options, std::unique_ptr<ParameterBuffers> buffers,
                 std::unique_ptr<GradientEncoder> encoder);

  // What the exchange of a slice is for, and its codecs.
  struct Purpose {
    std::optional<Step> push_step;
    Step pull_step;
    bool is_exact = false;  // values as float32
    // With push_step:
    bool is_empty = false;  // without a gradient
    Rates rates = {};
    // Without them, gradients and values travel as they are. ChooseCodecs sets them.
    bool encodes_push = false;
    bool encodes_pull = false;

    bool has_gradient() const { return push_step.has_value() && !is_empty; }
  };
  // Consecutive slices of a table, which are one transfer.
  struct Slice {
    SliceKey key;
    ExchangeTrace trace;
    Payload gradient;  // its bytes as they are sent
  };
  struct SliceGroup {
    TableId table;
    Purpose purpose;
    std::vector<Slice> slices;
  };

  void PullAll(Step step, bool is_exact);
  // Pushes the opened layer.
  void Push(int layer, Step step, bool is_empty);
  bool UsesAutoCodec(TableId table, Step step) const {
    return step >= auto_codecs_from_.load() && auto_tables_[table.value()];
  }
  void ChooseCodecs(TableId table, Purpose& purpose) const;
  // Sends an exchange that is counted with collective operations.
  void SendBeside(SliceKey slice, decltype(ExchangeRequest::purpose) purpose, Taker take);
  CodecType PushCodec(TableId table, const Purpose& purpose) const {
    return purpose.encodes_push ? encoder_->type(table) : CodecType::kFloat32;
  }
  void SubmitTable(TableId table, Purpose purpose);
  // Encodes their gradients first, if the push is encoded.
  void SubmitSlices(SliceGroup group);
  // The bytes of the slice's push.
  absl::StatusOr<Payload> EncodeGradient(SliceKey key, Step step);
  // `gradient` is empty without a push, or in an empty one.
  void SendSlice(SliceKey key, const Purpose& purpose, Payload gradient, const ExchangeTrace& trace,
                 absl::AnyInvocable<void()> delivered);
  void OnReply(SliceKey key, const Purpose& purpose, uint64_t bytes_pushed,
               const ExchangeReply& reply, const ExchangeTrace& trace);
  // Also ends the trace.
  absl::Status TakeValues(SliceKey key, const Purpose& purpose, const ExchangeReply& reply,
                          const ExchangeTrace& trace);
  void CountTraffic(SliceKey key, const Purpose& purpose, uint64_t bytes_pushed,
                    const ExchangeReply& reply);
  // Begins an exchange's trace, with a "queue". Does nothing without a tracer.
  ExchangeTrace Trace(SliceKey key, const Purpose& purpose) const;

  const uint64_t slice_bytes_;
  const std::optional<SliceKey> program_slice_;  // has the program's state; none: there is none
  ParameterMirror* const mirror_;
  Tracer* const tracer_;
  const std::shared_ptr<ParameterBuffers> buffers_;
  const std::unique_ptr<GradientEncoder> encoder_;
  WorkerExchanges exchanges_;  // of dense tables, by layer, and of rows
  StateExchanges states_;
  std::unique_ptr<RowStore> rows_;  // null: there is no sparse table

  std::atomic<uint64_t> slices_together_{1};  // in one transfer
  // By table: it has an auto codec that was chosen. Read only once auto_codecs_from_ is set.
  std::vector<bool> auto_tables_;
  std::atomic<Step> auto_codecs_from_{Step(std::numeric_limits<int64_t>::max())};

  Payload restored_program_state_;  // written before WaitForAll returns
  std::atomic<uint64_t> program_cut_{0};

  // By layer: slices of open exchanges without their values yet.
  std::vector<std::atomic<int64_t>> awaited_slices_;

  EncodeQueue encode_queue_;  // uses the above until it is stopped
};

}  // namespace capstan

#endif  // WORKER_CLIENT_PARAMETER_STORE_H_
