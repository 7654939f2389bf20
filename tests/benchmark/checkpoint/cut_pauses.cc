#include "tests/benchmark/checkpoint/cut_pauses.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/one_shot.h"
#include "common/base/status_macros.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/checkpoint_writer.h"
#include "server/checkpoint/shard_storage.h"
#include "server/shard/shard_host.h"
#include "tests/benchmark/common/benchmark_job.h"
#include "tests/benchmark/sparse/row_batches.h"

namespace capstan {
namespace {

constexpr uint64_t kToken = 7;
enum Phase { kAlone, kLocked, kCut };

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

absl::Status CopyAll(const CutPauses& load, ShardHost& host, RowBatches& worker,
                     BenchmarkFigures& figures) {
  const auto time = [&](Phase phase, const std::string& name, auto copy) -> absl::Status {
    worker.Await(kAlone, load.between);
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
  const BenchmarkJob job = load.batches.Job();
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardHost> host, job.MakeHost(/*server=*/0));
  RowBatches worker(load.batches, job, host.get(), load.clock);
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
