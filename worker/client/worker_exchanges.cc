#include "worker/client/worker_exchanges.h"

#include "common/base/status_macros.h"

namespace capstan {

WorkerExchanges::WorkerExchanges(const Options& options, size_t layer_count, size_t table_count)
    : options_(options),
      layer_count_(layer_count),
      group_count_(layer_count + table_count + 1),
      epoch_(options.clock->Now()),
      open_(group_count_),
      rates_(table_count) {}

void WorkerExchanges::Open(size_t group, int64_t exchanges) {
  MutexLock lock(&mu_);
  open_[group] += exchanges;
}

void WorkerExchanges::Close(size_t group, const absl::Status& status) {
  MutexLock lock(&mu_);
  --open_[group];
  if (status_.ok()) status_ = status;
  changed_.NotifyAll();
}

bool WorkerExchanges::IsOpen(size_t group) const {
  MutexLock lock(&mu_);
  return open_[group] > 0;
}

void WorkerExchanges::Fail(const absl::Status& status) {
  MutexLock lock(&mu_);
  if (status_.ok()) status_ = status;
  changed_.NotifyAll();
}

absl::StatusOr<bool> WorkerExchanges::WaitFor(size_t group, absl::Duration limit) {
  MutexLock lock(&mu_);
  const int64_t& open = open_[group];
  if (!status_.ok()) return status_;
  if (open == 0) return true;
  const absl::Time begin = clock().Now();
  ++waits_;
  waits_since_ += begin - epoch_;
  while (status_.ok() && open > 0 && clock().WaitUntil(mu_, changed_, begin + limit)) {
  }
  traffic_.CountWaiting(clock().Now() - begin);
  --waits_;
  waits_since_ -= begin - epoch_;
  if (!status_.ok()) return status_;
  return open == 0;
}

absl::Status WorkerExchanges::WaitForAll() {
  for (size_t group = 0; group < group_count_; ++group) {
    RETURN_IF_ERROR(WaitFor(group, absl::InfiniteDuration()).status());
  }
  return absl::OkStatus();
}

absl::Duration WorkerExchanges::waiting() const {
  MutexLock lock(&mu_);
  return traffic_.waiting() + waits_ * (clock().Now() - epoch_) - waits_since_;
}

void WorkerExchanges::SetLearningRate(TableId table, double learning_rate) {
  MutexLock lock(&mu_);
  rates_[table.value()].learning_rate = learning_rate;
}

void WorkerExchanges::SetMomentum(TableId table, double momentum) {
  MutexLock lock(&mu_);
  rates_[table.value()].momentum = momentum;
}

Rates WorkerExchanges::RatesOf(TableId table) const {
  MutexLock lock(&mu_);
  return rates_[table.value()];
}

}  // namespace capstan
