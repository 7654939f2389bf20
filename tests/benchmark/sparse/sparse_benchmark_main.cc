// sparse_benchmark: the rate of pushes and pulls of rows between worker and server processes.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/base/program.h"
#include "common/base/random.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"
#include "common/transport/grpc/grpc_setup.h"
#include "tests/benchmark/common/benchmark_figures.h"
#include "tests/benchmark/common/benchmark_job.h"
#include "tests/benchmark/common/benchmark_transport.h"
#include "tests/benchmark/sparse/sparse_load.h"
#include "tests/process/child_results.h"
#include "tests/process/forked_process.h"
#include "worker/client/row_store.h"
#include "worker/client/store_traffic.h"
#include "worker/client/worker_exchanges.h"

ABSL_FLAG(std::string, transport, "ucx", "grpc or ucx");
ABSL_FLAG(uint32_t, dim, 16, "float32 values of a row, 1 to 1024");
ABSL_FLAG(uint64_t, num_keys, 10'000'000, "rows of the table, made before the clock starts");
ABSL_FLAG(uint64_t, batch, 100'000, "keys of a batch, 1 to 10000000; some may be equal");
ABSL_FLAG(uint64_t, batches, 30, "batches of each worker in a measurement, 2 to 1000");
ABSL_FLAG(uint32_t, shards, 64, "shards of the table");
ABSL_FLAG(int, workers, 1, "worker processes");
ABSL_FLAG(int, servers, 1, "server processes");
ABSL_FLAG(std::string, optimizer, "adagrad", "sgd, adagrad, row_adagrad, adam or ftrl");
ABSL_FLAG(std::string, codec, "float32", "of gradients and values: float32, bfloat16 or int8");
ABSL_FLAG(int, repeat, 3, "measurements; medians are printed");
ABSL_FLAG(bool, json, false, "print one JSON object");

namespace capstan {
namespace {

using Parent = ForkedProcess::Parent;
using Batches = std::vector<std::vector<uint64_t>>;
using Children = std::vector<std::unique_ptr<ForkedProcess>>;

constexpr TableId kTable(0);

BenchmarkTransport Transport() {
  BenchmarkTransport transport;
  transport.transport = absl::GetFlag(FLAGS_transport);
  return transport;
}

BenchmarkJob Job() {
  BenchmarkJob job;
  job.row_dim = absl::GetFlag(FLAGS_dim);
  job.slice_bytes = 1 << 20;
  job.shard_count = absl::GetFlag(FLAGS_shards);
  job.num_workers = absl::GetFlag(FLAGS_workers);
  job.num_servers = absl::GetFlag(FLAGS_servers);
  job.optimizer = absl::GetFlag(FLAGS_optimizer);
  job.codec = absl::GetFlag(FLAGS_codec);
  return job;
}

// Serves until the parent writes a line. Then tells the memory of its rows.
absl::Status Serve(int server, Parent& parent) {
  SendGrpcLogsToVlog();
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardHost> host, Job().MakeHost(server));
  RETURN_IF_ERROR(Transport().Serve(host.get(), parent));
  const SliceMemory memory = host->counts().memory;
  parent.WriteLine(absl::StrCat(memory.parameters + memory.optimizer));
  return absl::OkStatus();
}

// A worker's part of the measurement.
class Worker {
 public:
  Worker(int worker, const std::vector<std::string>& addresses)
      : worker_(worker),
        connect_(Transport().Connector(&clock_)),
        client_(Job().MakeClient(addresses, connect_, &clock_)),
        scheduler_(4 << 20, MakeTransferQueue(v1::SchedulerSpec::PRIORITY)),
        exchanges_(
            {&clock_, client_.get(), &scheduler_, Job().RequestOf(worker, /*slice=*/0).sender},
            /*layer_count=*/0, /*table_count=*/1) {
    RowStore::Options options;
    options.exchanges = &exchanges_;
    options.tables = {Job().TableSpec()};
    options.codecs = {Job().Codecs().value()};  // CheckFlags has tried it
    options.shard_count = Job().shard_count;
    rows_ = std::make_unique<RowStore>(options);
  }

  // Makes this worker's part of all rows.
  absl::Status MakeRows() {
    const std::vector<uint64_t> all = AllKeys(absl::GetFlag(FLAGS_num_keys));
    const size_t part = all.size() / absl::GetFlag(FLAGS_workers) + 1;
    const absl::Span<const uint64_t> own =
        absl::MakeConstSpan(all).subspan(std::min(all.size(), worker_ * part), part);
    for (size_t i = 0; i < own.size(); i += absl::GetFlag(FLAGS_batch)) {
      RETURN_IF_ERROR(Push(own.subspan(i, absl::GetFlag(FLAGS_batch)), {}));
    }
    return Wait();
  }

  // Prepares each push while the one before is on its way.
  absl::StatusOr<double> SecondsOfPushes(const Batches& batches) {
    return SecondsOf(batches.size() + 1,
                     [&](size_t i) { return i < batches.size() ? Push(batches[i], {}) : Wait(); });
  }
  // Prepares each pull, and reads the rows of the one before the last, while the last one is on its
  // way.
  absl::StatusOr<double> SecondsOfPulls(const Batches& batches) {
    std::vector<float> rows(absl::GetFlag(FLAGS_batch) * Job().row_dim);
    return SecondsOf(batches.size() + 1, [&](size_t i) -> absl::Status {
      if (i == batches.size()) {
        RETURN_IF_ERROR(Wait());
        rows_->ReadRows(kTable, absl::MakeSpan(rows));
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(rows_->Pull(kTable, batches[i], step_));
      if (i > 0) rows_->ReadEarlierRows(kTable, absl::MakeSpan(rows));
      return absl::OkStatus();
    });
  }
  // Each pushes the rows that the one before has pulled, and pulls others. Keeps the times.
  absl::StatusOr<double> SecondsOfExchanges(const Batches& batches) {
    std::vector<float> rows(absl::GetFlag(FLAGS_batch) * Job().row_dim);
    RETURN_IF_ERROR(Push({}, batches[0]));
    RETURN_IF_ERROR(Wait());
    BytesOf(1);  // of the exchanges that follow
    return SecondsOf(batches.size() - 1, [&](size_t i) -> absl::Status {
      rows_->ReadRows(kTable, absl::MakeSpan(rows));
      const absl::Time begin = clock_.Now();
      RETURN_IF_ERROR(Push(batches[i], batches[i + 1]));
      RETURN_IF_ERROR(Wait());
      microseconds_.push_back(absl::ToDoubleMicroseconds(clock_.Now() - begin));
      return absl::OkStatus();
    });
  }
  // The bytes of a key since the last call, up and down, as a part's results have them.
  std::string BytesOf(size_t batches) {
    const double keys = static_cast<double>(absl::GetFlag(FLAGS_batch) * batches);
    const StoreTraffic before = std::exchange(traffic_, exchanges_.traffic().traffic());
    return absl::StrCat(" ", (traffic_.bytes_pushed - before.bytes_pushed) / keys, " ",
                        (traffic_.bytes_pulled - before.bytes_pulled) / keys);
  }
  double Percentile(double share) {
    std::sort(microseconds_.begin(), microseconds_.end());
    return microseconds_.at(static_cast<size_t>(share * (microseconds_.size() - 1)));
  }

 private:
  absl::Status Push(absl::Span<const uint64_t> keys, absl::Span<const uint64_t> next) {
    gradients_.resize(keys.size() * Job().row_dim, 0.01f);
    RETURN_IF_ERROR(rows_->Push(kTable, keys, gradients_, step_, next));
    step_ = step_ + 1;
    return absl::OkStatus();
  }
  absl::Status Wait() { return rows_->WaitFor(kTable, absl::InfiniteDuration()).status(); }
  absl::StatusOr<double> SecondsOf(size_t count, absl::FunctionRef<absl::Status(size_t i)> run) {
    const absl::Time begin = clock_.Now();
    for (size_t i = 0; i < count; ++i) RETURN_IF_ERROR(run(i));
    return absl::ToDoubleSeconds(clock_.Now() - begin);
  }

  const size_t worker_;
  RealClock clock_;
  const ServerConnector connect_;
  const std::unique_ptr<ParameterClient> client_;
  Scheduler scheduler_;
  WorkerExchanges exchanges_;
  std::unique_ptr<RowStore> rows_;
  std::vector<float> gradients_;
  std::vector<double> microseconds_;
  StoreTraffic traffic_;
  Step step_;
};

Batches BatchesOf(int worker, bool is_zipf) {
  Random random(/*seed=*/17 + worker, /*stream=*/is_zipf);
  const uint64_t num_keys = absl::GetFlag(FLAGS_num_keys);
  Batches batches;
  for (uint64_t i = 0; i < absl::GetFlag(FLAGS_batches); ++i) {
    const uint64_t size = absl::GetFlag(FLAGS_batch);
    batches.push_back(is_zipf ? ZipfKeys(size, num_keys, random)
                              : UniformKeys(size, num_keys, random));
  }
  return batches;
}

// Each part begins with a line of the parent, and ends with one to it.
absl::Status Work(int worker, const std::vector<std::string>& addresses, Parent& parent) {
  SendGrpcLogsToVlog();
  Worker work(worker, addresses);
  RETURN_IF_ERROR(work.MakeRows());
  for (const bool is_zipf : {false, true}) {
    const Batches batches = BatchesOf(worker, is_zipf);
    parent.WriteLine("ready");
    parent.ReadLine();
    work.BytesOf(1);
    ASSIGN_OR_RETURN(const double pushes, work.SecondsOfPushes(batches));
    parent.WriteLine(absl::StrCat(pushes, work.BytesOf(batches.size())));
    parent.ReadLine();
    ASSIGN_OR_RETURN(const double pulls, work.SecondsOfPulls(batches));
    parent.WriteLine(absl::StrCat(pulls, work.BytesOf(batches.size())));
    parent.ReadLine();
    ASSIGN_OR_RETURN(const double exchanges, work.SecondsOfExchanges(batches));
    parent.WriteLine(absl::StrCat(exchanges, work.BytesOf(batches.size() - 1), " ",
                                  work.Percentile(0.5), " ", work.Percentile(0.99)));
    parent.ReadLine();
  }
  return absl::OkStatus();
}

// Copies of rows that an absl::flat_hash_map finds.
double HashMapMillionsPerSecond(bool is_zipf) {
  const size_t dim = absl::GetFlag(FLAGS_dim);
  absl::flat_hash_map<uint64_t, size_t> places;
  for (const uint64_t key : AllKeys(absl::GetFlag(FLAGS_num_keys))) {
    places.emplace(key, places.size());
  }
  const std::vector<float> rows(places.size() * dim, 1);
  std::vector<float> found(absl::GetFlag(FLAGS_batch) * dim);
  const Batches batches = BatchesOf(/*worker=*/0, is_zipf);
  const double seconds = CpuSeconds([&] {
    for (const std::vector<uint64_t>& batch : batches) {
      for (size_t i = 0; i < batch.size(); ++i) {
        const float* const row = &rows[places.find(batch[i])->second * dim];
        std::memcpy(&found[i * dim], row, dim * sizeof(float));
      }
    }
  });
  return MillionsPerSecond(batches.size() * absl::GetFlag(FLAGS_batch), seconds);
}

// The numbers of each worker's line: the largest of each.
std::vector<double> LargestOf(const std::vector<std::string>& lines) {
  std::vector<double> largest;
  for (const std::string& line : lines) {
    std::istringstream numbers(line);
    double number;
    for (size_t i = 0; numbers >> number; ++i) {
      largest.resize(std::max(largest.size(), i + 1));
      largest[i] = std::max(largest[i], number);
    }
  }
  return largest;
}

// All workers begin the next part.
void GoOn(Children& workers) {
  for (const auto& worker : workers) worker->WriteLine("go on");
}

absl::Duration CpuTimeOf(const Children& children) {
  absl::Duration sum;
  for (const auto& child : children) sum += child->CpuTime();
  return sum;
}

// Waits for the end of a part with `keys` keys. Adds the nanoseconds of CPU time of a key, which
// say more than rates where other programs use the cores.
absl::StatusOr<std::vector<double>> MeasurePart(const std::string& name, double keys,
                                                const Children& servers, Children& workers,
                                                BenchmarkFigures& figures) {
  const absl::Duration servers_before = CpuTimeOf(servers), workers_before = CpuTimeOf(workers);
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ChildResults(workers));
  const absl::Duration servers_after = CpuTimeOf(servers), workers_after = CpuTimeOf(workers);
  const std::vector<double> results = LargestOf(lines);
  figures[name + "_mkeys_per_s"] = keys / results.at(0) / 1e6;
  figures[name + "_server_ns"] = absl::ToDoubleNanoseconds(servers_after - servers_before) / keys;
  figures[name + "_worker_ns"] = absl::ToDoubleNanoseconds(workers_after - workers_before) / keys;
  figures[name + "_up_bytes"] = results.at(1);
  figures[name + "_down_bytes"] = results.at(2);
  GoOn(workers);
  return results;
}

absl::Status MeasureKeys(const std::string& prefix, bool is_zipf, const Children& servers,
                         Children& workers, BenchmarkFigures& figures) {
  RETURN_IF_ERROR(ChildResults(workers).status());
  GoOn(workers);
  const double batch = static_cast<double>(absl::GetFlag(FLAGS_batch)) * workers.size();
  const double keys = batch * static_cast<double>(absl::GetFlag(FLAGS_batches));
  RETURN_IF_ERROR(MeasurePart(prefix + "push", keys, servers, workers, figures).status());
  RETURN_IF_ERROR(MeasurePart(prefix + "pull", keys, servers, workers, figures).status());
  ASSIGN_OR_RETURN(const std::vector<double> exchanges,
                   MeasurePart(prefix + "exchange", keys - batch, servers, workers, figures));
  figures[prefix + "p50_us"] = exchanges.at(3);
  figures[prefix + "p99_us"] = exchanges.at(4);
  figures[prefix + "hash_map_mkeys_per_s"] = HashMapMillionsPerSecond(is_zipf);
  return absl::OkStatus();
}

absl::StatusOr<BenchmarkFigures> Measure() {
  Children servers, workers;
  for (int i = 0; i < absl::GetFlag(FLAGS_servers); ++i) {
    servers.push_back(StartChild([i](Parent& parent) { return Serve(i, parent); }));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ChildResults(servers));
  for (int i = 0; i < absl::GetFlag(FLAGS_workers); ++i) {
    workers.push_back(StartChild([&, i](Parent& parent) { return Work(i, addresses, parent); }));
  }
  BenchmarkFigures figures;
  RETURN_IF_ERROR(MeasureKeys("", /*is_zipf=*/false, servers, workers, figures));
  RETURN_IF_ERROR(MeasureKeys("zipf_", /*is_zipf=*/true, servers, workers, figures));
  for (const auto& server : servers) server->WriteLine("end");
  ASSIGN_OR_RETURN(const std::vector<std::string> memories, ChildResults(servers));
  double bytes = 0;
  for (const std::string& memory : memories) bytes += std::stod(memory);
  figures["bytes_per_row"] = bytes / static_cast<double>(absl::GetFlag(FLAGS_num_keys));
  return figures;
}

absl::Status CheckRange(const std::string& flag, uint64_t value, uint64_t least, uint64_t largest) {
  if (value >= least && value <= largest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, ": expected ", least, " to ", largest, ", got ", value));
}

absl::Status CheckFlags() {
  RETURN_IF_ERROR(Transport().Check());
  RETURN_IF_ERROR(CheckRange("dim", absl::GetFlag(FLAGS_dim), 1, 1024));
  RETURN_IF_ERROR(CheckRange("num_keys", absl::GetFlag(FLAGS_num_keys), 1, uint64_t{1} << 32));
  RETURN_IF_ERROR(CheckRange("batch", absl::GetFlag(FLAGS_batch), 1, 10'000'000));
  RETURN_IF_ERROR(CheckRange("batches", absl::GetFlag(FLAGS_batches), 2, 1000));
  RETURN_IF_ERROR(CheckRange("shards", absl::GetFlag(FLAGS_shards), 1, 65536));
  RETURN_IF_ERROR(CheckRange("workers", absl::GetFlag(FLAGS_workers), 1, 64));
  RETURN_IF_ERROR(CheckRange("servers", absl::GetFlag(FLAGS_servers), 1, 64));
  if (const absl::StatusOr<TableCodecs> codecs = Job().Codecs();
      !codecs.ok() || IsTopk(codecs->push->type())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--codec: expected float32, bfloat16 or int8, got ", absl::GetFlag(FLAGS_codec)));
  }
  RETURN_IF_ERROR(CheckRange("repeat", absl::GetFlag(FLAGS_repeat), 1, 1000));
  return Job().MakeHost(0).status();
}

absl::Status Run() {
  std::vector<BenchmarkFigures> runs;
  for (int i = 0; i < absl::GetFlag(FLAGS_repeat); ++i) {
    ASSIGN_OR_RETURN(runs.emplace_back(), Measure());
  }
  const BenchmarkFigures medians = MediansOf(runs);
  if (absl::GetFlag(FLAGS_json)) {
    std::cout << medians.dump() << "\n";
  } else {
    PrintFigures(medians);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(
      argv[0],
      "measures pushes of rows alone, pulls alone, and exchanges of both, in 10^6 keys a second, "
      "for keys drawn uniformly and by Zipf's law (zipf_...). A worker prepares a push or pull "
      "while the one before is on its way, and reads the pulled rows meanwhile, as a program does "
      "that knows its next keys. It waits for each exchange of both. Grouping the keys, adding up "
      "gradients and copying rows count; drawing the keys does not. p50 and p99 are of one "
      "exchange. ..._server_ns and ..._worker_ns: CPU time of all servers and of all workers for a "
      "key. ..._up_bytes, ..._down_bytes: a worker's bytes for a key, its key included; in an "
      "exchange a push refers to the keys of its pull. hash_map: copies of rows that an "
      "absl::flat_hash_map finds, on one "
      "thread.\n"
      "  sparse_benchmark [--dim=16] [--num_keys=10000000] [--batch=100000] [--workers=1] "
      "[--servers=1] [--transport=ucx] [--optimizer=adagrad] [--codec=float32] [--json]");
  const absl::Status parsed = capstan::ParseProgramFlags({argv, argv + argc});
  if (!parsed.ok()) capstan::EndProgram("sparse_benchmark", parsed, /*is_usage_error=*/true);
  const absl::Status checked = capstan::CheckFlags();
  if (!checked.ok()) capstan::EndProgram("sparse_benchmark", checked, /*is_usage_error=*/true);
  capstan::EndProgram("sparse_benchmark", capstan::Run());
}
