#include "kernels/cuda/kernel_workspace.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "kernels/cuda/slice_encoding.h"

namespace capstan {
namespace {

// The arrays repeat this many random numbers. It is prime, so that no two rows of a matrix are the
// same.
constexpr int64_t kPeriod = 1048573;

// From 0.5 to 1.5.
std::vector<float> Positive(Random& random) {
  std::vector<float> numbers(kPeriod);
  for (float& number : numbers) number = 0.5f + random.UniformFloat();
  return numbers;
}

std::string Difference(double got, double expected) {
  return absl::StrCat("expected ", expected, " as on the CPU, got ", got);
}

// Compares two arrays with a KernelCase's tolerance.
absl::Status Compare(const std::vector<float>& got, const std::vector<float>& expected,
                     double tolerance) {
  const size_t bytes = expected.size() * sizeof(float);
  if (std::memcmp(got.data(), expected.data(), bytes) == 0) return absl::OkStatus();
  double largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(double{value}));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(&got[i], &expected[i], sizeof(float)) == 0) continue;
    if (std::abs(double{got[i]} - expected[i]) <= tolerance * largest) continue;
    return absl::InternalError(absl::StrCat("element ", i, ": ", Difference(got[i], expected[i])));
  }
  return absl::OkStatus();
}

absl::Status CompareResult(double got_sum, double expected_sum, int64_t got_count,
                           int64_t expected_count, double tolerance) {
  if (std::abs(got_sum - expected_sum) > tolerance * std::abs(expected_sum)) {
    return absl::InternalError(absl::StrCat("sum: ", Difference(got_sum, expected_sum)));
  }
  if (got_count == expected_count) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("count: ", got_count, " instead of ", expected_count));
}

}  // namespace

absl::StatusOr<std::unique_ptr<KernelWorkspace>> KernelWorkspace::Create(const Options& options) {
  std::unique_ptr<KernelWorkspace> workspace(new KernelWorkspace(options));
  RETURN_IF_ERROR(workspace->Allocate());
  Random random(/*seed=*/1);
  workspace->positive_input_ = Positive(random);
  workspace->signed_input_ = Positive(random);
  for (float& number : workspace->signed_input_) number *= random.Bernoulli(0.5) ? 1.0f : -1.0f;
  return workspace;
}

absl::Status KernelWorkspace::Allocate() {
  const auto take = [this](size_t bytes) -> absl::StatusOr<void*> {
    ASSIGN_OR_RETURN(DeviceBuffer buffer, DeviceBuffer::Allocate(options_.stream->device(), bytes,
                                                                 "arrays of the benchmark"));
    return buffers_.emplace_back(std::move(buffer)).data<void>();
  };
  const size_t float_bytes = static_cast<size_t>(options_.elements) * sizeof(float);
  for (float*& array : arrays_.floats) {
    ASSIGN_OR_RETURN(void* const data, take(float_bytes));
    array = static_cast<float*>(data);
  }
  ASSIGN_OR_RETURN(void* const labels, take(static_cast<size_t>(options_.rows) * sizeof(int32_t)));
  arrays_.labels = static_cast<int32_t*>(labels);
  ASSIGN_OR_RETURN(void* const norm, take(sizeof(NormResult)));
  arrays_.norm = static_cast<NormResult*>(norm);
  ASSIGN_OR_RETURN(void* const loss, take(sizeof(SoftmaxCrossEntropyResult)));
  arrays_.loss = static_cast<SoftmaxCrossEntropyResult*>(loss);
  ASSIGN_OR_RETURN(void* const encoded, take(sizeof(EncodeResult)));
  arrays_.encoded = static_cast<EncodeResult*>(encoded);
  ASSIGN_OR_RETURN(arrays_.scratch, take(options_.scratch_bytes));
  return absl::OkStatus();
}

absl::Status KernelWorkspace::Refill(int64_t rows, int64_t columns) {
  CudaStream& stream = *options_.stream;
  for (int i = 0; i < KernelArrays::kFloatArrays; ++i) {
    const std::vector<float>& input = i < 2 ? signed_input_ : positive_input_;
    float* const array = arrays_.floats[i];
    int64_t filled = std::min(options_.elements, kPeriod);
    RETURN_IF_ERROR(
        stream.CopyToDevice(input.data(), static_cast<size_t>(filled) * sizeof(float), array));
    for (; filled < options_.elements; filled *= 2) {
      const int64_t part = std::min(filled, options_.elements - filled);
      RETURN_IF_ERROR(
          stream.CopyOnDevice(array, static_cast<size_t>(part) * sizeof(float), array + filled));
    }
  }
  if (columns == 1) return stream.Synchronize();
  Random random(/*seed=*/2);
  labels_.resize(static_cast<size_t>(rows));
  for (int32_t& label : labels_) {
    label = static_cast<int32_t>(random.UniformInt(static_cast<uint64_t>(columns)));
  }
  RETURN_IF_ERROR(
      stream.CopyToDevice(labels_.data(), labels_.size() * sizeof(int32_t), arrays_.labels));
  // The copies read labels_, and the next call may change it.
  return stream.Synchronize();
}

absl::StatusOr<std::vector<float>> KernelWorkspace::Download(int array, int64_t size) {
  std::vector<float> values(static_cast<size_t>(size));
  RETURN_IF_ERROR(options_.stream->CopyToHost(arrays_.floats[array], values.size() * sizeof(float),
                                              values.data()));
  RETURN_IF_ERROR(options_.stream->Synchronize());
  return values;
}

absl::Status KernelWorkspace::Check(const KernelCase& kernel, int64_t rows) {
  CudaStream& stream = *options_.stream;
  RETURN_IF_ERROR(Refill(rows, kernel.columns));
  if (kernel.prepare != nullptr) RETURN_IF_ERROR(kernel.prepare(rows, arrays_, stream));
  NormResult norm, got_norm;
  SoftmaxCrossEntropyResult loss, got_loss;
  RETURN_IF_ERROR(stream.SetBytes(0, sizeof(norm), arrays_.norm));
  RETURN_IF_ERROR(stream.SetBytes(0, sizeof(loss), arrays_.loss));
  // Matrices have arrays of a row beside them.
  const int64_t size = rows * kernel.columns;
  std::vector<float> expected[KernelArrays::kFloatArrays];
  KernelArrays on_cpu;
  on_cpu.labels = labels_.data();
  on_cpu.norm = &norm;
  on_cpu.loss = &loss;
  for (int i = 0; i < KernelArrays::kFloatArrays; ++i) {
    ASSIGN_OR_RETURN(expected[i], Download(i, size));
    on_cpu.floats[i] = expected[i].data();
  }
  CpuStream cpu_stream;
  RETURN_IF_ERROR(kernel.on_cpu(rows, on_cpu, cpu_stream));
  RETURN_IF_ERROR(kernel.on_gpu(rows, arrays_, stream));
  for (int i = 0; i < KernelArrays::kFloatArrays; ++i) {
    ASSIGN_OR_RETURN(const std::vector<float> got, Download(i, size));
    RETURN_IF_ERROR(Annotate(Compare(got, expected[i], kernel.tolerance),
                             absl::StrCat(kernel.name, ": array ", i)));
  }
  RETURN_IF_ERROR(stream.CopyToHost(arrays_.norm, sizeof(norm), &got_norm));
  RETURN_IF_ERROR(stream.CopyToHost(arrays_.loss, sizeof(loss), &got_loss));
  RETURN_IF_ERROR(stream.Synchronize());
  RETURN_IF_ERROR(Annotate(CompareResult(got_norm.sum_of_squares, norm.sum_of_squares,
                                         got_norm.non_finite, norm.non_finite, kernel.tolerance),
                           kernel.name));
  return Annotate(CompareResult(got_loss.loss_sum, loss.loss_sum, got_loss.correct, loss.correct,
                                kernel.tolerance),
                  kernel.name);
}

}  // namespace capstan
