#include "worker/client/parameter_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/scheduler/scheduler.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<ParameterStore>> ParameterStore::Create(const Options& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<ParameterBuffers> buffers,
                   ParameterBuffers::Create(options.tables, options.slice_bytes, options.mirror));
  return std::unique_ptr<ParameterStore>(new ParameterStore(options, std::move(buffers)));
}

ParameterStore::ParameterStore(const Options& options, std::unique_ptr<ParameterBuffers> buffers)
    : clock_(options.clock),
      client_(options.client),
      scheduler_(options.scheduler),
      job_(options.job),
      worker_(options.worker),
      incarnation_(options.incarnation),
      slice_bytes_(options.slice_bytes),
      mirror_(options.mirror),
      tracer_(options.tracer),
      own_state_(options.own_state),
      last_pull_step_(options.last_pull_step),
      buffers_(std::move(buffers)),
      awaited_slices_(buffers_->layer_count()) {
  SetPartition(options.partition_bytes);
  for (uint32_t i = 0; own_state_ != nullptr && i < buffers_->table_count(); ++i) {
    cuts_.emplace_back(buffers_->table(TableId(i)).slicing.slice_count());
  }
  MutexLock lock(&mu_);
  open_exchanges_.resize(buffers_->layer_count());
}

void ParameterStore::PullAll(Step step) {
  const absl::Time begin = clock_->Now();
  for (int layer = 0; layer < buffers_->layer_count(); ++layer) Open(layer);
  for (uint32_t table = 0; table < buffers_->table_count(); ++table) {
    SubmitTable(TableId(table), std::nullopt, step);
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

void ParameterStore::PushOpened(int layer, Step step) {
  const absl::Time begin = clock_->Now();
  for (uint32_t i = 0; i < buffers_->table_count(); ++i) {
    const TableId table(i);
    if (buffers_->table(table).layer == layer) SubmitTable(table, step, step + 1);
  }
  RecordSending(begin);
}

void ParameterStore::SubmitTable(TableId table, std::optional<Step> push_step, Step pull_step) {
  const uint32_t slice_count = buffers_->table(table).slicing.slice_count();
  const auto together = static_cast<uint32_t>(std::min<uint64_t>(slices_together_, slice_count));
  for (uint32_t first = 0; first < slice_count; first += together) {
    SubmitSlices(table, first, std::min(first + together, slice_count), push_step, pull_step);
  }
}

void ParameterStore::SubmitSlices(TableId table, uint32_t first, uint32_t end,
                                  std::optional<Step> push_step, Step pull_step) {
  Transfer transfer;
  transfer.layer = buffers_->table(table).layer;
  std::vector<ExchangeTrace> traces;
  for (uint32_t slice = first; slice < end; ++slice) {
    const SliceKey key = {table, SliceIndex(slice)};
    if (push_step.has_value()) transfer.bytes += buffers_->ValuesOf(key).size() * sizeof(float);
    traces.push_back(Trace(key, push_step, pull_step));
  }
  transfer.start = [this, table, first, push_step, pull_step,
                    traces = std::move(traces)](absl::AnyInvocable<void()> credited) {
    const JoinedCredit joined(static_cast<int64_t>(traces.size()), std::move(credited));
    for (size_t i = 0; i < traces.size(); ++i) {
      const SliceIndex slice(first + static_cast<uint32_t>(i));
      SendSlice({table, slice}, push_step, pull_step, traces[i], joined);
    }
  };
  scheduler_->Submit(std::move(transfer));
}

ExchangeRequest ParameterStore::RequestOf(SliceKey key) const {
  ExchangeRequest request;
  request.job = job_;
  request.worker = worker_;
  request.incarnation = incarnation_;
  request.slice = key;
  return request;
}

void ParameterStore::SendSlice(SliceKey key, std::optional<Step> push_step, Step pull_step,
                               const ExchangeTrace& trace, absl::AnyInvocable<void()> delivered) {
  ExchangeRequest request = RequestOf(key);
  request.push_step = push_step;
  request.pull_step = pull_step;
  if (push_step.has_value()) {
    request.base_version = buffers_->VersionOf(key);
    request.gradient = buffers_->GradientOf(key);
  }
  request.destination = buffers_->ValuesOf(key);
  const uint64_t bytes_pushed = request.gradient.size_bytes();
  trace.Begin("send");
  client_->Exchange(std::move(request), trace.BeginBefore("server and reply", std::move(delivered)),
                    [this, key, pull_step, bytes_pushed, trace](const ExchangeReply& reply) {
                      trace.End();
                      OnReply(key, pull_step, bytes_pushed, reply);
                    });
}

ExchangeTrace ParameterStore::Trace(SliceKey key, std::optional<Step> push_step,
                                    Step pull_step) const {
  if (tracer_ == nullptr) return ExchangeTrace();
  const ParameterBuffers::Table& table = buffers_->table(key.table);
  const int64_t bytes = static_cast<int64_t>(table.slicing.Range(key.slice).size * sizeof(float));
  return ExchangeTrace(tracer_, table.name,
                       {{"layer", table.layer},
                        {"slice", key.slice.value()},
                        {"push_step", push_step.value_or(Step(-1)).value()},
                        {"pull_step", pull_step.value()},
                        {"bytes", bytes}},
                       "queue");
}

void ParameterStore::OnReply(SliceKey key, Step pull_step, uint64_t bytes_pushed,
                             const ExchangeReply& reply) {
  const int layer = buffers_->table(key.table).layer;
  // Nobody else touches the slice while its exchange is open.
  absl::Status status = buffers_->TakeValues(key, reply);
  const bool is_last = --awaited_slices_[layer] == 0;
  if (status.ok() && is_last && mirror_ != nullptr) status = mirror_->LayerArrived(layer);
  // The slice stays open until the server has the own state: the engine cannot change it before.
  const uint64_t cut = status.ok() ? TakeCut(key, pull_step, reply) : 0;
  {
    MutexLock lock(&mu_);
    if (cut == 0) --open_exchanges_[layer];
    if (!status.ok() && status_.ok()) status_ = std::move(status);
    if (reply.status.ok()) {
      traffic_.CountPush(bytes_pushed);
      traffic_.CountPull(pull_step, reply);
    }
    changed_.NotifyAll();
  }
  if (cut != 0) SendOwnState(key, cut);
}

uint64_t ParameterStore::TakeCut(SliceKey key, Step pull_step, const ExchangeReply& reply) {
  if (own_state_ == nullptr) return 0;
  const bool is_last = last_pull_step_.has_value() && pull_step >= *last_pull_step_;
  const uint64_t cut = is_last ? kFinalCut : reply.cut;
  uint64_t& latest = cuts_[key.table.value()][key.slice.value()];
  if (cut <= latest) return 0;
  latest = cut;
  return cut;
}

void ParameterStore::SendOwnState(SliceKey key, uint64_t cut) {
  ExchangeRequest request = RequestOf(key);
  request.own_cut = cut;
  request.gradient = own_state_->Save(key);
  SubmitOwnState(std::move(request));
}

void ParameterStore::PullOwnState() {
  if (own_state_ == nullptr) return;
  for (uint32_t i = 0; i < buffers_->table_count(); ++i) {
    const ParameterBuffers::Table& table = buffers_->table(TableId(i));
    for (uint32_t slice = 0; slice < table.slicing.slice_count(); ++slice) {
      ExchangeRequest request = RequestOf({TableId(i), SliceIndex(slice)});
      request.pulls_own = true;
      {
        MutexLock lock(&mu_);
        ++open_exchanges_[table.layer];
      }
      SubmitOwnState(std::move(request));
    }
  }
}

void ParameterStore::SubmitOwnState(ExchangeRequest request) {
  Transfer transfer;
  transfer.layer = buffers_->table(request.slice.table).layer;
  transfer.bytes = request.gradient.size_bytes();
  transfer.start = [this,
                    request = std::move(request)](absl::AnyInvocable<void()> credited) mutable {
    const SliceKey key = request.slice;
    const bool is_pull = request.pulls_own;
    client_->Exchange(
        std::move(request), std::move(credited),
        [this, key, is_pull](const ExchangeReply& reply) { OnOwnStateReply(key, is_pull, reply); });
  };
  scheduler_->Submit(std::move(transfer));
}

void ParameterStore::OnOwnStateReply(SliceKey key, bool is_pull, const ExchangeReply& reply) {
  absl::Status status = reply.status;
  if (status.ok() && is_pull && !reply.values.empty()) status = LoadOwnState(key, reply.values);
  MutexLock lock(&mu_);
  --open_exchanges_[buffers_->table(key.table).layer];
  if (!status.ok() && status_.ok()) status_ = std::move(status);
  changed_.NotifyAll();
}

absl::Status ParameterStore::LoadOwnState(SliceKey key, const Payload& state) {
  std::vector<float> arrays(own_state_->arrays() * buffers_->ValuesOf(key).size());
  if (state.size_bytes() != arrays.size() * sizeof(float)) {
    return absl::InternalError(absl::StrCat("a server sent ", state.size_bytes(),
                                            " bytes for an own state of ",
                                            arrays.size() * sizeof(float)));
  }
  state.CopyTo(absl::MakeSpan(arrays));
  own_state_->Load(key, arrays);
  return absl::OkStatus();
}

void ParameterStore::RecordSending(absl::Time begin) {
  const absl::Time now = clock_->Now();
  MutexLock lock(&mu_);
  traffic_.CountSending(now - begin);
}

absl::Status ParameterStore::WaitForLayer(int layer) {
  MutexLock lock(&mu_);
  const int64_t& count = open_exchanges_[layer];
  if (!status_.ok() || count == 0) return status_;
  const absl::Time begin = clock_->Now();
  while (status_.ok() && count > 0) {
    clock_->WaitUntil(mu_, changed_, absl::InfiniteFuture());
  }
  traffic_.CountWaiting(clock_->Now() - begin);
  return status_;
}

absl::Status ParameterStore::WaitForAll() {
  for (int layer = 0; layer < buffers_->layer_count(); ++layer) {
    RETURN_IF_ERROR(WaitForLayer(layer));
  }
  return absl::OkStatus();
}

void ParameterStore::Fail(absl::Status status) {
  MutexLock lock(&mu_);
  if (status_.ok()) status_ = std::move(status);
  changed_.NotifyAll();
}

ParameterStore::Traffic ParameterStore::traffic() const {
  MutexLock lock(&mu_);
  return traffic_.traffic();
}

}  // namespace capstan
