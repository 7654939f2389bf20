#include "worker/client/parameter_store.h"

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/routing/job_view.h"
#include "common/scheduler/scheduler.h"

namespace capstan {

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
        options.clock, options.client, options.scheduler, options.sender, options.tables,
        row_codecs, options.seed, options.shard_count,
        [store = store.get()](const absl::Status& status) { store->Fail(status); }});
  }
  return store;
}

ParameterStore::ParameterStore(const Options& options, std::unique_ptr<ParameterBuffers> buffers,
                               std::unique_ptr<GradientEncoder> encoder)
    : clock_(options.clock),
      client_(options.client),
      scheduler_(options.scheduler),
      sender_(options.sender),
      slice_bytes_(options.slice_bytes),
      mirror_(options.mirror),
      tracer_(options.tracer),
      own_state_(options.own_state),
      last_pull_step_(options.last_pull_step),
      buffers_(std::move(buffers)),
      encoder_(std::move(encoder)),
      awaited_slices_(buffers_->layer_count()),
      encode_queue_(MakeTransferQueue(options.policy)),
      later_(options.clock) {
  SetPartition(options.partition_bytes);
  for (uint32_t i = 0; i < buffers_->table_count(); ++i) {
    cuts_.emplace_back(buffers_->table(TableId(i)).slicing.slice_count());
  }
  auto_tables_.resize(buffers_->table_count());
  MutexLock lock(&mu_);
  open_exchanges_.resize(buffers_->layer_count());
  learning_rates_.resize(buffers_->table_count());
}

void ParameterStore::PullAll(Step step, bool is_exact) {
  const absl::Time begin = clock_->Now();
  for (int layer = 0; layer < buffers_->layer_count(); ++layer) Open(layer);
  for (uint32_t table = 0; table < buffers_->table_count(); ++table) {
    SubmitTable(TableId(table), {std::nullopt, step, is_exact});
  }
  RecordSending(begin);
}

void ParameterStore::PushPull(int layer, Step step) {
  Open(layer);
  PushOpened(layer, step);
}

void ParameterStore::Open(int layer) {
  awaited_slices_[layer] += buffers_->slices_of_layer(layer);
  MutexLock lock(&mu_);
  open_exchanges_[layer] += buffers_->slices_of_layer(layer);
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
  const absl::Time begin = clock_->Now();
  for (uint32_t i = 0; i < buffers_->table_count(); ++i) {
    if (buffers_->table(TableId(i)).layer != layer) continue;
    Purpose purpose = {step, step + 1, /*is_exact=*/false, is_empty};
    {
      MutexLock lock(&mu_);
      purpose.learning_rate = learning_rates_[i];
    }
    SubmitTable(TableId(i), purpose);
  }
  RecordSending(begin);
}

void ParameterStore::SetLearningRate(TableId table, double learning_rate) {
  MutexLock lock(&mu_);
  learning_rates_[table.value()] = learning_rate;
}

bool ParameterStore::Encodes(TableId table, Step step) const {
  return encoder_->encodes(table) && (!encoder_->is_auto(table) || UsesAutoCodec(table, step));
}

bool ParameterStore::PullsEncoded(TableId id, const Purpose& purpose) const {
  const ParameterBuffers::Table& table = buffers_->table(id);
  const bool is_chosen = !table.is_auto_pull || UsesAutoCodec(id, purpose.pull_step);
  return is_chosen && table.pull_codec->is_lossy() && !purpose.is_exact;
}

CodecType ParameterStore::PushCodec(TableId table, const Purpose& purpose) const {
  return Encodes(table, purpose) ? encoder_->type(table) : CodecType::kFloat32;
}

void ParameterStore::SubmitTable(TableId table, const Purpose& purpose) {
  const uint32_t slice_count = buffers_->table(table).slicing.slice_count();
  // With a mirror, a device has encoded most gradients, and this is not the training thread.
  const bool is_later = Encodes(table, purpose) && mirror_ == nullptr;
  const auto together = static_cast<uint32_t>(std::min<uint64_t>(slices_together_, slice_count));
  for (uint32_t first = 0; first < slice_count; first += together) {
    SliceGroup group = {table, purpose, {}};
    for (uint32_t i = first; i < std::min(first + together, slice_count); ++i) {
      const SliceKey key = {table, SliceIndex(i)};
      group.slices.push_back({key, Trace(key, purpose), Payload()});
    }
    is_later ? SubmitLater(std::move(group)) : SubmitSlices(std::move(group));
  }
}

void ParameterStore::SubmitLater(SliceGroup group) {
  Transfer encoding;
  encoding.layer = buffers_->table(group.table).layer;
  encoding.start = [this, group = std::move(group)](absl::AnyInvocable<void()>) mutable {
    SubmitSlices(std::move(group));
  };
  {
    MutexLock lock(&mu_);
    encode_queue_->Push(std::move(encoding));
    if (std::exchange(is_encoding_, true)) return;
  }
  EncodeNext();
}

void ParameterStore::EncodeNext() {
  later_.RunAfter(absl::ZeroDuration(), [this](bool is_due) {
    if (!is_due) return;
    // Nobody else on this thread would catch it.
    try {
      Transfer encoding;
      {
        MutexLock lock(&mu_);
        encoding = encode_queue_->Pop();
      }
      encoding.start(nullptr);
      {
        MutexLock lock(&mu_);
        is_encoding_ = !encode_queue_->is_empty();
        if (!is_encoding_) return;
      }
      EncodeNext();
    } catch (const std::bad_alloc&) {
      Fail(out_of_memory_);
    }
  });
}

void ParameterStore::SubmitSlices(SliceGroup group) {
  const Purpose& purpose = group.purpose;
  const bool is_encoded = Encodes(group.table, purpose);
  if (is_encoded && group.slices[0].key.slice == SliceIndex(0)) {
    encoder_->BeginTable(group.table, buffers_->gradients()[group.table.value()],
                         purpose.learning_rate);
  }
  Transfer transfer;
  transfer.layer = buffers_->table(group.table).layer;
  for (Slice& slice : group.slices) {
    if (!purpose.has_gradient()) continue;
    if (is_encoded) slice.trace.Begin("encode");
    absl::StatusOr<Payload> gradient = EncodeGradient(slice.key, *purpose.push_step);
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
  scheduler_->Submit(std::move(transfer));
}

absl::StatusOr<Payload> ParameterStore::EncodeGradient(SliceKey key, Step step) {
  if (!Encodes(key.table, step)) return buffers_->GradientOf(key);
  const absl::Time begin = clock_->Now();
  absl::StatusOr<GradientEncoder::Encoded> encoded =
      encoder_->Encode(key, step, buffers_->GradientSpanOf(key));
  const absl::Duration coding = clock_->Now() - begin;
  if (!encoded.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", sender_.worker.value(), ", step ", step.value(), ", slice ", key.slice.value(),
        " of table ", buffers_->table(key.table).name, ": ", encoded.status().message(),
        ". It was not pushed. Try a smaller learning rate (--learning_rate, or that of the "
        "program), and look at the data"));
  }
  MutexLock lock(&mu_);
  traffic_.CountCoding(coding);
  traffic_.CountNorms(encoded->norms);
  return std::move(encoded->bytes);
}

void ParameterStore::SendSlice(SliceKey key, const Purpose& purpose, Payload gradient,
                               const ExchangeTrace& trace, absl::AnyInvocable<void()> delivered) {
  const bool is_encoded = PullsEncoded(key.table, purpose);
  const uint64_t bytes_pushed = gradient.size_bytes();
  DenseStep step;
  step.pull = {purpose.pull_step,
               purpose.is_exact || (buffers_->table(key.table).is_auto_pull && !is_encoded)};
  if (!purpose.is_exact) step.copy = buffers_->CopyOf(key);
  if (purpose.push_step.has_value()) {
    StepPush& push = step.push.emplace();
    push.step = *purpose.push_step;
    push.base_version = buffers_->VersionOf(key);
    push.learning_rate = purpose.learning_rate;
    if (!purpose.is_empty) push.gradient = {std::move(gradient), PushCodec(key.table, purpose)};
  }
  ExchangeRequest request = RequestOf(key, std::move(step));
  if (!is_encoded) request.destination = buffers_->ValuesOf(key);
  trace.Begin("send");
  client_->Exchange(std::move(request), trace.BeginBefore("server and reply", std::move(delivered)),
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
  const bool is_encoded = Encodes(key.table, purpose);
  const auto encoded =
      is_encoded ? static_cast<int64_t>(encoder_->codec(key.table, step).EncodedBytes(size))
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
  if (!status.ok() && rows_ != nullptr) rows_->Fail(status);
  // The slice stays open until the server has the own state: the engine cannot change it before.
  const uint64_t cut = status.ok() ? TakeCut(key, purpose.pull_step, reply) : 0;
  {
    MutexLock lock(&mu_);
    if (cut == 0) --open_exchanges_[layer];
    if (!status.ok() && status_.ok()) status_ = std::move(status);
    if (reply.status.ok()) {
      const uint64_t float_bytes = buffers_->ValuesOf(key).size() * sizeof(float);
      traffic_.CountExchange();
      traffic_.CountPush(PushCodec(key.table, purpose), bytes_pushed,
                         bytes_pushed > 0 ? float_bytes : 0);
      // Exact values are for the test, and not a part of the training.
      if (!purpose.is_exact) traffic_.CountPull(purpose.pull_step, reply, float_bytes);
    }
    changed_.NotifyAll();
  }
  if (cut != 0) SendOwnState(key, cut);
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
  const absl::Time begin = clock_->Now();
  absl::Status status = buffers_->TakeValues(key, reply);
  const absl::Duration coding = clock_->Now() - begin;
  trace.End();
  MutexLock lock(&mu_);
  traffic_.CountCoding(coding);
  return status;
}

uint32_t ParameterStore::OwnArrays(TableId table) const {
  return (own_state_ == nullptr ? 0 : own_state_->arrays()) + encoder_->arrays(table);
}

uint64_t ParameterStore::TakeCut(SliceKey key, Step pull_step, const ExchangeReply& reply) {
  if (OwnArrays(key.table) == 0) return 0;
  const bool is_last = last_pull_step_.has_value() && pull_step >= *last_pull_step_;
  const uint64_t cut = is_last ? kFinalCut : reply.cut;
  uint64_t& latest = cuts_[key.table.value()][key.slice.value()];
  if (cut <= latest) return 0;
  latest = cut;
  return cut;
}

absl::StatusOr<Payload> ParameterStore::OwnStateOf(SliceKey key) {
  if (encoder_->arrays(key.table) == 0) return own_state_->Save(key);
  ASSIGN_OR_RETURN(Payload of_encoder, encoder_->SaveState(key));
  if (own_state_ == nullptr) return of_encoder;
  Payload both = own_state_->Save(key);
  both.Append(of_encoder);
  return both;
}

void ParameterStore::SendOwnState(SliceKey key, uint64_t cut) {
  absl::StatusOr<Payload> state = OwnStateOf(key);
  if (!state.ok()) return Fail(state.status());
  SubmitAlone(RequestOf(key, WorkerState{cut, *std::move(state)}));
}

void ParameterStore::SubmitForSlices(TableId id,
                                     absl::FunctionRef<ExchangeRequest(SliceKey)> make) {
  const ParameterBuffers::Table& table = buffers_->table(id);
  for (uint32_t slice = 0; slice < table.slicing.slice_count(); ++slice) {
    {
      MutexLock lock(&mu_);
      ++open_exchanges_[table.layer];
    }
    SubmitAlone(make({id, SliceIndex(slice)}));
  }
}

void ParameterStore::PullOwnState() {
  for (uint32_t i = 0; i < buffers_->table_count(); ++i) {
    if (OwnArrays(TableId(i)) == 0) continue;
    SubmitForSlices(TableId(i), [this](SliceKey key) { return RequestOf(key, WorkerStatePull()); });
  }
}

void ParameterStore::PushInitial(TableId table) {
  SubmitForSlices(table, [this](SliceKey key) {
    return RequestOf(key, InitialValues{buffers_->ShareValuesOf(key)});
  });
}

void ParameterStore::SubmitAlone(ExchangeRequest request) {
  Transfer transfer;
  transfer.layer = buffers_->table(request.slice.table).layer;
  transfer.bytes = PayloadBytes(request);
  transfer.start = [this,
                    request = std::move(request)](absl::AnyInvocable<void()> credited) mutable {
    const SliceKey key = request.slice;
    const bool is_pull = std::holds_alternative<WorkerStatePull>(request.purpose);
    client_->Exchange(
        std::move(request), std::move(credited),
        [this, key, is_pull](const ExchangeReply& reply) { OnReplyToAlone(key, is_pull, reply); });
  };
  scheduler_->Submit(std::move(transfer));
}

void ParameterStore::OnReplyToAlone(SliceKey key, bool is_pull, const ExchangeReply& reply) {
  absl::Status status = reply.status;
  if (status.ok() && is_pull && !reply.values.empty()) status = LoadOwnState(key, reply.values);
  MutexLock lock(&mu_);
  --open_exchanges_[buffers_->table(key.table).layer];
  if (reply.status.ok()) traffic_.CountExchange();
  if (!status.ok() && status_.ok()) status_ = std::move(status);
  changed_.NotifyAll();
}

absl::Status ParameterStore::LoadOwnState(SliceKey key, const Payload& state) {
  const size_t size = buffers_->ValuesOf(key).size();
  std::vector<float> arrays(OwnArrays(key.table) * size);
  if (state.size_bytes() != arrays.size() * sizeof(float)) {
    return absl::InternalError(absl::StrCat("a server sent ", state.size_bytes(),
                                            " bytes for an own state of ",
                                            arrays.size() * sizeof(float)));
  }
  state.CopyTo(absl::MakeSpan(arrays));
  absl::Span<const float> of_engine = arrays;
  if (const size_t of_encoder = encoder_->arrays(key.table) * size; of_encoder > 0) {
    RETURN_IF_ERROR(encoder_->LoadState(key, of_engine.last(of_encoder)));
    of_engine.remove_suffix(of_encoder);
  }
  if (own_state_ != nullptr) own_state_->Load(key, of_engine);
  return absl::OkStatus();
}

void ParameterStore::RecordSending(absl::Time begin) {
  const absl::Time now = clock_->Now();
  MutexLock lock(&mu_);
  traffic_.CountSending(now - begin);
}

absl::Status ParameterStore::WaitForLayer(int layer) {
  return WaitForLayerFor(layer, absl::InfiniteDuration()).status();
}

absl::StatusOr<bool> ParameterStore::WaitForLayerFor(int layer, absl::Duration limit) {
  MutexLock lock(&mu_);
  const int64_t& count = open_exchanges_[layer];
  if (!status_.ok()) return status_;
  if (count == 0) return true;
  const absl::Time begin = clock_->Now();
  waits_since_ = begin;
  while (status_.ok() && count > 0 && clock_->WaitUntil(mu_, changed_, begin + limit)) {
  }
  traffic_.CountWaiting(clock_->Now() - begin);
  waits_since_ = std::nullopt;
  if (!status_.ok()) return status_;
  return count == 0;
}

absl::Status ParameterStore::WaitForAll() {
  for (int layer = 0; layer < buffers_->layer_count(); ++layer) {
    RETURN_IF_ERROR(WaitForLayer(layer));
  }
  return rows_ == nullptr ? absl::OkStatus() : rows_->WaitForAll();
}

void ParameterStore::Fail(absl::Status status) {
  if (rows_ != nullptr) rows_->Fail(status);
  MutexLock lock(&mu_);
  if (status_.ok()) status_ = std::move(status);
  changed_.NotifyAll();
}

ParameterStore::Times ParameterStore::times() const {
  Traffic of_rows;
  if (rows_ != nullptr) of_rows = rows_->traffic();
  MutexLock lock(&mu_);
  const absl::Duration now_waiting =
      waits_since_.has_value() ? clock_->Now() - *waits_since_ : absl::ZeroDuration();
  return {traffic_.traffic().waiting + now_waiting + of_rows.waiting,
          traffic_.traffic().sending + of_rows.sending};
}

ParameterStore::Traffic ParameterStore::traffic() const {
  Traffic traffic;
  if (rows_ != nullptr) traffic = rows_->traffic();
  MutexLock lock(&mu_);
  traffic += traffic_.traffic();
  return traffic;
}

}  // namespace capstan
