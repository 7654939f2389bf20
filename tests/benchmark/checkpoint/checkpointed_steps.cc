#include "tests/benchmark/checkpoint/checkpointed_steps.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/job.pb.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/manifest.h"
#include "tests/benchmark/common/timed_engine.h"
#include "tests/cluster/grpc_cluster_transport.h"
#include "tests/cluster/local_cluster.h"
#include "tests/process/peak_memory.h"
#include "worker/runtime/make_engine.h"

namespace capstan {
namespace {

v1::JobSpec SpecOf(const CheckpointedSteps& job) {
  v1::JobSpec spec;
  spec.mutable_cluster()->set_num_workers(static_cast<uint32_t>(job.num_workers));
  spec.mutable_cluster()->set_num_servers(1);
  spec.mutable_model()->set_type(v1::ModelSpec::REPLAY);
  v1::ReplaySpec& replay = *spec.mutable_model()->mutable_replay();
  replay.set_layers(job.layers);
  replay.set_scale(job.scale);
  replay.set_compute_seconds(absl::ToDoubleSeconds(job.compute));
  spec.mutable_training()->set_steps(static_cast<uint64_t>(job.steps));
  spec.mutable_optimizer()->set_type(v1::OptimizerSpec::ADAM);
  spec.mutable_checkpoint()->set_dir(job.dir);
  spec.mutable_checkpoint()->set_keep(1);
  return spec;
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Orders a checkpoint some steps after the last one was complete. Thread-safe.
class Orders {
 public:
  Orders(int steps_between, Clock* clock) : steps_between_(steps_between), clock_(clock) {}

  // `coordinator` stays until the last step.
  void SetCoordinator(CoordinatorEndpoint* coordinator) { coordinator_ = coordinator; }

  // Before a step of one worker.
  void OnStep() {
    {
      MutexLock lock(&mu_);
      if (is_writing_ || ++steps_ <= steps_between_) return;
      if (written_.empty()) memory_before_ = MemoryBytes();
      is_writing_ = true;
      begin_ = clock_->Now();
    }
    CallCoordinator(
        *coordinator_, v1::CheckpointRequest(),
        [this](const absl::StatusOr<v1::CheckpointReply>& reply) { OnEnd(reply.status()); });
  }

  absl::StatusOr<std::vector<WritingTime>> written() const {
    MutexLock lock(&mu_);
    if (!written_.empty()) return written_;
    return Annotate(error_, "expected a complete checkpoint, got none; try more --steps");
  }
  int64_t memory_growth_bytes() const {
    MutexLock lock(&mu_);
    return memory_after_ - memory_before_;
  }

 private:
  void OnEnd(const absl::Status& status) {
    MutexLock lock(&mu_);
    is_writing_ = false;
    steps_ = 0;
    error_ = status;
    if (!status.ok()) return;
    written_.push_back({begin_, clock_->Now()});
    memory_after_ = PeakMemoryBytes();
  }

  const int steps_between_;
  Clock* const clock_;
  CoordinatorEndpoint* coordinator_ = nullptr;  // constant from the first step on

  mutable Mutex mu_;
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  int steps_ ABSL_GUARDED_BY(mu_) = 0;  // since the last one was complete
  absl::Time begin_ ABSL_GUARDED_BY(mu_);
  std::vector<WritingTime> written_ ABSL_GUARDED_BY(mu_);
  absl::Status error_ ABSL_GUARDED_BY(mu_) = absl::NotFoundError("the job has too few steps");
  int64_t memory_before_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t memory_after_ ABSL_GUARDED_BY(mu_) = 0;
};

// Notes the steps of the first engine.
EngineFactory TimedEngines(std::atomic<int>* count, std::vector<absl::Time>* begins, Orders* orders,
                           Clock* clock) {
  return [=, make = EngineFactoryOf(DeviceName(), /*tracer=*/nullptr)](
             const EngineOptions& options) -> absl::StatusOr<std::unique_ptr<Engine>> {
    ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, make(options));
    if ((*count)++ > 0) return engine;
    return std::make_unique<TimedEngine>(std::move(engine), clock, begins, [orders](Step) {
      orders->OnStep();
      return absl::OkStatus();
    });
  };
}

absl::StatusOr<uint64_t> BytesOfNewest(const std::string& dir) {
  ASSIGN_OR_RETURN(const std::string path, NewestCheckpoint(dir));
  ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, ReadManifest(path));
  uint64_t bytes = 0;
  for (const v1::ShardFile& file : manifest.files()) bytes += file.bytes();
  return bytes;
}

}  // namespace

absl::StatusOr<BenchmarkFigures> MeasureSteps(const CheckpointedSteps& job, Clock* clock) {
  std::atomic<int> engines = 0;
  std::vector<absl::Time> begins;
  Orders orders(job.steps_between, clock);
  GrpcClusterTransport transport(clock);
  const ClusterResult result = RunCluster(
      SpecOf(job), transport, *clock, /*faults=*/{},
      TimedEngines(&engines, &begins, &orders, clock),
      [&orders](CoordinatorEndpoint& coordinator) { orders.SetCoordinator(&coordinator); });
  RETURN_IF_ERROR(result.outcome.status);
  ASSIGN_OR_RETURN(const std::vector<WritingTime> written, orders.written());
  ASSIGN_OR_RETURN(BenchmarkFigures figures, StepFigures(begins, written));
  ASSIGN_OR_RETURN(const uint64_t bytes, BytesOfNewest(job.dir));
  figures["checkpoints"] = static_cast<double>(written.size());
  figures["memory_growth"] =
      static_cast<double>(orders.memory_growth_bytes()) / static_cast<double>(bytes);
  return figures;
}

absl::StatusOr<BenchmarkFigures> StepFigures(const std::vector<absl::Time>& begins,
                                             const std::vector<WritingTime>& checkpoints) {
  std::vector<double> without, with, slowdowns, slowest;
  size_t step = 0;
  for (const WritingTime& checkpoint : checkpoints) {
    std::vector<double> before, during;
    // The last step's end is not known.
    for (; step + 1 < begins.size() && begins[step] < checkpoint.end; ++step) {
      const bool is_before = begins[step + 1] <= checkpoint.begin;
      (is_before ? before : during)
          .push_back(absl::ToDoubleMilliseconds(begins[step + 1] - begins[step]));
    }
    if (before.empty() || during.empty()) continue;
    slowdowns.push_back(Mean(during) / Mean(before));
    slowest.push_back(*std::max_element(during.begin(), during.end()));
    without.insert(without.end(), before.begin(), before.end());
    with.insert(with.end(), during.begin(), during.end());
  }
  if (slowdowns.empty()) {
    return absl::FailedPreconditionError(
        "expected steps before and during a checkpoint, got none; try more --steps");
  }
  BenchmarkFigures figures;
  figures["step_ms"] = Median(without);
  figures["step_slowdown"] = Median(with) / Median(without);
  figures["mean_step_slowdown"] = Median(slowdowns);
  figures["slowest_step_slowdown"] = Median(slowest) / Median(without);
  figures["steps_while_writing"] =
      static_cast<double>(with.size()) / static_cast<double>(slowdowns.size());
  return figures;
}

}  // namespace capstan
