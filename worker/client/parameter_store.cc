#include "worker/client/parameter_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/routing/job_view.h"
#include "common/scheduler/scheduler.h"

namespace capstan {

namespace {

// The first slice of the first dense table.
std::optional<SliceKey> ProgramSlice(const ParameterStore::Options& options) {
  for (uint32_t i = 0; options.has_program_state && i < options.tables.size(); ++i) {
    if (!options.tables[i].has_sparse()) return SliceKey{TableId(i), SliceIndex(0)};
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterStore>> ParameterStore::Create(const Options& options) {
  std::vector<TableCodecs> codecs = options.codecs;
  codecs.resize(options.tables.size());
  const std::vector<TableCodecs> row_codecs = codecs;
  for (size_t i = 0; i < codecs.size(); ++i) {
    if (options.tables[i].has_sparse()) codecs[i] = {};
  }
  CodecPlan plan;
  plan.draws.seed = options.seed;
  plan.draws.worker = options.sender.worker;
  plan.workers = options.num_workers;
  for (size_t i = 0; i < codecs.size(); ++i) {
    const v1::TableSpec& table = options.tables[i];
    plan.tables.push_back(
        {Slicing(ElementCount(table), options.slice_bytes), codecs[i],
         table.has_optimizer() ? table.optimizer().learning_rate() : options.learning_rate});
  }
  std::unique_ptr<GradientEncoder> encoder;
  if (options.mirror != nullptr && plan.is_lossy()) {
    ASSIGN_OR_RETURN(encoder, options.mirror->UseCodecs(plan));
  } else {
    ASSIGN_OR_RETURN(encoder, HostEncoder::Create(plan));
  }
  ASSIGN_OR_RETURN(
      std::unique_ptr<ParameterBuffers> buffers,
      ParameterBuffers::Create(options.tables, codecs, options.slice_bytes, options.mirror));
  std::unique_ptr<ParameterStore> store(
      new ParameterStore(options, std::move(buffers), std::move(encoder)));
  const auto is_sparse = [](const v1::TableSpec& table) { return table.has_sparse(); };
  if (std::any_of(options.tables.begin(), options.tables.end(), is_sparse)) {
    store->rows_ = std::make_unique<RowStore>(RowStore::Options{
        &store->exchanges_, options.tables, row_codecs, options.seed, options.shard_count});
  }
  return store;
}

ParameterStore::ParameterStore(const Options& options, std::unique_ptr<ParameterBuffers> buffers,
                               std::unique_ptr<GradientEncoder> encoder)
    : slice_bytes_(options.slice_bytes),
      program_slice_(ProgramSlice(options)),
      mirror_(options.mirror),
      tracer_(options.tracer),
      buffers_(std::move(buffers)),
      encoder_(std::move(encoder)),
      exchanges_({options.clock, options.client, options.scheduler, options.sender},
                 buffers_->layer_count(), buffers_->table_count()),
      states_(
          {&exchanges_, buffers_.get(), encoder_.get(), options.own_state, options.last_pull_step}),
      auto_tables_(buffers_->table_count()),
      awaited_slices_(buffers_->layer_count()),
      encode_queue_(options.clock, MakeTransferQueue(options.policy),
                    [this](const absl::Status& status) { Fail(status); }) {
  SetPartition(options.partition_bytes);
}

void ParameterStore::PullAll(Step step, bool is_exact) {
  const absl::Time begin = exchanges_.clock().Now();
  for (int layer = 0; layer < buffers_->layer_count(); ++layer) Open(layer);
  for (uint32_t table = 0; table < buffers_->table_count(); ++table) {
    // The first values of a table that replies the mean are its parameters.
    const bool has_parameters = buffers_->table(TableId(table)).replies_mean;
    SubmitTable(TableId(table), {std::nullopt, step, is_exact || has_parameters});
  }
  exchanges_.traffic().CountSending(exchanges_.clock().Now() - begin);
}

void ParameterStore::PullOwnState() {
  states_.PullOwnState();
  if (!program_slice_.has_value()) return;
  SendBeside(*program_slice_, WorkerStatePull{/*is_program=*/true},
             [this](const ExchangeReply& reply) {
               restored_program_state_ = reply.values;
               return reply.status;
             });
}

void ParameterStore::SendProgramState(uint64_t cut, Payload state, Taker take) {
  SendBeside(*program_slice_, WorkerState{cut, std::move(state), /*is_program=*/true},
             std::move(take));
}

void ParameterStore::Send(Collective part, Taker take) {
  SendBeside(kCollectiveSlice, std::move(part), std::move(take));
}

void ParameterStore::SendBeside(SliceKey slice, decltype(ExchangeRequest::purpose) purpose,
                                Taker take) {
  exchanges_.Open(exchanges_.collectives(), /*exchanges=*/1);
  exchanges_.client().Exchange(
      {exchanges_.sender(), Epoch(), slice, std::move(purpose)},
      /*delivered=*/[] {},
      [this, take = std::move(take)](const ExchangeReply& reply) mutable {
        exchanges_.Close(exchanges_.collectives(), take(reply));
      });
}

void ParameterStore::PushPull(int layer, Step step) {
  Open(layer);
  PushOpened(layer, step);
}

void ParameterStore::Open(int layer) {
  awaited_slices_[layer] += buffers_->slices_of_layer(layer);
  exchanges_.Open(layer, buffers_->slices_of_layer(layer));
}

void ParameterStore::SetPartition(uint64_t partition_bytes) {
  slices_together_ = std::max<uint64_t>(partition_bytes / slice_bytes_, 1);
}

void ParameterStore::PushNothing(int layer, Step step) {
  Open(layer);
  Push(layer, step, /*is_empty=*/true);
}

void ParameterStore::PushOpened(int layer, Step step) { Push(layer, step, /*is_empty=*/false); }

void ParameterStore::Push(int layer, Step step, bool is_empty) {
  const absl::Time begin = exchanges_.clock().Now();
  for (uint32_t i = 0; i < buffers_->table_count(); ++i) {
    const TableId table(i);
    if (buffers_->table(table).layer != layer) continue;
    SubmitTable(table, {step, step + 1, /*is_exact=*/false, is_empty, exchanges_.RatesOf(table)});
  }
  exchanges_.traffic().CountSending(exchanges_.clock().Now() - begin);
}

bool ParameterStore::Encodes(TableId table, Step step) const {
  return encoder_->encodes(table) && (!encoder_->is_auto(table) || UsesAutoCodec(table, step));
}

void ParameterStore::ChooseCodecs(TableId id, Purpose& purpose) const {
  purpose.encodes_push = purpose.has_gradient() && Encodes(id, *purpose.push_step);
  const ParameterBuffers::Table& table = buffers_->table(id);
  purpose.encodes_pull = !purpose.is_exact && table.pull_codec->is_lossy() &&
                         (!table.is_auto_pull || UsesAutoCodec(id, purpose.pull_step));
}

void ParameterStore::SubmitTable(TableId table, Purpose purpose) {
  ChooseCodecs(table, purpose);
  const uint32_t slice_count = buffers_->table(table).slicing.slice_count();
  // With a mirror, a device has encoded most gradients, and this is not the training thread.
  const bool is_later = purpose.encodes_push && mirror_ == nullptr;
  const auto together = static_cast<uint32_t>(std::min<uint64_t>(slices_together_, slice_count));
  for (uint32_t first = 0; first < slice_count; first += together) {
    SliceGroup group = {table, purpose, {}};
    for (uint32_t i = first; i < std::min(first + together, slice_count); ++i) {
      const SliceKey key = {table, SliceIndex(i)};
      group.slices.push_back({key, Trace(key, purpose), Payload()});
    }
    if (!is_later) {
      SubmitSlices(std::move(group));
      continue;
    }
    encode_queue_.Push(buffers_->table(table).layer, [this, group = std::move(group)]() mutable {
      SubmitSlices(std::move(group));
    });
  }
}

void ParameterStore::SubmitSlices(SliceGroup group) {
  const Purpose& purpose = group.purpose;
  const bool is_encoded = purpose.encodes_push;
  if (is_encoded && group.slices[0].key.slice == SliceIndex(0)) {
    encoder_->BeginTable(group.table, buffers_->gradients()[group.table.value()],
                         purpose.rates.learning_rate);
  }
  Transfer transfer;
  transfer.layer = buffers_->table(group.table).layer;
  for (Slice& slice : group.slices) {
    if (!purpose.has_gradient()) continue;
    if (is_encoded) slice.trace.Begin("encode");
    absl::StatusOr<Payload> gradient = is_encoded ? EncodeGradient(slice.key, *purpose.push_step)
                                                  : buffers_->GradientOf(slice.key);
    if (!gradient.ok()) return Fail(gradient.status());
    if (is_encoded) slice.trace.Begin("queue");
    slice.gradient = *std::move(gradient);
    transfer.bytes += slice.gradient.size_bytes();
  }
  transfer.start = [this, group = std::move(group)](absl::AnyInvocable<void()> credited) mutable {
    const JoinedCredit joined(static_cast<int64_t>(group.slices.size()), std::move(credited));
    for (Slice& slice : group.slices) {
      SendSlice(slice.key, group.purpose, std::move(slice.gradient), slice.trace, joined);
    }
  };
  exchanges_.scheduler().Submit(std::move(transfer));
}

absl::StatusOr<Payload> ParameterStore::EncodeGradient(SliceKey key, Step step) {
  const absl::Time begin = exchanges_.clock().Now();
  absl::StatusOr<GradientEncoder::Encoded> encoded =
      encoder_->Encode(key, step, buffers_->GradientSpanOf(key));
  const absl::Duration coding = exchanges_.clock().Now() - begin;
  if (!encoded.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker ", exchanges_.sender().worker.value(), ", step ", step.value(),
                     ", slice ", key.slice.value(), " of table ", buffers_->table(key.table).name,
                     ": ", "the gradient holds a NaN or an infinity, and was not pushed: ",
                     encoded.status().message()));
  }
  exchanges_.traffic().CountCoding(coding);
  exchanges_.traffic().CountNorms(encoded->norms);
  return std::move(encoded->bytes);
}

void ParameterStore::SendSlice(SliceKey key, const Purpose& purpose, Payload gradient,
                               const ExchangeTrace& trace, absl::AnyInvocable<void()> delivered) {
  const uint64_t bytes_pushed = gradient.size_bytes();
  DenseStep step;
  step.pull = {purpose.pull_step, purpose.is_exact || (buffers_->table(key.table).is_auto_pull &&
                                                       !purpose.encodes_pull)};
  if (!purpose.is_exact) step.copy = buffers_->CopyOf(key);
  if (purpose.push_step.has_value()) {
    StepPush& push = step.push.emplace();
    push.step = *purpose.push_step;
    push.base_version = buffers_->VersionOf(key);
    push.rates = purpose.rates;
    if (!purpose.is_empty) push.gradient = {std::move(gradient), PushCodec(key.table, purpose)};
  }
  ExchangeRequest request = {exchanges_.sender(), Epoch(), key, std::move(step)};
  if (!purpose.encodes_pull) request.destination = buffers_->ValuesOf(key);
  trace.Begin("send");
  exchanges_.client().Exchange(
      std::move(request), trace.BeginBefore("server and reply", std::move(delivered)),
      [this, key, purpose, bytes_pushed, trace](const ExchangeReply& reply) {
        OnReply(key, purpose, bytes_pushed, reply, trace);
      });
}

ExchangeTrace ParameterStore::Trace(SliceKey key, const Purpose& purpose) const {
  if (tracer_ == nullptr) return ExchangeTrace();
  const ParameterBuffers::Table& table = buffers_->table(key.table);
  const size_t size = table.slicing.Range(key.slice).size;
  const auto bytes = static_cast<int64_t>(size * sizeof(float));
  const Step step = purpose.push_step.value_or(Step(0));
  const auto encoded =
      purpose.encodes_push
          ? static_cast<int64_t>(encoder_->codec(key.table, step).EncodedBytes(size))
          : bytes;
  return ExchangeTrace(tracer_, table.name,
                       {{"layer", table.layer},
                        {"slice", key.slice.value()},
                        {"push_step", purpose.push_step.value_or(Step(-1)).value()},
                        {"pull_step", purpose.pull_step.value()},
                        {"bytes_float32", bytes},
                        {"bytes_pushed", purpose.has_gradient() ? encoded : 0}},
                       "queue");
}

void ParameterStore::OnReply(SliceKey key, const Purpose& purpose, uint64_t bytes_pushed,
                             const ExchangeReply& reply, const ExchangeTrace& trace) {
  const int layer = buffers_->table(key.table).layer;
  // Nobody else touches the slice while its exchange is open.
  trace.AddArg("bytes_pulled", static_cast<int64_t>(reply.values.size_bytes()));
  absl::Status status = TakeValues(key, purpose, reply, trace);
  const bool is_last = --awaited_slices_[layer] == 0;
  if (status.ok() && is_last && mirror_ != nullptr) status = mirror_->LayerArrived(layer);
  if (reply.status.ok()) CountTraffic(key, purpose, bytes_pushed, reply);
  if (status.ok() && key == program_slice_) program_cut_ = std::max(program_cut_.load(), reply.cut);
  // The slice stays open until the server has the own state: the engine cannot change it before.
  if (status.ok()) states_.NoteTableCut(key, reply);
  const uint64_t cut = status.ok() ? states_.TakeCut(key, purpose.pull_step, reply) : 0;
  if (cut != 0) return states_.SendOwnState(key, cut);
  exchanges_.Close(layer, status);
}

void ParameterStore::CountTraffic(SliceKey key, const Purpose& purpose, uint64_t bytes_pushed,
                                  const ExchangeReply& reply) {
  const uint64_t float_bytes = buffers_->ValuesOf(key).size() * sizeof(float);
  TrafficCounter& traffic = exchanges_.traffic();
  traffic.CountExchange();
  traffic.CountPush(PushCodec(key.table, purpose), bytes_pushed,
                    bytes_pushed > 0 ? float_bytes : 0);
  // Exact values are for the test, and not a part of the training.
  if (!purpose.is_exact) traffic.CountPull(purpose.pull_step, reply, float_bytes);
}

absl::Status ParameterStore::TakeValues(SliceKey key, const Purpose& purpose,
                                        const ExchangeReply& reply, const ExchangeTrace& trace) {
  if (reply.codec == CodecType::kFloat32) {
    trace.End();
    return buffers_->TakeValues(key, reply);
  }
  if (purpose.is_exact) {
    trace.End();
    return absl::InternalError(absl::StrCat("a server sent codec ", static_cast<int>(reply.codec),
                                            " for a pull of float32"));
  }
  trace.Begin("decode");
  const absl::Time begin = exchanges_.clock().Now();
  absl::Status status = buffers_->TakeValues(key, reply);
  exchanges_.traffic().CountCoding(exchanges_.clock().Now() - begin);
  trace.End();
  return status;
}

}  // namespace capstan
