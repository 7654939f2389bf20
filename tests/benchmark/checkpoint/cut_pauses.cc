#include "tests/benchmark/checkpoint/cut_pauses.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/one_shot.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/checkpoint_writer.h"
#include "server/checkpoint/shard_storage.h"
#include "server/shard/shard_host.h"
#include "tests/benchmark/common/benchmark_job.h"
#include "tests/benchmark/sparse/sparse_load.h"
#include "worker/client/row_store.h"
#include "worker/client/worker_exchanges.h"

namespace capstan {
namespace {

constexpr uint64_t kToken = 7;
constexpr TableId kTable(0);

enum Phase { kAlone, kLocked, kCut, kPhases };

BenchmarkJob JobOf(const CutPauses& load) {
  BenchmarkJob job;
  job.row_dim = load.dim;
  job.slice_bytes = 1 << 20;
  job.shard_count = load.shards;
  job.optimizer = "adagrad";
  return job;
}

// A connection to a host in this process.
class HostConnection : public ParameterEndpoint {
 public:
  explicit HostConnection(ShardHost* host) : host_(*host) {}
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    host_.Exchange(std::move(request), std::move(delivered), std::move(done));
  }

 private:
  ShardHost& host_;
};

// Exchanges batches and keeps their times, by phase. Thread-safe but for Make and Run.
class Worker {
 public:
  Worker(const CutPauses& load, ShardHost* host)
      : load_(load),
        job_(JobOf(load)),
        connect_([host](const std::string&) { return std::make_unique<HostConnection>(host); }),
        client_(job_.MakeClient({"here"}, connect_, load.clock)),
        scheduler_(4 << 20, MakeTransferQueue(v1::SchedulerSpec::PRIORITY)),
        exchanges_({load.clock, client_.get(), &scheduler_, job_.RequestOf(0, 0).sender},
                   /*layer_count=*/0, /*table_count=*/1) {
    RowStore::Options options;
    options.exchanges = &exchanges_;
    options.tables = {job_.TableSpec()};
    options.codecs = {TableCodecs()};
    options.shard_count = load.shards;
    rows_ = std::make_unique<RowStore>(options);
  }

  // Makes all rows.
  absl::Status Make() {
    const std::vector<uint64_t> all = AllKeys(load_.num_keys);
    for (size_t i = 0; i < all.size(); i += kMadeAtOnce) {
      RETURN_IF_ERROR(Exchange(absl::MakeConstSpan(all).subspan(i, kMadeAtOnce), {}));
    }
    return absl::OkStatus();
  }

  // Exchanges batches until Stop.
  absl::Status Run() {
    Random random(/*seed=*/17);
    std::vector<uint64_t> keys = UniformKeys(load_.batch, load_.num_keys, random);
    RETURN_IF_ERROR(Exchange({}, keys));
    while (true) {
      std::vector<uint64_t> next = UniformKeys(load_.batch, load_.num_keys, random);
      const Phase before = phase();
      const absl::Time begin = load_.clock->Now();
      RETURN_IF_ERROR(Exchange(keys, next));
      keys = std::move(next);
      const double milliseconds = absl::ToDoubleMilliseconds(load_.clock->Now() - begin);
      MutexLock lock(&mu_);
      times_[std::max(before, phase_)].push_back(milliseconds);
      changed_.NotifyAll();
      if (is_stopping_) return absl::OkStatus();
    }
  }
  void Stop() {
    MutexLock lock(&mu_);
    is_stopping_ = true;
  }

  Phase phase() {
    MutexLock lock(&mu_);
    return phase_;
  }
  void set_phase(Phase phase) {
    MutexLock lock(&mu_);
    phase_ = phase;
  }
  // Waits for so many more batches of the phase.
  void Await(Phase phase, size_t count) {
    MutexLock lock(&mu_);
    count += times_[phase].size();
    while (times_[phase].size() < count) {
      load_.clock->WaitUntil(mu_, changed_, absl::InfiniteFuture());
    }
  }
  // Ascending.
  std::vector<double> Times(Phase phase) {
    MutexLock lock(&mu_);
    std::sort(times_[phase].begin(), times_[phase].end());
    return times_[phase];
  }

 private:
  static constexpr size_t kMadeAtOnce = 100'000;

  // Pushes these rows and pulls others. Waits for them.
  absl::Status Exchange(absl::Span<const uint64_t> keys, absl::Span<const uint64_t> next) {
    gradients_.resize(keys.size() * load_.dim, 0.01f);
    RETURN_IF_ERROR(rows_->Push(kTable, keys, gradients_, step_, next));
    step_ = step_ + 1;
    RETURN_IF_ERROR(rows_->WaitFor(kTable, absl::InfiniteDuration()).status());
    values_.resize(next.size() * load_.dim);
    if (!next.empty()) rows_->ReadRows(kTable, absl::MakeSpan(values_));
    return absl::OkStatus();
  }

  const CutPauses& load_;
  const BenchmarkJob job_;
  const BenchmarkJob::Connect connect_;
  const std::unique_ptr<ParameterClient> client_;
  Scheduler scheduler_;
  WorkerExchanges exchanges_;
  std::unique_ptr<RowStore> rows_;
  std::vector<float> gradients_, values_;
  Step step_;

  Mutex mu_;
  CondVar changed_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  Phase phase_ ABSL_GUARDED_BY(mu_) = kAlone;
  std::array<std::vector<double>, kPhases> times_ ABSL_GUARDED_BY(mu_);
};

// Cuts the host, and writes the shards as a server does.
absl::Status WriteCut(const CutPauses& load, ShardHost& host) {
  ASSIGN_OR_RETURN(const auto folder, OpenCheckpointFolder(load.dir, kToken));
  ASSIGN_OR_RETURN(const auto storage, OpenShardFolder(load.dir, kToken, {"values"}));
  ASSIGN_OR_RETURN(const std::string name, folder->Create());
  OneShot<bool> has_ended(load.clock);
  CheckpointWriter::Options options;
  options.clock = load.clock;
  options.storage = storage.get();
  options.on_end = [&has_ended] { has_ended.Set(true); };
  CheckpointWriter writer(std::move(options));
  writer.Begin(/*number=*/1, name, host.filled_shards());
  host.CutAt(host.HoldBack(), [&](ShardSnapshot shard) {
    if (!shard.slices.empty()) writer.Add(/*number=*/1, std::move(shard));
  });
  has_ended.Wait();
  const std::string error = writer.part().error();
  folder->Discard(name);
  return error.empty() ? absl::OkStatus() : absl::UnavailableError(error);
}

absl::Status CopyAll(const CutPauses& load, ShardHost& host, Worker& worker,
                     BenchmarkFigures& figures) {
  const auto time = [&](Phase phase, const std::string& name, auto copy) -> absl::Status {
    worker.Await(kAlone, static_cast<size_t>(load.batches));
    worker.set_phase(phase);
    const absl::Time begin = load.clock->Now();
    RETURN_IF_ERROR(copy());
    figures[name + "_seconds"] = absl::ToDoubleSeconds(load.clock->Now() - begin);
    worker.Await(phase, 1);  // the last one that it may have slowed
    worker.set_phase(kAlone);
    return absl::OkStatus();
  };
  // As all shards were cut before rows were copied in parts: each under its lock.
  RETURN_IF_ERROR(time(kLocked, "locked", [&] {
    return host.ReadSlices([](uint64_t, const SliceSnapshot&) { return absl::OkStatus(); });
  }));
  return time(kCut, "cut", [&] { return WriteCut(load, host); });
}

}  // namespace

absl::StatusOr<BenchmarkFigures> MeasureCutPauses(const CutPauses& load) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardHost> host, JobOf(load).MakeHost(/*server=*/0));
  Worker worker(load, host.get());
  RETURN_IF_ERROR(worker.Make());
  absl::Status worked;
  std::thread thread([&] { worked = worker.Run(); });
  BenchmarkFigures figures;
  const absl::Status copied = CopyAll(load, *host, worker, figures);
  worker.Stop();
  thread.join();
  RETURN_IF_ERROR(copied);
  RETURN_IF_ERROR(worked);
  const std::vector<double> alone = worker.Times(kAlone);
  const double median = alone[alone.size() / 2];
  figures["batch_ms"] = median;
  figures["alone_longest_beyond_median_ms"] = alone.back() - median;
  for (const auto& [phase, name] : {std::pair(kLocked, "locked"), std::pair(kCut, "cut")}) {
    const std::vector<double> times = worker.Times(phase);
    figures[std::string(name) + "_batch_ms"] = times[times.size() / 2];
    figures[std::string(name) + "_longest_beyond_median_ms"] = times.back() - median;
  }
  return figures;
}

}  // namespace capstan
