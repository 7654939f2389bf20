#include "tests/benchmark/gpu/compute_step.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/routing/job_view.h"
#include "common/tensor/memory_cutter.h"
#include "kernels/cuda/cuda_event.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/device_buffer.h"

namespace capstan {
namespace {

constexpr int kWarmUps = 5;

// The memory of one step, on a GPU.
struct StepMemory {
  std::vector<absl::Span<float>> values;
  std::vector<absl::Span<float>> gradients;
  absl::Span<float> features;
  absl::Span<int32_t> labels;
  BatchResult* result;
  void* workspace;
};

StepMemory Cut(MemoryCutter& cutter, const ComputeStep& step, const Mlp<CudaStream>& model,
               const CudaStream& stream) {
  StepMemory memory;
  for (const v1::TableSpec& table : model.tables()) {
    const int64_t elements = static_cast<int64_t>(ElementCount(table));
    memory.values.emplace_back(cutter.Take<float>(elements), elements);
    memory.gradients.emplace_back(cutter.Take<float>(elements), elements);
  }
  const int64_t features = step.samples * step.widths.front();
  memory.features = {cutter.Take<float>(features), static_cast<size_t>(features)};
  memory.labels = {cutter.Take<int32_t>(step.samples), static_cast<size_t>(step.samples)};
  memory.result = cutter.Take<BatchResult>(1);
  memory.workspace =
      cutter.Take<char>(static_cast<int64_t>(model.WorkspaceBytes(step.samples, stream)));
  return memory;
}

// As many random numbers are made; larger arrays repeat them.
constexpr size_t kRandomNumbers = 1 << 20;

// Random numbers everywhere: a GPU computes faster on zeros.
absl::Status Fill(const ComputeStep& step, const Mlp<CudaStream>& model, const StepMemory& memory,
                  CudaStream& stream) {
  Random random(/*seed=*/1);
  const auto upload = [&](absl::Span<float> target, float stddev) {
    std::vector<float> values(std::min(target.size(), kRandomNumbers));
    for (float& value : values) value = stddev * random.Normal();
    RETURN_IF_ERROR(
        stream.CopyToDevice(values.data(), values.size() * sizeof(float), target.data()));
    for (size_t filled = values.size(); filled < target.size(); filled *= 2) {
      const size_t part = std::min(filled, target.size() - filled);
      RETURN_IF_ERROR(stream.CopyOnDevice(target.data(), part * sizeof(float), &target[filled]));
    }
    return stream.Synchronize();
  };
  for (size_t table = 0; table < model.tables().size(); ++table) {
    RETURN_IF_ERROR(upload(memory.values[table],
                           static_cast<float>(model.tables()[table].initial_stddev()) + 0.01f));
  }
  RETURN_IF_ERROR(upload(memory.features, 1.0f));
  std::vector<int32_t> labels(memory.labels.size());
  for (int32_t& label : labels) {
    label = static_cast<int32_t>(random.UniformInt(static_cast<uint64_t>(step.widths.back())));
  }
  RETURN_IF_ERROR(
      stream.CopyToDevice(labels.data(), labels.size() * sizeof(int32_t), memory.labels.data()));
  return stream.Synchronize();
}

}  // namespace

absl::StatusOr<std::vector<absl::Duration>> TimeComputeSteps(const ComputeStep& step, int runs,
                                                             const CudaDevice& device) {
  ASSIGN_OR_RETURN(const std::unique_ptr<CudaStream> stream,
                   CudaStream::Create(device, CudaStream::Blas::kWithWorkspace));
  Mlp<CudaStream> model(step.widths, step.precision);
  MemoryCutter count(/*memory=*/nullptr);
  Cut(count, step, model, *stream);
  ASSIGN_OR_RETURN(const DeviceBuffer buffer,
                   DeviceBuffer::Allocate(device, count.used_bytes(), "one step"));
  MemoryCutter cutter(buffer.data<void>());
  const StepMemory memory = Cut(cutter, step, model, *stream);
  RETURN_IF_ERROR(Fill(step, model, memory, *stream));
  model.UseWorkspace(memory.workspace, step.samples, *stream);
  const std::vector<absl::Span<const float>> values(memory.values.begin(), memory.values.end());
  const Batch batch = {memory.features, memory.labels};
  ASSIGN_OR_RETURN(CudaEvent begin, CudaEvent::Create(device, CudaEvent::Timing::kOn));
  ASSIGN_OR_RETURN(CudaEvent end, CudaEvent::Create(device, CudaEvent::Timing::kOn));
  const auto nothing = [](int) { return absl::OkStatus(); };
  std::vector<absl::Duration> times;
  for (int run = -kWarmUps; run < runs; ++run) {
    RETURN_IF_ERROR(begin.Record(*stream));
    RETURN_IF_ERROR(model.Forward(batch, values, nothing, memory.result, *stream));
    RETURN_IF_ERROR(model.Backward(batch, values, memory.gradients, nothing, *stream));
    RETURN_IF_ERROR(end.Record(*stream));
    RETURN_IF_ERROR(end.Wait());
    ASSIGN_OR_RETURN(const absl::Duration time, CudaEvent::Between(begin, end));
    if (run >= 0) times.push_back(time);
  }
  return times;
}

double ComputeStepFlops(const ComputeStep& step) {
  double flops = 0;
  for (size_t layer = 0; layer + 1 < step.widths.size(); ++layer) {
    const double product = 2.0 * static_cast<double>(step.samples) *
                           static_cast<double>(step.widths[layer]) *
                           static_cast<double>(step.widths[layer + 1]);
    flops += product * (layer == 0 ? 2 : 3);  // the input has no gradient
  }
  return flops;
}

}  // namespace capstan
