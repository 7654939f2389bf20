#ifndef SERVER_SHARD_SHARD_HOST_H_
#define SERVER_SHARD_SHARD_HOST_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/optimizer/optimizer.h"
#include "common/routing/placement.h"
#include "common/tensor/buffer_pool.h"
#include "common/tensor/slicing.h"
#include "server/consistency/update_scale.h"
#include "server/shard/shard.h"
#include "server/shard/shard_backup.h"
#include "server/slice/dense_slice.h"
#include "server/slice/shard_counts.h"
#include "server/slice/slice.h"
#include "server/slice/slice_state.h"
#include "server/slice/worker_copies.h"
#include "server/sparse/row_optimizer.h"

namespace capstan {

// The shards of one server. Answers the exchanges of the job's live workers. An exchange is parked
// until its reply is due; no thread waits for it. Thread-safe.
class ShardHost : public ParameterEndpoint {
 public:
  // What only a sparse table has.
  struct SparseTable {
    std::shared_ptr<const RowOptimizer> optimizer;  // Required
    // As SparseRows::Options, for the rows of all shards.
    int admitting_push = 1;
    std::optional<int64_t> max_idle_steps;
    std::optional<uint64_t> max_rows;
  };
  struct Table {
    std::string name;
    uint64_t elements = 0;  // 0: of a sparse table
    double initial_stddev = 0;
    TableCodecs codecs;
    std::shared_ptr<const Optimizer> optimizer = nullptr;  // null: Options::optimizer
    bool replies_mean = false;                             // the program runs the optimizer
    // Worker 0 sends the initial values, unless a Source has them. initial_stddev is not used.
    bool initial_from_worker = false;
    std::optional<SparseTable> sparse = std::nullopt;  // none: the table is dense
  };
  struct Options {
    uint64_t job = 0;           // Required: the job's fingerprint
    uint64_t seed = 0;          // of the initial values
    std::vector<Table> tables;  // Required: of the whole job, in order of table id
    uint64_t slice_bytes = 0;   // Required
    uint32_t shard_count = 0;   // Required
    UpdateScale update_scale = UpdateScale::kStaleness;
    bool check_finite = true;
    uint32_t own_arrays = 0;       // of each worker's engine; residuals of codecs come in addition
    bool keeps_open_step = false;  // as in DenseSlice::Options
    int64_t steps_until_held_back = 2;  // as in Slice::Options
    // The workers are programs. Those that can be replaced tell the end of each step before the
    // first push of the next (CollectiveType::kEndOfStep): until then they may have operations left
    // in it.
    bool has_programs = false;
    // Bound of the memory for what single workers have, where pulls get differences.
    uint64_t reply_state_bytes = 0;
    // Bound of the memory for keys of pulls, which the pushes of their steps name by a hash.
    uint64_t pulled_key_bytes = uint64_t{64} << 20;
    std::unique_ptr<Optimizer> optimizer;  // Required for dense tables without their own
    TableSchedules schedules;              // Required
    std::vector<ShardId> shards;           // the ones on this server
    std::vector<ShardId> backups;          // those of which it has the copy
    Incarnation incarnation;               // of this server, for copies
    Epoch epoch;                           // of the first routing table with `shards`
    const Clock* clock = nullptr;  // measures exchanges, and outlives the host; null: nothing does
    Shard::Interruption interruption;  // optional, for simulations
  };
  using Worker = Shard::Worker;
  // Fills the initial values of a slice of a dense table, which begins at the table's element
  // `offset`. It may also give the slice its optimizer's state.
  using InitialSource =
      std::function<absl::Status(TableId table, uint64_t offset, SliceState::Memory& memory)>;

  // Where shards come from. Both null: their values are random, or come from worker 0.
  struct Source {
    InitialSource initial;
    // Returns the snapshot of a shard of the same job; it goes on from there.
    std::function<absl::StatusOr<ShardSnapshot>(ShardId shard)> restored;
  };

  // Creates the shards; nobody is a member yet. RESOURCE_EXHAUSTED when there is not enough memory
  // for them. INVALID_ARGUMENT when a restored shard does not have the slices of the job. Or an
  // error of `source`.
  static absl::StatusOr<std::unique_ptr<ShardHost>> Create(Options options,
                                                           const Source& source = {});
  ~ShardHost() override;

  // `workers` are all live workers of the job, and the lost ones whose places are held: these count
  // as live, but their exchanges are not admitted. A new worker enters each slice at the slice's
  // min_step, or at the worker's first step if this is later. A missing worker is removed. When
  // this returns, exchanges of other incarnations are no longer admitted, and parked ones are
  // answered.
  void SetLiveWorkers(absl::Span<const Worker> workers);

  // There is a newer routing table. Exchanges with it are admitted, and with those before. Shards
  // that are new here were taken over before.
  void SetEpoch(Epoch epoch);

  // The copy of another server's shard becomes the shard: this server is its primary from `epoch`
  // on, with these members and schedules. A shard without slices needs no copy. DATA_LOSS: the copy
  // is not whole.
  absl::Status TakeOver(ShardId shard, Epoch epoch, absl::Span<const Worker> workers,
                        const TableSchedules& schedules);

  // The first step without an update of this live worker in any slice. For a new worker, the result
  // stays true until its first push: no slice moves past the worker's place in it.
  Step NextStep(WorkerId worker);

  // The first step of which some slice lacks the worker's update; kLargestStep if there is no
  // slice. From here on a process does the steps of the lost worker whose place it takes: no slice
  // is more than one step ahead.
  Step OpenStep(WorkerId worker);

  // Replaces each table's schedule and ends the holding back. Old and new schedules may differ only
  // from HoldBack's step on.
  void SetSchedules(const TableSchedules& schedules);

  // Until SetSchedules, no exchange of the returned step or a later one is admitted. None was
  // admitted before. Repeated calls return the same step until then.
  Step HoldBack();

  // Takes the snapshot of each shard as Shard::CutAt, and ends the holding back. `step` is
  // HoldBack's or a later one. Calls `on_cut` for each shard, on any threads.
  void CutAt(Step step, const std::function<void(ShardSnapshot)>& on_cut);
  // A shard here has its copy there. It is made from now on, but not many at a time for one link:
  // changes of shards whose copies are whole wait behind their bytes. Without copies no reply
  // waits.
  void BeginCopy(ShardId shard, const CopyTarget& target);
  // As Shard::EndCopy.
  void EndCopy(ShardId shard, uint64_t number);
  // The copy of another server's shard, of this number, is made here.
  void ExpectCopy(ShardId shard, uint64_t number);
  // It is made elsewhere. What there is here of an earlier one is dropped.
  void DropCopy(ShardId shard, uint64_t number);
  // As ShardBackup::Take. More errors: FAILED_PRECONDITION: it is for another life of this server,
  // or the shard has no copy here.
  ExchangeReply TakeRecord(const ExchangeRequest& request);
  // How far the copies of the shards here are.
  std::vector<std::pair<ShardId, CopyProgress>> copies() const;
  // Those whose primary this server is.
  std::vector<ShardId> shards() const;
  bool is_primary(ShardId id) const { return shard(id) != nullptr; }
  // For simulations; null: it is not here.
  const Shard* shard(ShardId id) const { return shard_of_id_[id.value()]; }
  const ShardBackup* backup(ShardId id) const;

  // Calls `done` once the copies of all shards here have all changes so far, as far as replies wait
  // for them; on any thread, maybe before it returns. Not after End.
  void AfterCopies(std::function<void()> done);

  // Answers all that waits with `status`, and from now on what would be answered OK.
  void End(const absl::Status& status);

  // Number of shards here that have slices.
  size_t filled_shards() const;

  // Errors besides those of Slice::Exchange: INVALID_ARGUMENT: unknown table or slice; a step
  // without push and pull; negative step; learning rate that is not a float32 of 0 or more; rows
  // that do not fit the gradient or the pull; initial values of another worker than 0, or of a
  // table that has others; a state of cut 0; a collective operation at another slice than the
  // first; a probe. FAILED_PRECONDITION: other job, worker not live, stale incarnation, stale epoch
  // (the reply has the current one). UNAVAILABLE: this server does not know the epoch yet, or the
  // worker's first step.
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

  // Calls `use` with each slice of a dense table here, and with the table's element at which it
  // begins. Ends at the first error. The slices of a shard are of one moment. Exchanges go on
  // meanwhile.
  absl::Status ReadSlices(
      absl::FunctionRef<absl::Status(uint64_t offset, const SliceSnapshot& slice)> use);

  // The rows of these keys of a sparse table as they are now, in the order of the keys; that of a
  // key without one is empty. `done` runs once, on any thread. INVALID_ARGUMENT: there is no sparse
  // table of this name. FAILED_PRECONDITION: the shard of a key is not here. UNAVAILABLE: the host
  // has ended, or too many other rows wait for copies.
  void ReadRows(absl::string_view table, absl::Span<const uint64_t> keys, Shard::ReadCallback done);

  // Number of pushes refused for a NaN or an infinity, by worker.
  std::map<WorkerId, int64_t> non_finite_pushes() const { return non_finite_pushes_.counts(); }

  // The sum over the shards. Each is locked for a moment.
  ShardCounts counts() const;
  // ShardCounts::exchanges alone. Cheap.
  int64_t num_exchanges() const;

 private:
  explicit ShardHost(Options options);
  absl::Status Check(const ExchangeRequest& request) const;
  // INVALID_ARGUMENT: the table or slice is unknown.
  absl::Status CheckSlice(SliceKey key) const;
  std::string SliceName(SliceKey key) const;
  // Null: the program runs it.
  const Optimizer* OptimizerOf(TableId table) const;
  // Number of arrays of a worker's own state: the engine's, and a residual.
  uint32_t OwnArrays(TableId table) const;
  absl::Status AddShard(ShardId id, const Source& source);
  std::unique_ptr<Shard> NewShard(Epoch primary_since) const;
  // From now on exchanges reach it.
  void Open(ShardId id, std::unique_ptr<Shard> shard);
  struct ShardHere {
    ShardId id;
    Shard* shard;
  };
  std::vector<ShardHere> ShardsHere() const;
  // Null: there is none.
  ShardBackup* FindBackup(ShardId id) const;
  std::unique_ptr<ShardBackup> NewBackup(ShardId id);
  // Begins with the next copies, if there are any and not too many are being made.
  void MakeCopies();
  // The options that dense and sparse slices share.
  Slice::Options SliceOptions(SliceKey key);
  // The slice's memory is not set yet.
  DenseSlice::Options DenseOptions(SliceKey key);
  absl::StatusOr<std::unique_ptr<Slice>> MakeSparseSlice(SliceKey key);
  // A slice that has its initial values, or awaits them.
  absl::StatusOr<std::unique_ptr<Slice>> MakeSlice(SliceKey key, const InitialSource& initial);
  DrawKey PullDraws(SliceKey key) const;
  bool IsSparse(TableId table) const { return options_.tables[table.value()].sparse.has_value(); }
  absl::Status InitializeSlices(ShardId id, const InitialSource& initial, Shard& shard);
  // INVALID_ARGUMENT, with both sides, unless this dense slice can go on as `slice` did.
  absl::Status CheckFits(SliceKey key, const SliceSnapshot& slice) const;
  absl::Status RestoreSlices(ShardId id, ShardSnapshot snapshot, Shard& shard);
  // A slice that goes on as the snapshot says, but for its Restore.
  absl::StatusOr<std::unique_ptr<Slice>> MakeSliceOf(SliceSnapshot& slice);

  const Options options_;  // with the initial schedules
  std::atomic<Epoch> epoch_;
  ReplyStateBudget reply_state_;
  ReplyStateBudget pulled_keys_;
  std::vector<Slicing> slicings_;  // of each table; empty of a sparse one
  TableId first_dense_table_;      // behind the last one if there is none
  ShardMap shard_map_;
  WorkerCounter non_finite_pushes_;
  BufferPool record_memory_;  // of changes for copies

  // Once here, both stay to the end.
  mutable Mutex shards_mu_;
  std::map<ShardId, std::unique_ptr<Shard>> shards_ ABSL_GUARDED_BY(shards_mu_);
  std::map<ShardId, std::unique_ptr<ShardBackup>> backups_ ABSL_GUARDED_BY(shards_mu_);
  std::vector<std::atomic<Shard*>> shard_of_id_;  // null: this server is not its primary

  Mutex membership_mu_;  // serialises changes of the membership

  mutable Mutex copies_mu_;
  std::map<ShardId, CopyTarget> waiting_copies_ ABSL_GUARDED_BY(copies_mu_);  // still to be made
  std::map<ReplicaLink*, int> copies_being_made_ ABSL_GUARDED_BY(copies_mu_);
};

}  // namespace capstan

#endif  // SERVER_SHARD_SHARD_HOST_H_
