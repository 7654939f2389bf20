#include "worker/client/parameter_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/routing/element_count.h"
#include "common/transport/payload.h"

namespace capstan {
ParameterStore::ParameterStore(const Options& options)
    : clock_(options.clock), client_(options.client), scheduler_(options.scheduler) {
  for (const v1::TableSpec& spec : options.tables) {
    const uint64_t elements = ElementCount(spec);
    tables_.push_back({static_cast<int>(spec.layer()), Slicing(elements, options.slice_bytes),
                       std::make_shared<HostBuffer>(elements),
                       std::make_shared<HostBuffer>(elements)});
    value_spans_.push_back(tables_.back().values->span());
    gradient_spans_.push_back(tables_.back().gradient->span());
    layer_count_ = std::max(layer_count_, static_cast<int>(spec.layer()) + 1);
  }
  open_exchanges_.resize(layer_count_);
}

void ParameterStore::PullAll(Step step) {
  for (uint32_t table = 0; table < tables_.size(); ++table) {
    ExchangeTable(TableId(table), std::nullopt, step);
  }
}

void ParameterStore::PushPull(int layer, Step step) {
  for (uint32_t table = 0; table < tables_.size(); ++table) {
    if (tables_[table].layer == layer) ExchangeTable(TableId(table), step, step + 1);
  }
}

void ParameterStore::ExchangeTable(TableId table, std::optional<Step> push_step, Step pull_step) {
  const uint32_t slice_count = tables_[table.value()].slicing.slice_count();
  {
    MutexLock lock(&mu_);
    open_exchanges_[tables_[table.value()].layer] += slice_count;
  }
  for (uint32_t slice = 0; slice < slice_count; ++slice) {
    SubmitSlice({table, SliceIndex(slice)}, push_step, pull_step);
  }
}

void ParameterStore::SubmitSlice(SliceKey key, std::optional<Step> push_step, Step pull_step) {
  const Table& table = tables_[key.table.value()];
  const SliceRange range = table.slicing.Range(key.slice);
  Payload gradient;
  if (push_step.has_value()) {
    gradient = Payload(table.gradient->span().subspan(range.offset, range.size), table.gradient);
  }
  Transfer transfer;
  transfer.layer = table.layer;
  transfer.bytes = gradient.size_bytes();
  transfer.start = [this, key, push_step, pull_step,
                    gradient = std::move(gradient)](absl::AnyInvocable<void()> sent) mutable {
    const uint64_t bytes_pushed = gradient.size_bytes();
    client_->Exchange(key, push_step, std::move(gradient), pull_step, std::move(sent),
                      [this, key, pull_step, bytes_pushed](const ExchangeReply& reply) {
                        OnReply(key, pull_step, bytes_pushed, reply);
                      });
  };
  scheduler_->Submit(std::move(transfer));
}

void ParameterStore::OnReply(SliceKey key, Step pull_step, uint64_t bytes_pushed,
                             const ExchangeReply& reply) {
  const Table& table = tables_[key.table.value()];
  const SliceRange range = table.slicing.Range(key.slice);
  absl::Status status = reply.status;
  if (status.ok() && reply.values.size_bytes() != range.size * sizeof(float)) {
    status =
        absl::InternalError(absl::StrCat("a server sent ", reply.values.size_bytes(),
                                         " bytes for a slice of ", range.size * sizeof(float)));
  }
  // Nobody else touches the slice while its exchange is open.
  if (status.ok()) reply.values.CopyTo(table.values->span().subspan(range.offset, range.size));
  MutexLock lock(&mu_);
  --open_exchanges_[table.layer];
  if (!status.ok() && status_.ok()) status_ = std::move(status);
  if (reply.status.ok()) {
    traffic_.bytes_pushed += bytes_pushed;
    traffic_.bytes_pulled += reply.values.size_bytes();
    traffic_.steps_ahead = pull_step - reply.min_step;
    traffic_.max_staleness_seen = std::max(traffic_.max_staleness_seen, traffic_.steps_ahead);
  }
  changed_.NotifyAll();
}

absl::Status ParameterStore::WaitForLayer(int layer) {
  MutexLock lock(&mu_);
  while (status_.ok() && open_exchanges_[layer] > 0) {
    clock_->WaitUntil(mu_, changed_, absl::InfiniteFuture());
  }
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
  return traffic_;
}

}  // namespace capstan
