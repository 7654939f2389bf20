// metrics_benchmark: what counting and measuring for metrics adds to an exchange, and a scrape.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/metrics/metrics_sources.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"
#include "server/service/server_metrics.h"
#include "server/shard/shard_host.h"
#include "tests/benchmark/common/benchmark_figures.h"
#include "tests/benchmark/common/benchmark_job.h"

ABSL_FLAG(int, steps, 4000, "measured steps, each of 64 exchanges");
ABSL_FLAG(bool, json, false, "print one JSON object as the last line");

namespace capstan {
namespace {

constexpr uint32_t kSlices = 64;
constexpr uint64_t kSliceBytes = 16;

// The median of many short times is right on a busy machine, too: few of them are interrupted.
double MedianNanoseconds(std::vector<absl::Duration> times) {
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return absl::ToDoubleNanoseconds(times[times.size() / 2]);
}

// Pushes and pulls small slices of one host.
class ServerPart {
 public:
  static absl::StatusOr<ServerPart> Create(const Clock* clock) {
    BenchmarkJob job;
    job.slice_bytes = kSliceBytes;
    job.table_bytes = kSliceBytes * kSlices;
    job.server_clock = clock;
    ASSIGN_OR_RETURN(std::unique_ptr<ShardHost> host, job.MakeHost(/*server=*/0));
    return ServerPart(job, std::move(host));
  }
  void RunStep(int step) {
    for (uint32_t slice = 0; slice < kSlices; ++slice) {
      ExchangeRequest request = job_.RequestOf(/*worker=*/0, slice);
      request.purpose = DenseStep{
          StepPush{Step(step), Gradient{Payload(absl::MakeConstSpan(*gradient_), gradient_)}},
          StepPull{Step(step + 1)}};
      const absl::Time begin = absl::Now();
      host_->Exchange(
          std::move(request), [] {}, [](const ExchangeReply&) {});
      times_.push_back(absl::Now() - begin);
    }
  }
  double nanoseconds() const { return MedianNanoseconds(times_); }
  const ShardHost& host() const { return *host_; }

 private:
  ServerPart(const BenchmarkJob& job, std::unique_ptr<ShardHost> host)
      : job_(job), host_(std::move(host)) {}

  BenchmarkJob job_;
  std::unique_ptr<ShardHost> host_;
  std::shared_ptr<std::vector<float>> gradient_ =
      std::make_shared<std::vector<float>>(kSliceBytes / sizeof(float));
  std::vector<absl::Duration> times_;
};

// Lets transfers wait for the one before.
class SchedulerPart {
 public:
  explicit SchedulerPart(const Clock* clock)
      : scheduler_(/*credit_bytes=*/1, std::make_unique<PriorityQueue>(), clock) {}

  void RunStep() {
    for (uint32_t i = 0; i < kSlices; ++i) {
      const absl::Time begin = absl::Now();
      Transfer transfer;
      transfer.bytes = 1;
      transfer.start = [this](absl::AnyInvocable<void()> credited) {
        on_its_way_ = std::move(credited);
      };
      scheduler_.Submit(std::move(transfer));
      if (i > 0) std::exchange(on_its_way_, nullptr)();
      times_.push_back(absl::Now() - begin);
    }
    std::exchange(on_its_way_, nullptr)();
  }
  double nanoseconds() const { return MedianNanoseconds(times_); }

 private:
  Scheduler scheduler_;
  absl::AnyInvocable<void()> on_its_way_;
  std::vector<absl::Duration> times_;
};

double ScrapeNanoseconds(const ShardHost& host) {
  MetricsSources sources;
  const auto registration = sources.Add([&host](MetricsPage& page) {
    AddShardMetrics(host.counts(), host.non_finite_pushes(), /*num_workers=*/1, page);
  });
  std::vector<absl::Duration> times;
  for (int i = 0; i < 100; ++i) {
    const absl::Time begin = absl::Now();
    const std::string page = sources.Text();
    times.push_back(absl::Now() - begin);
  }
  return MedianNanoseconds(std::move(times));
}

absl::Status Run() {
  RealClock clock;
  ASSIGN_OR_RETURN(ServerPart measured, ServerPart::Create(&clock));
  ASSIGN_OR_RETURN(ServerPart unmeasured, ServerPart::Create(nullptr));
  SchedulerPart measured_queue(&clock);
  SchedulerPart unmeasured_queue(nullptr);
  for (int step = 0; step < absl::GetFlag(FLAGS_steps); ++step) {
    measured.RunStep(step);
    unmeasured.RunStep(step);
    measured_queue.RunStep();
    unmeasured_queue.RunStep();
  }
  BenchmarkFigures figures;
  figures["server_ns"] = measured.nanoseconds();
  figures["server_ns_without_times"] = unmeasured.nanoseconds();
  figures["scheduler_ns"] = measured_queue.nanoseconds();
  figures["scheduler_ns_without_times"] = unmeasured_queue.nanoseconds();
  figures["scrape_us"] = ScrapeNanoseconds(measured.host()) / 1000;
  PrintFigures(figures);
  if (absl::GetFlag(FLAGS_json)) std::cout << figures.dump() << std::endl;
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(
      argv[0],
      "measures what metrics add to an exchange of 16 bytes: at its server, and in "
      "the scheduler of its worker, with and without their times; and one scrape "
      "of a server.\n"
      "  metrics_benchmark [--json]");
  absl::Status status = capstan::ParseProgramFlags({argv, argv + argc});
  if (status.ok() && absl::GetFlag(FLAGS_steps) < 1) {
    status = absl::InvalidArgumentError("--steps: expected 1 or more");
  }
  if (!status.ok()) capstan::EndProgram("metrics_benchmark", status, /*is_usage_error=*/true);
  capstan::EndProgram("metrics_benchmark", capstan::Run());
}
