// gpu_step_benchmark: what one training step costs on a GPU, and how much of its communication with
// a server hides behind its computation.
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_stream.h"
#include "tests/benchmark/compute_step.h"
#include "tests/benchmark/timed_engine.h"
#include "tests/cluster/grpc_cluster_transport.h"
#include "tests/cluster/local_cluster.h"
#include "worker/engine/cuda_engine.h"
#include "worker/engine/step_trace.h"
#include "worker/training/make_model.h"

ABSL_FLAG(std::vector<std::string>, widths,
          std::vector<std::string>({"4096", "8192", "8192", "4096"}),
          "widths of the network, from the input");
ABSL_FLAG(int, batch, 1024, "samples of a step");
ABSL_FLAG(int, runs, 21, "steps that are timed, of which the median is shown");
ABSL_FLAG(int, device, 0, "number of the GPU");
ABSL_FLAG(bool, json, false, "print one JSON object as the last line");

namespace capstan {
namespace {

// Steps before the timed ones: the first have buffers to fill and connections to warm up.
constexpr int kWarmUps = 3;

double MedianMilliseconds(std::vector<absl::Duration> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2),
                   times.end());
  return absl::ToDoubleMilliseconds(times[times.size() / 2]);
}

absl::StatusOr<ComputeStep> StepOfFlags() {
  ComputeStep step;
  for (const std::string& width : absl::GetFlag(FLAGS_widths)) {
    if (!absl::SimpleAtoi(width, &step.widths.emplace_back()) || step.widths.back() < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--widths: expected whole numbers above 0, got \"", width, "\""));
    }
  }
  step.samples = absl::GetFlag(FLAGS_batch);
  if (step.widths.size() < 2 || step.samples < 1 || absl::GetFlag(FLAGS_runs) < 1) {
    return absl::InvalidArgumentError("expected two --widths, --batch=1 and --runs=1 at least");
  }
  return step;
}

v1::JobSpec JobOf(const ComputeStep& step) {
  v1::JobSpec job;
  job.mutable_cluster()->set_num_workers(1);
  job.mutable_cluster()->set_num_servers(1);
  v1::ModelSpec& model = *job.mutable_model();
  for (size_t i = 1; i + 1 < step.widths.size(); ++i)
    model.add_hidden(static_cast<uint32_t>(step.widths[i]));
  if (step.widths.size() == 2) model.set_type(v1::ModelSpec::LOGISTIC_REGRESSION);
  v1::DataSpec& data = *job.mutable_data();
  data.set_format(v1::DataSpec::SYNTHETIC);
  // A quarter is held out for the evaluation at the end.
  data.set_test_fraction(0.25);
  data.mutable_synthetic()->set_samples(
      static_cast<uint32_t>(std::max<int64_t>(64, step.samples * 2)));
  data.mutable_synthetic()->set_features(static_cast<uint32_t>(step.widths.front()));
  data.mutable_synthetic()->set_classes(static_cast<uint32_t>(step.widths.back()));
  job.mutable_training()->set_batch_size(static_cast<uint32_t>(step.samples));
  job.mutable_training()->set_steps(
      static_cast<uint64_t>(kWarmUps + absl::GetFlag(FLAGS_runs) + 1));
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  job.mutable_optimizer()->set_learning_rate(1e-4);
  job.mutable_membership()->set_heartbeat_seconds(1);
  return job;
}

// Times from each step's beginning to the next one's, of a job with one server over gRPC on the
// loopback interface, whose worker has the engine of `make_engine`.
absl::StatusOr<std::vector<absl::Duration>> TimeJobSteps(
    const v1::JobSpec& job, RealClock& clock,
    const std::function<absl::StatusOr<std::unique_ptr<Engine>>(const EngineOptions&)>& make_engine,
    const std::function<absl::Status(Step)>& before_step) {
  std::vector<absl::Time> begins;
  GrpcClusterTransport transport(&clock);
  const ClusterResult result = RunCluster(
      job, transport, clock, /*faults=*/{},
      [&](const EngineOptions& options) -> absl::StatusOr<std::unique_ptr<Engine>> {
        ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, make_engine(options));
        return std::make_unique<TimedEngine>(std::move(engine), &clock, &begins, before_step);
      });
  RETURN_IF_ERROR(result.workers[0]);
  RETURN_IF_ERROR(result.outcome.status);
  std::vector<absl::Duration> times;
  for (size_t i = kWarmUps + 1; i < begins.size(); ++i) times.push_back(begins[i] - begins[i - 1]);
  return times;
}

// The job with the GPU's engine; two of its last steps go into `spans`.
absl::StatusOr<std::vector<absl::Duration>> TimeTrainingSteps(const v1::JobSpec& job,
                                                              RealClock& clock,
                                                              std::vector<StepTrace::Span>* spans) {
  StepTrace trace(&clock);
  CudaEngine* engine = nullptr;
  const Step traced(static_cast<int64_t>(job.training().steps()) - 3);
  ASSIGN_OR_RETURN(
      std::vector<absl::Duration> times,
      TimeJobSteps(
          job, clock,
          [&](const EngineOptions& options) -> absl::StatusOr<std::unique_ptr<Engine>> {
            ASSIGN_OR_RETURN(
                std::unique_ptr<Model<CudaStream>> model,
                MakeModel<CudaStream>(options.model, options.feature_count, options.class_count));
            CudaEngine::Options cuda;
            cuda.device_number = absl::GetFlag(FLAGS_device);
            cuda.feature_count = options.feature_count;
            cuda.max_samples = options.max_samples;
            cuda.clock = options.clock;
            cuda.trace = &trace;
            ASSIGN_OR_RETURN(std::unique_ptr<CudaEngine> made,
                             CudaEngine::Create(std::move(model), cuda));
            engine = made.get();
            return made;
          },
          [&](Step step) -> absl::Status {
            if (step == traced) return engine->StartTrace();
            if (step != traced + 2) return absl::OkStatus();
            ASSIGN_OR_RETURN(*spans, trace.Finish());
            return absl::OkStatus();
          }));
  return times;
}

struct Results {
  double float32_ms = 0, tf32_ms = 0, bfloat16_ms = 0;  // one step without communication
  double exchange_ms = 0;                               // without computation
  double training_ms = 0;                               // with both, in float32
  std::vector<StepTrace::Span> spans;
};

// The part of the communication's time during which the step computed as well.
double HiddenShare(const Results& results) {
  return std::clamp(
      (results.float32_ms + results.exchange_ms - results.training_ms) / results.exchange_ms, 0.0,
      1.0);
}

absl::StatusOr<Results> Measure(const ComputeStep& step) {
  RealClock clock;
  Results results;
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<CudaDevice> device,
                     CudaDevice::Open(absl::GetFlag(FLAGS_device)));
    std::cout << "device: " << device->name() << std::endl;
    const std::pair<Precision, double*> precisions[] = {
        {Precision::kFloat32, &results.float32_ms},
        {Precision::kTf32, &results.tf32_ms},
        {Precision::kBfloat16, &results.bfloat16_ms}};
    for (const auto& [precision, milliseconds] : precisions) {
      ComputeStep timed = step;
      timed.precision = precision;
      ASSIGN_OR_RETURN(std::vector<absl::Duration> times,
                       TimeComputeSteps(timed, absl::GetFlag(FLAGS_runs), *device));
      *milliseconds = MedianMilliseconds(std::move(times));
    }
  }
  const v1::JobSpec job = JobOf(step);
  const std::vector<v1::TableSpec> tables = Mlp<CudaStream>(step.widths, step.precision).tables();
  ASSIGN_OR_RETURN(std::vector<absl::Duration> exchanges,
                   TimeJobSteps(
                       job, clock,
                       [&](const EngineOptions&) -> absl::StatusOr<std::unique_ptr<Engine>> {
                         return std::make_unique<ExchangeOnlyEngine>(tables);
                       },
                       [](Step) { return absl::OkStatus(); }));
  results.exchange_ms = MedianMilliseconds(std::move(exchanges));
  ASSIGN_OR_RETURN(std::vector<absl::Duration> training,
                   TimeTrainingSteps(job, clock, &results.spans));
  results.training_ms = MedianMilliseconds(std::move(training));
  return results;
}

void Print(const ComputeStep& step, const Results& results) {
  const auto line = [](const char* what, double milliseconds, double flops) {
    std::cout << absl::StrFormat("%-52s %10.3f ms", what, milliseconds);
    if (flops > 0) std::cout << absl::StrFormat("  %8.1f TFLOP/s", flops / milliseconds / 1e9);
    std::cout << "\n";
  };
  std::cout << "MLP " << absl::StrJoin(step.widths, "-") << ", batch " << step.samples
            << ", medians of " << absl::GetFlag(FLAGS_runs) << "\n";
  const double flops = ComputeStepFlops(step);
  line("forward and backward, float32", results.float32_ms, flops);
  line("forward and backward, tf32", results.tf32_ms, flops);
  line("forward and backward, bfloat16 products", results.bfloat16_ms, flops);
  line("exchange with one server over gRPC, no computation", results.exchange_ms, 0);
  line("training step, float32, with one server over gRPC", results.training_ms, 0);
  std::cout << absl::StrFormat("communication hidden behind computation: %.1f %% of it",
                               100 * HiddenShare(results))
            << absl::StrFormat("; at most %.1f %% can be\n",
                               100 * std::min(1.0, results.float32_ms / results.exchange_ms))
            << "\none training step:\n"
            << DrawSpans(results.spans, /*width=*/60) << std::flush;
}

void PrintJson(const ComputeStep& step, const Results& results) {
  nlohmann::ordered_json json;
  json["widths"] = step.widths;
  json["batch"] = step.samples;
  json["float32_ms"] = results.float32_ms;
  json["tf32_ms"] = results.tf32_ms;
  json["bfloat16_ms"] = results.bfloat16_ms;
  json["exchange_ms"] = results.exchange_ms;
  json["training_ms"] = results.training_ms;
  json["hidden_share"] = HiddenShare(results);
  std::cout << json.dump() << std::endl;
}

absl::Status Run() {
  ASSIGN_OR_RETURN(const ComputeStep step, StepOfFlags());
  ASSIGN_OR_RETURN(const Results results, Measure(step));
  Print(step, results);
  if (absl::GetFlag(FLAGS_json)) PrintJson(step, results);
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "times a training step on a GPU, alone and with one server.\n"
                       "  gpu_step_benchmark [--widths=4096,8192,8192,4096] [--batch=1024]");
  const absl::Status parsed = capstan::ParseProgramFlags({argv, argv + argc});
  if (!parsed.ok()) {
    capstan::EndProgram("gpu_step_benchmark", parsed, /*is_usage_error=*/true);
  }
  capstan::EndProgram("gpu_step_benchmark", capstan::Run());
}
