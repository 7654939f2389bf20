#include "tests/benchmark/sparse/row_batches.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/scheduler/transfer_queue.h"
#include "tests/benchmark/sparse/sparse_load.h"

namespace capstan {
namespace {

constexpr TableId kTable(0);
constexpr size_t kMadeAtOnce = 100'000;

}  // namespace

BenchmarkJob RowBatchesLoad::Job() const {
  BenchmarkJob job;
  job.row_dim = dim;
  job.slice_bytes = 1 << 20;
  job.shard_count = shards;
  job.optimizer = "adagrad";
  return job;
}

RowBatches::RowBatches(const RowBatchesLoad& load, const BenchmarkJob& job, ShardHost* host,
                       Clock* clock)
    : load_(load),
      clock_(*clock),
      connect_([host](const std::string&) { return std::make_unique<HostConnection>(host); }),
      client_(job.MakeClient({"here"}, connect_, clock)),
      scheduler_(4 << 20, MakeTransferQueue(v1::SchedulerSpec::PRIORITY)),
      exchanges_({clock, client_.get(), &scheduler_, job.RequestOf(0, 0).sender},
                 /*layer_count=*/0, /*table_count=*/1) {
  RowStore::Options options;
  options.exchanges = &exchanges_;
  options.tables = {job.TableSpec()};
  options.codecs = {TableCodecs()};
  options.shard_count = load.shards;
  rows_ = std::make_unique<RowStore>(options);
}

absl::Status RowBatches::Make() {
  const std::vector<uint64_t> all = AllKeys(load_.num_keys);
  for (size_t i = 0; i < all.size(); i += kMadeAtOnce) {
    RETURN_IF_ERROR(Exchange(absl::MakeConstSpan(all).subspan(i, kMadeAtOnce), {}));
  }
  return absl::OkStatus();
}

absl::Status RowBatches::Run() {
  const absl::Status status = ExchangeAll();
  MutexLock lock(&mu_);
  has_ended_ = true;
  changed_.NotifyAll();
  return status;
}

absl::Status RowBatches::ExchangeAll() {
  Random random(/*seed=*/17);
  std::vector<uint64_t> keys = UniformKeys(load_.batch, load_.num_keys, random);
  RETURN_IF_ERROR(Exchange({}, keys));
  while (true) {
    std::vector<uint64_t> next = UniformKeys(load_.batch, load_.num_keys, random);
    const int before = phase();
    const absl::Time begin = clock_.Now();
    RETURN_IF_ERROR(Exchange(keys, next));
    keys = std::move(next);
    const double milliseconds = absl::ToDoubleMilliseconds(clock_.Now() - begin);
    MutexLock lock(&mu_);
    times_[std::max(before, phase_)].push_back(milliseconds);
    changed_.NotifyAll();
    if (is_stopping_) return absl::OkStatus();
  }
}

void RowBatches::Stop() {
  MutexLock lock(&mu_);
  is_stopping_ = true;
}

int RowBatches::phase() {
  MutexLock lock(&mu_);
  return phase_;
}

void RowBatches::set_phase(int phase) {
  MutexLock lock(&mu_);
  phase_ = phase;
}

void RowBatches::Await(int phase, size_t count) {
  MutexLock lock(&mu_);
  count += times_[phase].size();
  while (times_[phase].size() < count && !has_ended_) {
    clock_.WaitUntil(mu_, changed_, absl::InfiniteFuture());
  }
}

std::vector<double> RowBatches::Times(int phase) {
  MutexLock lock(&mu_);
  std::sort(times_[phase].begin(), times_[phase].end());
  return times_[phase];
}

absl::Status RowBatches::Exchange(absl::Span<const uint64_t> keys,
                                  absl::Span<const uint64_t> next) {
  gradients_.resize(keys.size() * load_.dim, 0.01f);
  RETURN_IF_ERROR(rows_->Push(kTable, keys, gradients_, step_, next));
  step_ = step_ + 1;
  RETURN_IF_ERROR(rows_->WaitFor(kTable, absl::InfiniteDuration()).status());
  values_.resize(next.size() * load_.dim);
  if (!next.empty()) rows_->ReadRows(kTable, absl::MakeSpan(values_));
  return absl::OkStatus();
}

}  // namespace capstan
