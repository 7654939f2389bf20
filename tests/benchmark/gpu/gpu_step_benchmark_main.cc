// gpu_step_benchmark: the time of one training step on a GPU, and the part of its communication
// with a server that computation hides.
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
#include "tests/benchmark/common/timed_engine.h"
#include "tests/benchmark/gpu/compute_step.h"
#include "tests/benchmark/gpu/idle_model.h"
#include "tests/cluster/grpc_cluster_transport.h"
#include "tests/cluster/local_cluster.h"
#include "worker/engine/cuda_engine.h"
#include "worker/engine/step_trace.h"
#include "worker/models/training/make_model.h"

ABSL_FLAG(std::vector<std::string>, widths,
          std::vector<std::string>({"4096", "8192", "8192", "4096"}),
          "widths of the network, from the input");
ABSL_FLAG(int, batch, 1024, "samples of a step");
ABSL_FLAG(int, runs, 21, "timed steps; their median is shown");
ABSL_FLAG(int, device, 0, "number of the GPU");
ABSL_FLAG(bool, communication, true,
          "time the step with one server, and of the computation float32 only");
ABSL_FLAG(bool, json, false, "print one JSON object as the last line");

namespace capstan {
namespace {

// Steps before the timed ones: they fill buffers and warm up connections.
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
  // For the evaluation at the end.
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

// Takes spans in the order of their beginnings. Keeps those before the second step computes.
void KeepFirstStep(std::vector<StepTrace::Span>& spans) {
  const auto computes = [](const StepTrace::Span& span) { return span.track == "compute"; };
  const auto first = std::find_if(spans.begin(), spans.end(), computes);
  if (first == spans.end()) return;
  spans.erase(std::find_if(first + 1, spans.end(),
                           [&](const StepTrace::Span& span) {
                             return computes(span) && span.name == first->name;
                           }),
              spans.end());
}

// Runs a job with one server, over gRPC on the loopback interface. Its worker has the engine of
// `make_engine`. Returns the times from each step's beginning to the next one's.
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

// The same with the GPU's engine. Its model computes, or only reports its gradients as ready.
// `spans` gets one of the last steps, from its beginning to its last reply, unless it is null.
absl::StatusOr<std::vector<absl::Duration>> TimeCudaJobSteps(const v1::JobSpec& job,
                                                             RealClock& clock, bool computes,
                                                             std::vector<StepTrace::Span>* spans) {
  StepTrace trace(&clock);
  CudaEngine* engine = nullptr;
  const Step traced(static_cast<int64_t>(job.training().steps()) - 3);
  const auto make_engine =
      [&](const EngineOptions& options) -> absl::StatusOr<std::unique_ptr<Engine>> {
    ASSIGN_OR_RETURN(
        std::unique_ptr<Model<CudaStream>> model,
        MakeModel<CudaStream>(options.model, options.feature_count, options.class_count));
    if (!computes) model = std::make_unique<IdleModel>(std::move(model));
    CudaEngine::Options cuda;
    cuda.device_number = absl::GetFlag(FLAGS_device);
    cuda.feature_count = options.feature_count;
    cuda.max_samples = options.max_samples;
    cuda.clock = options.clock;
    cuda.trace = spans == nullptr ? nullptr : &trace;
    ASSIGN_OR_RETURN(std::unique_ptr<CudaEngine> made, CudaEngine::Create(std::move(model), cuda));
    engine = made.get();
    return made;
  };
  const auto trace_step = [&](Step step) -> absl::Status {
    if (spans == nullptr) return absl::OkStatus();
    if (step == traced) return engine->StartTrace();
    if (step != traced + 2) return absl::OkStatus();
    ASSIGN_OR_RETURN(*spans, trace.Finish());
    KeepFirstStep(*spans);
    return absl::OkStatus();
  };
  return TimeJobSteps(job, clock, make_engine, trace_step);
}

struct Results {
  // One step without communication. 0: not measured.
  double float32_ms = 0, tf32_ms = 0, bfloat16_ms = 0;
  double exchange_ms = 0;  // without computation
  double training_ms = 0;  // with both, in float32
};

// The share of the communication's time that computation hides. Not clamped: below 0, the step
// takes longer than computation and communication one after the other.
double HiddenShare(const Results& results) {
  return (results.float32_ms + results.exchange_ms - results.training_ms) / results.exchange_ms;
}

// `flops` are of the step. 0: prints no rate.
void PrintLine(const char* what, double milliseconds, double flops) {
  std::cout << absl::StrFormat("%-52s %10.3f ms", what, milliseconds);
  if (flops > 0) std::cout << absl::StrFormat("  %8.1f TFLOP/s", flops / milliseconds / 1e9);
  std::cout << std::endl;
}

absl::Status MeasureComputation(const ComputeStep& step, Results* results) {
  ASSIGN_OR_RETURN(const std::unique_ptr<CudaDevice> device,
                   CudaDevice::Open(absl::GetFlag(FLAGS_device)));
  std::cout << "device: " << device->name() << "\nMLP " << absl::StrJoin(step.widths, "-")
            << ", batch " << step.samples << ", medians of " << absl::GetFlag(FLAGS_runs)
            << std::endl;
  const bool is_all = !absl::GetFlag(FLAGS_communication);
  const bool has_tf32 = device->has_tf32_and_bfloat16();
  const struct {
    const char* what;
    Precision precision;
    bool is_measured;
    double* milliseconds;
  } rows[] = {
      {"forward and backward, float32", Precision::kFloat32, true, &results->float32_ms},
      {has_tf32 ? "forward and backward, tf32" : "forward and backward, tf32 (float32 here)",
       Precision::kTf32, is_all, &results->tf32_ms},
      {"forward and backward, bfloat16 products", Precision::kBfloat16, is_all && has_tf32,
       &results->bfloat16_ms}};
  for (const auto& row : rows) {
    if (!row.is_measured) continue;
    ComputeStep timed = step;
    timed.precision = row.precision;
    ASSIGN_OR_RETURN(std::vector<absl::Duration> times,
                     TimeComputeSteps(timed, absl::GetFlag(FLAGS_runs), *device));
    *row.milliseconds = MedianMilliseconds(std::move(times));
    PrintLine(row.what, *row.milliseconds, ComputeStepFlops(step));
  }
  return absl::OkStatus();
}

absl::Status MeasureCommunication(const ComputeStep& step, Results* results) {
  RealClock clock;
  const v1::JobSpec job = JobOf(step);
  std::vector<StepTrace::Span> spans;
  ASSIGN_OR_RETURN(std::vector<absl::Duration> exchanges,
                   TimeCudaJobSteps(job, clock, /*computes=*/false, /*spans=*/nullptr));
  results->exchange_ms = MedianMilliseconds(std::move(exchanges));
  PrintLine("exchange with one server over gRPC, no computation", results->exchange_ms, 0);
  ASSIGN_OR_RETURN(std::vector<absl::Duration> training,
                   TimeCudaJobSteps(job, clock, /*computes=*/true, &spans));
  results->training_ms = MedianMilliseconds(std::move(training));
  PrintLine("training step, float32, with one server over gRPC", results->training_ms, 0);
  std::cout << absl::StrFormat("communication hidden behind computation: %.1f %% of it; ",
                               100 * HiddenShare(*results))
            << absl::StrFormat("at most %.1f %% can be\n",
                               100 * std::min(1.0, results->float32_ms / results->exchange_ms))
            << "\none training step, to its last reply:\n"
            << DrawSpans(spans, /*width=*/100) << std::flush;
  return absl::OkStatus();
}

void PrintJson(const ComputeStep& step, const Results& results) {
  nlohmann::ordered_json json;
  json["widths"] = step.widths;
  json["batch"] = step.samples;
  json["float32_ms"] = results.float32_ms;
  if (results.tf32_ms > 0) json["tf32_ms"] = results.tf32_ms;
  if (results.bfloat16_ms > 0) json["bfloat16_ms"] = results.bfloat16_ms;
  if (absl::GetFlag(FLAGS_communication)) {
    json["exchange_ms"] = results.exchange_ms;
    json["training_ms"] = results.training_ms;
    json["hidden_share"] = HiddenShare(results);
  }
  std::cout << json.dump() << std::endl;
}

absl::Status Run() {
  ASSIGN_OR_RETURN(const ComputeStep step, StepOfFlags());
  Results results;
  RETURN_IF_ERROR(MeasureComputation(step, &results));
  if (absl::GetFlag(FLAGS_communication)) RETURN_IF_ERROR(MeasureCommunication(step, &results));
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
