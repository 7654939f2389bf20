// copy_benchmark: how fast the copies of shards are made, how long batches of rows take meanwhile,
// what a link with a delay adds to a step, and what a server keeps for a copy behind a slow one. A
// server has its own copies here: changes
// go over gRPC and loopback all the same.
#include <algorithm>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/exchange/request_parts.h"
#include "common/transport/grpc/grpc_setup.h"
#include "server/shard/shard_host.h"
#include "tests/benchmark/common/benchmark_figures.h"
#include "tests/benchmark/common/benchmark_job.h"
#include "tests/benchmark/copy/copied_host.h"
#include "tests/benchmark/copy/slow_link.h"
#include "tests/benchmark/sparse/row_batches.h"
#include "tests/benchmark/step/bsp_step_load.h"
#include "tests/benchmark/step/step_times.h"
#include "tests/process/shared_barrier.h"

ABSL_FLAG(uint64_t, bytes, 1'000'000'000,
          "bytes of float32 parameters, copied while nothing else happens; the copies have three "
          "times as many, for Adam; 0: not measured");
ABSL_FLAG(uint64_t, rows, 10'000'000,
          "rows of 16 values under Adagrad, copied while batches of them are exchanged; 0: not "
          "measured");
ABSL_FLAG(uint64_t, row_batch, 10'000, "keys of such a batch");
ABSL_FLAG(
    absl::Duration, delay, absl::Milliseconds(20),
    "delay of each change on its way to the copies, while two workers train 100 MB under BSP; "
    "0: not measured");
ABSL_FLAG(int, steps, 20, "timed steps of these workers, with and without the delay");
ABSL_FLAG(uint64_t, slow_bytes, 16'000'000,
          "bytes of float32 parameters that four workers push as fast as they can under async, "
          "while the link to the copies is slow, and then cut; 0: not measured");
ABSL_FLAG(double, gbit, 0.1, "rate of the slow link, Gbit/s");
ABSL_FLAG(absl::Duration, slow_for, absl::Seconds(10), "time for which workers push");
ABSL_FLAG(absl::Duration, cut_for, absl::Seconds(5),
          "time for which the link is cut, in the middle");
ABSL_FLAG(bool, json, false, "print one JSON object as the last line");

namespace capstan {
namespace {

constexpr uint64_t kSliceBytes = 1 << 20;

absl::StatusOr<BenchmarkFigures> MeasureDense(Clock* clock) {
  BenchmarkJob job;
  job.table_bytes = absl::GetFlag(FLAGS_bytes);
  job.slice_bytes = kSliceBytes;
  job.optimizer = "adam";
  job.has_copies = true;
  ASSIGN_OR_RETURN(const std::unique_ptr<CopiedHost> copied, CopiedHost::Create(job, clock));
  const absl::Time begin = clock->Now();
  const uint64_t bytes = copied->MakeCopies();
  const double seconds = absl::ToDoubleSeconds(clock->Now() - begin);
  return BenchmarkFigures{{"copy_seconds", seconds},
                          {"copy_gb_per_s", static_cast<double>(bytes) / seconds / 1e9}};
}

absl::StatusOr<BenchmarkFigures> MeasureRows(Clock* clock) {
  constexpr int kAlone = 0, kCopied = 1;
  constexpr size_t kBatches = 200;  // before the copies are made; a tenth of them afterwards
  RowBatchesLoad load;
  load.num_keys = absl::GetFlag(FLAGS_rows);
  load.batch = absl::GetFlag(FLAGS_row_batch);
  BenchmarkJob job = load.Job();
  job.has_copies = true;
  ASSIGN_OR_RETURN(const std::unique_ptr<CopiedHost> copied, CopiedHost::Create(job, clock));
  RowBatches worker(load, job, &copied->host(), clock);
  RETURN_IF_ERROR(worker.Make());
  absl::Status worked;
  std::thread thread([&] { worked = worker.Run(); });
  worker.Await(kAlone, kBatches);
  worker.set_phase(kCopied);
  const absl::Time begin = clock->Now();
  const uint64_t bytes = copied->MakeCopies();
  const double seconds = absl::ToDoubleSeconds(clock->Now() - begin);
  worker.Await(kCopied, kBatches / 10);  // also the last one that it may have slowed
  worker.Stop();
  thread.join();
  RETURN_IF_ERROR(worked);
  const std::vector<double> alone = worker.Times(kAlone);
  const std::vector<double> times = worker.Times(kCopied);
  const double median = times[times.size() / 2];
  return BenchmarkFigures{{"rows_copy_seconds", seconds},
                          {"rows_copy_gb_per_s", static_cast<double>(bytes) / seconds / 1e9},
                          {"batch_ms", alone[alone.size() / 2]},
                          {"copied_batch_ms", median},
                          {"longest_beyond_median_ms", times.back() - median}};
}

// A step of workers in this process with copies, in milliseconds. `delay` none: without copies.
absl::StatusOr<double> StepMilliseconds(std::optional<absl::Duration> delay, Clock* clock) {
  BspStepLoad load;
  load.bytes = 100'000'000;
  load.steps = absl::GetFlag(FLAGS_steps);
  BenchmarkJob job = load.Job();
  job.has_copies = delay.has_value();
  SlowLink link(/*gbit=*/std::numeric_limits<double>::infinity(),
                delay.value_or(absl::ZeroDuration()), clock);
  ASSIGN_OR_RETURN(const std::unique_ptr<CopiedHost> copied, CopiedHost::Create(job, clock, &link));
  if (delay.has_value()) copied->MakeCopies();
  const BenchmarkJob::Connect connect = [&copied](const std::string&) {
    return std::make_unique<HostConnection>(&copied->host());
  };
  SharedBarrier barrier(load.num_workers);
  std::vector<StepTimes> times(load.num_workers);
  std::vector<absl::Status> statuses(load.num_workers);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < load.num_workers; ++worker) {
    threads.emplace_back([&, worker] {
      const std::unique_ptr<ParameterClient> client = job.MakeClient({"here"}, connect, clock);
      absl::StatusOr<StepTimes> run = RunBspSteps(
          load, worker, client.get(), [&barrier] { barrier.Wait(); }, clock);
      statuses[worker] = run.status();
      if (run.ok()) times[worker] = *std::move(run);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  return MedianStepMilliseconds(times);
}

absl::StatusOr<BenchmarkFigures> MeasureDelay(Clock* clock) {
  ASSIGN_OR_RETURN(const double alone, StepMilliseconds(std::nullopt, clock));
  ASSIGN_OR_RETURN(const double near, StepMilliseconds(absl::ZeroDuration(), clock));
  ASSIGN_OR_RETURN(const double far, StepMilliseconds(absl::GetFlag(FLAGS_delay), clock));
  return BenchmarkFigures{{"step_ms", alone}, {"copied_step_ms", near}, {"delayed_step_ms", far}};
}

// Workers that push all slices again and again, each once it was answered. Counts the answers.
class Pushers {
 public:
  static constexpr int kWorkers = 4;

  Pushers(const BenchmarkJob& job, ShardHost* host, Clock* clock, absl::Duration time)
      : job_(job), host_(*host), clock_(*clock), ends_(clock->Now() + time) {
    const auto slices = static_cast<uint32_t>(job.table_bytes / job.slice_bytes);
    gradient_.resize(job.slice_bytes / sizeof(float), 1e-3f);
    MutexLock lock(&mu_);
    open_ = kWorkers * static_cast<int>(slices);
    for (int worker = 0; worker < kWorkers; ++worker) {
      for (uint32_t slice = 0; slice < slices; ++slice) {
        threads_.emplace_back([this, worker, slice] { Push(worker, slice); });
      }
    }
  }
  ~Pushers() {
    for (std::thread& thread : threads_) thread.join();
  }
  bool are_done() {
    MutexLock lock(&mu_);
    return open_ == 0;
  }
  int64_t answered() {
    MutexLock lock(&mu_);
    return answered_;
  }
  absl::Status status() {
    MutexLock lock(&mu_);
    return status_;
  }

 private:
  void Push(int worker, uint32_t slice) {
    for (int64_t step = 0; clock_.Now() < ends_; ++step) {
      ExchangeRequest request = job_.RequestOf(worker, slice);
      const auto gradient = std::make_shared<std::vector<float>>(gradient_);
      request.purpose = MakeDenseStep(Step(step), std::nullopt, Payload(*gradient, gradient));
      Mutex mu;
      CondVar changed;
      bool is_answered = false;
      host_.Exchange(
          std::move(request), [] {},
          [&](const ExchangeReply& reply) {
            {
              MutexLock lock(&mu_);
              if (!reply.status.ok()) status_ = reply.status;
              ++answered_;
            }
            MutexLock lock(&mu);
            is_answered = true;
            changed.NotifyAll();
          });
      MutexLock lock(&mu);
      while (!is_answered) clock_.WaitUntil(mu, changed, absl::InfiniteFuture());
    }
    MutexLock lock(&mu_);
    --open_;
  }

  const BenchmarkJob& job_;
  ShardHost& host_;
  Clock& clock_;
  const absl::Time ends_;
  std::vector<float> gradient_;
  Mutex mu_;
  int open_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t answered_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

absl::StatusOr<BenchmarkFigures> MeasureSlow(Clock* clock) {
  BenchmarkJob job;
  job.slice_bytes = kSliceBytes;
  job.table_bytes = absl::GetFlag(FLAGS_slow_bytes) / job.slice_bytes * job.slice_bytes;
  job.num_workers = Pushers::kWorkers;
  job.shard_count = 8;
  job.has_copies = true;
  SlowLink slow(absl::GetFlag(FLAGS_gbit), /*delay=*/absl::ZeroDuration(), clock);
  ASSIGN_OR_RETURN(const std::unique_ptr<CopiedHost> copied, CopiedHost::Create(job, clock, &slow));
  copied->MakeCopies();
  const absl::Duration time = absl::GetFlag(FLAGS_slow_for);
  Pushers pushers(job, &copied->host(), clock, time);
  const absl::Time cut_at = clock->Now() + time / 2;
  bool is_cut = false;
  uint64_t most = 0;
  uint64_t held = 0;
  const auto look = [&] {
    uint64_t bytes = 0;
    uint64_t replies = 0;
    for (const auto& [shard, copy] : copied->host().copies()) {
      bytes += copy.bytes_unanswered;
      replies += copy.held_replies;
    }
    most = std::max(most, bytes);
    held = std::max(held, replies);
    return bytes;
  };
  while (!pushers.are_done()) {
    if (!is_cut && clock->Now() >= cut_at) {
      slow.CutUntil(clock->Now() + absl::GetFlag(FLAGS_cut_for));
      is_cut = true;
    }
    look();
    absl::SleepFor(absl::Milliseconds(1));
  }
  while (look() > 0) absl::SleepFor(absl::Milliseconds(1));
  RETURN_IF_ERROR(pushers.status());
  // Nothing is lost: the copies have as many updates as there were answers.
  uint64_t updates = 0;
  for (const ShardId shard : copied->host().shards()) {
    copied->host().backup(shard)->LookAt([&](uint64_t, bool, const ShardContents& contents) {
      for (const auto& [key, slice] : contents.slices) updates += slice->version();
    });
  }
  if (updates != static_cast<uint64_t>(pushers.answered())) {
    return absl::InternalError(absl::StrCat("expected ", pushers.answered(),
                                            " updates in the copies, as many as answers, got ",
                                            updates));
  }
  return BenchmarkFigures{
      {"slow_answered_pushes", pushers.answered()},
      {"slow_most_held_replies", held},
      {"slow_most_unanswered_mb", static_cast<double>(most) / 1e6},
      {"slow_bound_mb", static_cast<double>(job.table_bytes) * Pushers::kWorkers / 1e6}};
}

absl::Status Run() {
  SendGrpcLogsToVlog();
  RealClock clock;
  BenchmarkFigures figures;
  const std::pair<uint64_t, absl::StatusOr<BenchmarkFigures> (*)(Clock*)> parts[] = {
      {absl::GetFlag(FLAGS_bytes), MeasureDense},
      {absl::GetFlag(FLAGS_rows), MeasureRows},
      {absl::ToInt64Nanoseconds(absl::GetFlag(FLAGS_delay)), MeasureDelay},
      {absl::GetFlag(FLAGS_slow_bytes), MeasureSlow},
  };
  for (const auto& [size, measure] : parts) {
    if (size == 0) continue;
    ASSIGN_OR_RETURN(const BenchmarkFigures measured, measure(&clock));
    figures.update(measured);
  }
  if (absl::GetFlag(FLAGS_json)) {
    std::cout << figures.dump() << std::endl;
  } else {
    PrintFigures(figures);
  }
  return absl::OkStatus();
}

absl::Status CheckFlags() {
  if (absl::GetFlag(FLAGS_bytes) % 4 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--bytes: expected whole float32, a multiple of 4, got ", absl::GetFlag(FLAGS_bytes)));
  }
  const uint64_t slow = absl::GetFlag(FLAGS_slow_bytes);
  if (slow > 0 && slow < kSliceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--slow_bytes: expected 0, or ", kSliceBytes, " or more, got ", slow));
  }
  if (absl::GetFlag(FLAGS_row_batch) < 1 || !(absl::GetFlag(FLAGS_gbit) > 0) ||
      absl::GetFlag(FLAGS_delay) < absl::ZeroDuration() || absl::GetFlag(FLAGS_steps) < 1) {
    return absl::InvalidArgumentError(
        "expected --row_batch and --steps of 1 or more, --gbit of more than 0, and --delay of 0 or "
        "more");
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "measures how fast the copies of shards are made, how long batches of rows "
                       "take meanwhile, and what a server keeps for a copy behind a slow link.\n"
                       "  copy_benchmark [--bytes=1000000000] [--rows=10000000] [--json]");
  absl::Status status = capstan::ParseProgramFlags({argv, argv + argc});
  if (status.ok()) status = capstan::CheckFlags();
  if (!status.ok()) capstan::EndProgram("copy_benchmark", status, /*is_usage_error=*/true);
  capstan::EndProgram("copy_benchmark", capstan::Run());
}
