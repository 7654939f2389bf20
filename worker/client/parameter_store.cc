#include "worker/client/parameter_store.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/routing/element_count.h"
#include "common/scheduler/joined_sent.h"
#include "common/transport/payload.h"

namespace capstan {

ParameterStore::ParameterStore(const Options& options)
    : clock_(options.clock),
      client_(options.client),
      scheduler_(options.scheduler),
      mirror_(options.mirror),
      slice_bytes_(options.slice_bytes),
      tracer_(options.tracer) {
  SetPartition(options.partition_bytes);
}

absl::StatusOr<std::unique_ptr<ParameterStore>> ParameterStore::Create(const Options& options) {
  std::unique_ptr<ParameterStore> store(new ParameterStore(options));
  for (const v1::TableSpec& spec : options.tables) {
    RETURN_IF_ERROR(store->AddTable(spec, options.slice_bytes));
  }
  store->slices_of_layer_.resize(store->layer_count_);
  for (const Table& table : store->tables_) {
    store->slices_of_layer_[table.layer] += table.slicing.slice_count();
  }
  store->awaited_slices_ = std::vector<std::atomic<int64_t>>(store->layer_count_);
  {
    MutexLock lock(&store->mu_);
    store->open_exchanges_.resize(store->layer_count_);
  }
  return store;
}

absl::Status ParameterStore::AddTable(const v1::TableSpec& spec, uint64_t slice_bytes) {
  const uint64_t elements = ElementCount(spec);
  Table table = {
      spec.name(), static_cast<int>(spec.layer()), Slicing(elements, slice_bytes), nullptr, nullptr,
      {}};
  table.versions.resize(table.slicing.slice_count());
  ASSIGN_OR_RETURN(table.values, AllocateHost(elements));
  ASSIGN_OR_RETURN(table.gradient, AllocateHost(elements));
  value_spans_.push_back(table.values->span());
  gradient_spans_.push_back(table.gradient->span());
  layer_count_ = std::max(layer_count_, table.layer + 1);
  tables_.push_back(std::move(table));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<HostBuffer>> ParameterStore::AllocateHost(uint64_t size) {
  if (mirror_ != nullptr) {
    ASSIGN_OR_RETURN(HostBuffer buffer, mirror_->AllocateHost(size));
    return std::make_shared<HostBuffer>(std::move(buffer));
  }
  try {
    return std::make_shared<HostBuffer>(size);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "out of memory for the parameters: use a smaller model, or a machine with more memory");
  }
}

void ParameterStore::PullAll(Step step) {
  const absl::Time begin = clock_->Now();
  for (int layer = 0; layer < layer_count_; ++layer) Open(layer);
  for (uint32_t table = 0; table < tables_.size(); ++table) {
    SubmitTable(TableId(table), std::nullopt, step);
  }
  RecordSending(begin);
}

void ParameterStore::PushPull(int layer, Step step) {
  Open(layer);
  PushOpened(layer, step);
}

void ParameterStore::Open(int layer) {
  awaited_slices_[layer] += slices_of_layer_[layer];
  MutexLock lock(&mu_);
  open_exchanges_[layer] += slices_of_layer_[layer];
}

void ParameterStore::SetPartition(uint64_t partition_bytes) {
  slices_together_ = std::max<uint64_t>(partition_bytes / slice_bytes_, 1);
}

void ParameterStore::PushOpened(int layer, Step step) {
  const absl::Time begin = clock_->Now();
  for (uint32_t table = 0; table < tables_.size(); ++table) {
    if (tables_[table].layer == layer) SubmitTable(TableId(table), step, step + 1);
  }
  RecordSending(begin);
}

void ParameterStore::SubmitTable(TableId table, std::optional<Step> push_step, Step pull_step) {
  const uint32_t slice_count = tables_[table.value()].slicing.slice_count();
  const auto together = static_cast<uint32_t>(std::min<uint64_t>(slices_together_, slice_count));
  for (uint32_t first = 0; first < slice_count; first += together) {
    SubmitSlices(table, first, std::min(first + together, slice_count), push_step, pull_step);
  }
}

void ParameterStore::SubmitSlices(TableId id, uint32_t first, uint32_t end,
                                  std::optional<Step> push_step, Step pull_step) {
  const Table& table = tables_[id.value()];
  Transfer transfer;
  transfer.layer = table.layer;
  std::vector<ExchangeTrace> traces;
  for (uint32_t slice = first; slice < end; ++slice) {
    const SliceKey key = {id, SliceIndex(slice)};
    if (push_step.has_value()) transfer.bytes += ValuesOf(key).size() * sizeof(float);
    traces.push_back(Trace(key, push_step, pull_step));
  }
  transfer.start = [this, id, first, push_step, pull_step,
                    traces = std::move(traces)](absl::AnyInvocable<void()> sent) {
    const JoinedSent joined(static_cast<int64_t>(traces.size()), std::move(sent));
    for (size_t i = 0; i < traces.size(); ++i) {
      const SliceIndex slice(first + static_cast<uint32_t>(i));
      SendSlice({id, slice}, push_step, pull_step, traces[i], joined);
    }
  };
  scheduler_->Submit(std::move(transfer));
}

void ParameterStore::SendSlice(SliceKey key, std::optional<Step> push_step, Step pull_step,
                               const ExchangeTrace& trace, absl::AnyInvocable<void()> sent) {
  const Table& table = tables_[key.table.value()];
  const SliceRange range = table.slicing.Range(key.slice);
  Payload gradient;
  std::optional<uint64_t> base_version;
  if (push_step.has_value()) {
    base_version = table.versions[key.slice.value()];
    gradient = Payload(table.gradient->span().subspan(range.offset, range.size), table.gradient);
  }
  const uint64_t bytes_pushed = gradient.size_bytes();
  trace.Begin("send");
  client_->Exchange(key, push_step, std::move(gradient), pull_step, base_version, ValuesOf(key),
                    trace.BeginBefore("server and reply", std::move(sent)),
                    [this, key, pull_step, bytes_pushed, trace](const ExchangeReply& reply) {
                      trace.End();
                      OnReply(key, pull_step, bytes_pushed, reply);
                    });
}

ExchangeTrace ParameterStore::Trace(SliceKey key, std::optional<Step> push_step,
                                    Step pull_step) const {
  if (tracer_ == nullptr) return ExchangeTrace();
  const Table& table = tables_[key.table.value()];
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
  const Table& table = tables_[key.table.value()];
  absl::Status status = TakeValues(key, reply);
  const bool is_last = --awaited_slices_[table.layer] == 0;
  if (status.ok() && is_last && mirror_ != nullptr) status = mirror_->LayerArrived(table.layer);
  MutexLock lock(&mu_);
  --open_exchanges_[table.layer];
  if (!status.ok() && status_.ok()) status_ = std::move(status);
  if (reply.status.ok()) {
    traffic_.CountPush(bytes_pushed);
    traffic_.CountPull(pull_step, reply);
  }
  changed_.NotifyAll();
}

void ParameterStore::RecordSending(absl::Time begin) {
  const absl::Time now = clock_->Now();
  MutexLock lock(&mu_);
  traffic_.CountSending(now - begin);
}

absl::Span<float> ParameterStore::ValuesOf(SliceKey key) const {
  const Table& table = tables_[key.table.value()];
  const SliceRange range = table.slicing.Range(key.slice);
  return table.values->span().subspan(range.offset, range.size);
}

absl::Status ParameterStore::TakeValues(SliceKey key, const ExchangeReply& reply) {
  RETURN_IF_ERROR(reply.status);
  Table& table = tables_[key.table.value()];
  const SliceRange range = table.slicing.Range(key.slice);
  if (reply.values.size_bytes() != range.size * sizeof(float)) {
    return absl::InternalError(absl::StrCat("a server sent ", reply.values.size_bytes(),
                                            " bytes for a slice of ", range.size * sizeof(float)));
  }
  // Nobody else touches the slice while its exchange is open.
  const absl::Span<float> values = ValuesOf(key);
  reply.values.CopyTo(values);
  table.versions[key.slice.value()] = reply.version;
  if (mirror_ == nullptr) return absl::OkStatus();
  return mirror_->SliceArrived(key.table, range, values.data());
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
  for (int layer = 0; layer < layer_count_; ++layer) RETURN_IF_ERROR(WaitForLayer(layer));
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
