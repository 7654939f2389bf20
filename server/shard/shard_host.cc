#include "server/shard/shard_host.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/routing/key_shard.h"
#include "common/tensor/host_buffer.h"
#include "server/shard/check_request.h"
#include "server/slice/slice_state.h"
#include "server/slice/slice_values.h"
#include "server/slice/sparse_slice.h"

namespace capstan {
namespace {

// Takes the place of the worker in draws for values: no worker has this id.
constexpr WorkerId kServerDraws(std::numeric_limits<uint32_t>::max());

// A shard has at least this number of counters in each row of its sketch of pushes.
constexpr size_t kLeastSketchWidth = size_t{1} << 14;

std::vector<uint64_t> ElementCounts(absl::Span<const ShardHost::Table> tables) {
  std::vector<uint64_t> counts;
  for (const ShardHost::Table& table : tables) counts.push_back(table.elements);
  return counts;
}

}  // namespace

ShardHost::ShardHost(Options options)
    : options_(std::move(options)),
      epoch_(options_.epoch),
      reply_state_(options_.reply_state_bytes),
      pulled_keys_(options_.pulled_key_bytes),
      shard_map_(ElementCounts(options_.tables), options_.slice_bytes, options_.shard_count),
      shard_of_id_(options_.shard_count) {
  for (const Table& table : options_.tables) {
    slicings_.emplace_back(table.elements, options_.slice_bytes);
  }
  while (first_dense_table_.value() < slicings_.size() && IsSparse(first_dense_table_)) {
    first_dense_table_ = TableId(first_dense_table_.value() + 1);
  }
}

absl::StatusOr<std::unique_ptr<ShardHost>> ShardHost::Create(Options options,
                                                             const Source& source) {
  std::unique_ptr<ShardHost> host(new ShardHost(std::move(options)));
  for (const ShardId shard : host->options_.shards) RETURN_IF_ERROR(host->AddShard(shard, source));
  for (const ShardId shard : host->options_.backups) host->ExpectCopy(shard, /*number=*/0);
  return host;
}

ShardHost::~ShardHost() { End(absl::UnavailableError("the server is shutting down")); }

absl::Status ShardHost::AddShard(ShardId id, const Source& source) {
  std::unique_ptr<Shard> shard = NewShard(options_.epoch);
  if (source.restored == nullptr || shard_map_.SlicesOf(id).empty()) {
    RETURN_IF_ERROR(InitializeSlices(id, source.initial, *shard));
  } else {
    ASSIGN_OR_RETURN(ShardSnapshot snapshot, source.restored(id));
    RETURN_IF_ERROR(RestoreSlices(id, std::move(snapshot), *shard));
  }
  Open(id, std::move(shard));
  return absl::OkStatus();
}

std::unique_ptr<Shard> ShardHost::NewShard(Epoch primary_since) const {
  return std::make_unique<Shard>(primary_since, options_.interruption, options_.clock,
                                 options_.has_programs);
}

void ShardHost::Open(ShardId id, std::unique_ptr<Shard> shard) {
  shard_of_id_[id.value()] = shard.get();
  MutexLock lock(&shards_mu_);
  shards_[id] = std::move(shard);
}

std::vector<ShardHost::ShardHere> ShardHost::ShardsHere() const {
  MutexLock lock(&shards_mu_);
  std::vector<ShardHere> here;
  here.reserve(shards_.size());
  for (const auto& [id, shard] : shards_) here.push_back({id, shard.get()});
  return here;
}

std::vector<ShardId> ShardHost::shards() const {
  std::vector<ShardId> ids;
  for (const auto& [id, shard] : ShardsHere()) ids.push_back(id);
  return ids;
}

absl::Status ShardHost::TakeOver(ShardId id, Epoch epoch, absl::Span<const Worker> workers,
                                 const TableSchedules& schedules) {
  std::unique_ptr<Shard> shard = NewShard(epoch);
  if (!shard_map_.SlicesOf(id).empty()) {
    ShardBackup* const copy = FindBackup(id);
    absl::StatusOr<ShardContents> contents = absl::DataLossError("the copy is not here");
    if (copy != nullptr) contents = copy->TakeOver();
    RETURN_IF_ERROR(Annotate(contents.status(), absl::StrCat("shard ", id.value())));
    shard->TakeOver(*std::move(contents));
  }
  shard->SetSchedules(schedules);
  shard->SetLiveWorkers(workers);
  Open(id, std::move(shard));
  return absl::OkStatus();
}

const Optimizer* ShardHost::OptimizerOf(TableId id) const {
  const Table& table = options_.tables[id.value()];
  if (table.replies_mean) return nullptr;
  return table.optimizer == nullptr ? options_.optimizer.get() : table.optimizer.get();
}

uint32_t ShardHost::OwnArrays(TableId table) const {
  return options_.own_arrays + PushArrays(options_.tables[table.value()].codecs);
}

Slice::Options ShardHost::SliceOptions(SliceKey key) {
  Slice::Options slice;
  slice.name = SliceName(key);
  slice.schedule = options_.schedules.at(key.table.value());
  slice.update_scale = options_.update_scale;
  slice.check_finite = options_.check_finite;
  slice.replies_mean = options_.tables[key.table.value()].replies_mean;
  slice.steps_until_held_back = options_.steps_until_held_back;
  slice.non_finite_pushes = &non_finite_pushes_;
  return slice;
}

DrawKey ShardHost::PullDraws(SliceKey key) const {
  // The rows of a sparse table have no places in it. Draws of its slices are far apart.
  const uint64_t first = IsSparse(key.table) ? uint64_t{key.slice.value()} << 32
                                             : slicings_[key.table.value()].Range(key.slice).offset;
  return {options_.seed, key.table, kServerDraws, Step(0), first};
}

DenseSlice::Options ShardHost::DenseOptions(SliceKey key) {
  DenseSlice::Options slice;
  slice.slice = SliceOptions(key);
  slice.optimizer = OptimizerOf(key.table);
  slice.own_arrays = OwnArrays(key.table);
  slice.codecs = options_.tables[key.table.value()].codecs;
  slice.pull_draws = PullDraws(key);
  slice.reply_state = &reply_state_;
  slice.keeps_open_step = options_.keeps_open_step;
  return slice;
}

absl::StatusOr<std::unique_ptr<Slice>> ShardHost::MakeSparseSlice(SliceKey key) {
  const Table& table = options_.tables[key.table.value()];
  const SparseTable& sparse = *table.sparse;
  SparseSlice::Options slice;
  slice.slice = SliceOptions(key);
  slice.rows.seed = options_.seed;
  slice.rows.table = key.table;
  slice.rows.initial_stddev = table.initial_stddev;
  slice.rows.admitting_push = sparse.admitting_push;
  slice.rows.sketch_width =
      std::max<size_t>(slice.rows.sketch_width / options_.shard_count, kLeastSketchWidth);
  slice.rows.max_idle_steps = sparse.max_idle_steps;
  if (sparse.max_rows.has_value()) {
    slice.rows.max_rows = std::max<uint64_t>(1, *sparse.max_rows / options_.shard_count);
  }
  slice.optimizer = sparse.optimizer.get();
  slice.shard = shard_map_.ShardOf(key);
  slice.shard_count = options_.shard_count;
  slice.codecs = table.codecs;
  slice.pull_draws = PullDraws(key);
  slice.keeps_open_step = options_.keeps_open_step;
  slice.key_memory = &pulled_keys_;
  absl::StatusOr<std::unique_ptr<SparseSlice>> made = SparseSlice::Create(std::move(slice));
  if (!made.ok()) return Annotate(made.status(), absl::StrCat("table ", table.name));
  return *std::move(made);
}

absl::StatusOr<std::unique_ptr<Slice>> ShardHost::MakeSlice(SliceKey key,
                                                            const InitialSource& initial) {
  if (IsSparse(key.table)) return MakeSparseSlice(key);
  const SliceRange range = slicings_[key.table.value()].Range(key.slice);
  DenseSlice::Options slice = DenseOptions(key);
  const Table& table = options_.tables[key.table.value()];
  ASSIGN_OR_RETURN(slice.memory, SliceState::Allocate(range.size, OptimizerOf(key.table)));
  if (initial != nullptr) {
    RETURN_IF_ERROR(initial(key.table, range.offset, slice.memory));
  } else if (table.initial_from_worker) {
    slice.slice.awaits_initial = true;
  } else {
    InitializeValues(options_.seed, key.table, table.initial_stddev, range.offset,
                     slice.memory.values.span());
  }
  return std::make_unique<DenseSlice>(std::move(slice));
}

absl::Status ShardHost::InitializeSlices(ShardId id, const InitialSource& initial, Shard& shard) {
  for (const SliceKey key : shard_map_.SlicesOf(id)) {
    ASSIGN_OR_RETURN(std::unique_ptr<Slice> slice, MakeSlice(key, initial));
    RETURN_IF_ERROR(shard.AddSlice(key, std::move(slice)));
  }
  return absl::OkStatus();
}

absl::Status ShardHost::CheckFits(SliceKey key, const SliceSnapshot& slice) const {
  if (slice.key != key) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", SliceName(key), ", got ", SliceName(slice.key)));
  }
  if (IsSparse(key.table) != (slice.rows != nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat(SliceName(key), ": expected a ",
                                                   IsSparse(key.table) ? "sparse" : "dense",
                                                   " table, got the other kind"));
  }
  if (slice.rows != nullptr) return absl::OkStatus();  // Restore checks it
  const uint64_t bytes = slicings_[key.table.value()].Range(key.slice).size * sizeof(float);
  const Optimizer* const optimizer = OptimizerOf(key.table);
  // A program has as many arrays as it likes.
  const size_t arrays = optimizer == nullptr
                            ? std::min(slice.optimizer_state.size(), kMaxTableStateArrays)
                            : static_cast<size_t>(optimizer->state_count());
  const auto is_slice = [bytes](const Payload& array) { return array.size_bytes() == bytes; };
  const bool have_size =
      absl::c_all_of(slice.optimizer_state, is_slice) &&
      (!slice.copy.has_value() || is_slice(slice.copy->values)) &&
      absl::c_all_of(slice.kept, [&is_slice](const SliceSnapshot::KeptPush& push) {
        return push.is_empty || is_slice(push.gradient);
      });
  if (have_size && is_slice(slice.values) && slice.optimizer_state.size() == arrays &&
      slice.own_arrays == OwnArrays(key.table)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      SliceName(key), ": expected ", bytes, " bytes, ", arrays, " arrays of the optimizer and ",
      OwnArrays(key.table), " of a worker, got ", slice.values.size_bytes(), " bytes, ",
      slice.optimizer_state.size(), " and ", slice.own_arrays));
}

absl::StatusOr<std::unique_ptr<Slice>> ShardHost::MakeSliceOf(SliceSnapshot& slice) {
  if (IsSparse(slice.key.table)) return MakeSparseSlice(slice.key);
  DenseSlice::Options options = DenseOptions(slice.key);
  ASSIGN_OR_RETURN(options.memory, SliceState::Take(slice));
  return std::make_unique<DenseSlice>(std::move(options));
}

absl::Status ShardHost::RestoreSlices(ShardId id, ShardSnapshot snapshot, Shard& shard) {
  const absl::Span<const SliceKey> keys = shard_map_.SlicesOf(id);
  const std::string name = absl::StrCat("shard ", id.value());
  if (snapshot.slices.size() != keys.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected ", keys.size(), " slices, got ", snapshot.slices.size()));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    SliceSnapshot& slice = snapshot.slices[i];
    RETURN_IF_ERROR(Annotate(CheckFits(keys[i], slice), name));
    ASSIGN_OR_RETURN(std::unique_ptr<Slice> made, MakeSliceOf(slice));
    RETURN_IF_ERROR(shard.AddSlice(keys[i], std::move(made), &slice));
  }
  shard.RestoreWorkers(snapshot.workers);
  return absl::OkStatus();
}

void ShardHost::SetLiveWorkers(absl::Span<const Worker> workers) {
  MutexLock membership_lock(&membership_mu_);
  for (const auto& [id, shard] : ShardsHere()) shard->SetLiveWorkers(workers);
}

void ShardHost::SetEpoch(Epoch epoch) {
  epoch_ = std::max(epoch_.load(), epoch);
  for (const auto& [id, shard] : ShardsHere()) shard->SetEpoch(epoch);
}

Step ShardHost::NextStep(WorkerId worker) {
  MutexLock membership_lock(&membership_mu_);
  Step next;
  for (const auto& [id, shard] : ShardsHere()) next = std::max(next, shard->NextStep(worker));
  return next;
}

Step ShardHost::OpenStep(WorkerId worker) {
  MutexLock membership_lock(&membership_mu_);
  Step open = kLargestStep;
  for (const auto& [id, shard] : ShardsHere()) open = std::min(open, shard->OpenStep(worker));
  return open;
}

void ShardHost::SetSchedules(const TableSchedules& schedules) {
  for (const auto& [id, shard] : ShardsHere()) shard->SetSchedules(schedules);
}

Step ShardHost::HoldBack() {
  Step held_from;
  for (const auto& [id, shard] : ShardsHere()) held_from = std::max(held_from, shard->HoldBack());
  return held_from;
}

void ShardHost::CutAt(Step step, const std::function<void(ShardSnapshot)>& on_cut) {
  for (const auto& [id, shard] : ShardsHere()) {
    shard->CutAt(step, [id = id, on_cut](ShardSnapshot snapshot) {
      snapshot.shard = id;
      on_cut(std::move(snapshot));
    });
  }
}

ShardCounts ShardHost::counts() const {
  ShardCounts counts;
  for (const auto& [id, shard] : ShardsHere()) counts += shard->counts();
  std::vector<const ShardBackup*> backups;
  {
    MutexLock lock(&shards_mu_);
    for (const auto& [id, backup] : backups_) backups.push_back(backup.get());
  }
  for (const ShardBackup* const backup : backups) counts.memory += backup->memory();
  return counts;
}

int64_t ShardHost::num_exchanges() const {
  int64_t sum = 0;
  for (const auto& [id, shard] : ShardsHere()) sum += shard->num_exchanges();
  return sum;
}

size_t ShardHost::filled_shards() const {
  return absl::c_count_if(shards(),
                          [this](ShardId shard) { return !shard_map_.SlicesOf(shard).empty(); });
}

absl::Status ShardHost::ReadSlices(
    absl::FunctionRef<absl::Status(uint64_t offset, const SliceSnapshot& slice)> use) {
  for (const auto& [id, shard] : ShardsHere()) {
    const ShardSnapshot snapshot = shard->Snapshot();
    for (const SliceSnapshot& slice : snapshot.slices) {
      if (slice.rows != nullptr) continue;
      const Slicing& slicing = slicings_[slice.key.table.value()];
      RETURN_IF_ERROR(use(slicing.Range(slice.key.slice).offset, slice));
    }
  }
  return absl::OkStatus();
}

void ShardHost::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                         ReplyCallback done) {
  delivered();
  if (absl::Status status = Check(request); !status.ok()) {
    return done(ErrorReply(std::move(status), epoch_));
  }
  // In this order: shards that are new here come before their epoch.
  const Epoch epoch = epoch_;
  Shard* const shard = shard_of_id_[shard_map_.ShardOf(request.slice).value()];
  if (shard == nullptr && request.epoch > epoch) {
    return done(ErrorReply(absl::UnavailableError(
        absl::StrCat("this server has not heard of epoch ", request.epoch.value(), " yet"))));
  }
  if (shard == nullptr) {
    return done(ErrorReply(
        absl::FailedPreconditionError(absl::StrCat(
            SliceName(request.slice), " does not live on this server; it was sent with epoch ",
            request.epoch.value(), ", the current one is ", epoch.value())),
        epoch));
  }
  shard->Exchange(std::move(request), std::move(done));
}

absl::Status ShardHost::Check(const ExchangeRequest& request) const {
  if (request.sender.job != options_.job) {
    return absl::FailedPreconditionError(
        absl::StrCat("the request is of another job: expected fingerprint ", options_.job, ", got ",
                     request.sender.job));
  }
  RETURN_IF_ERROR(CheckSlice(request.slice));
  const Table& table = options_.tables[request.slice.table.value()];
  const bool has_programs = request.slice == SliceKey{first_dense_table_, SliceIndex(0)};
  const absl::Status status = CheckRequest(request, {table.initial_from_worker, has_programs});
  return status.ok() ? status : Annotate(status, SliceName(request.slice));
}

absl::Status ShardHost::CheckSlice(SliceKey key) const {
  const uint32_t table = key.table.value();
  if (table >= slicings_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown table ", table, ": expected one of 0 ... ", slicings_.size() - 1));
  }
  const uint32_t slices = shard_map_.SliceCount(key.table);
  if (key.slice.value() < slices) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("unknown slice ", key.slice.value(), " of table ",
                                                 options_.tables[table].name,
                                                 ": expected one of 0 ... ", slices - 1));
}

std::string ShardHost::SliceName(SliceKey key) const {
  return absl::StrCat("slice ", key.slice.value(), " of table ",
                      options_.tables[key.table.value()].name);
}

}  // namespace capstan
