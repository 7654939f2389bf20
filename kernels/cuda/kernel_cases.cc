#include "kernels/cuda/kernel_cases.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/arrays.h"
#include "kernels/bias_relu.h"
#include "kernels/cuda/codec_cases.h"
#include "kernels/optimizers.h"

namespace capstan {
namespace {

constexpr double kElementwiseShare = 0.85;
constexpr double kMatrixShare = 0.75;
// For sums of float32 in another order.
constexpr double kSumTolerance = 1e-5;
// The columns of a wide layer.
constexpr int64_t kLayerColumns = 4000;
// Small enough for the values of all runs to stay finite.
constexpr float kLearningRate = 1e-3f;

// `operation` takes (rows, arrays, stream) of either device.
template <typename Operation>
KernelCase MakeCase(std::string name, double bytes_per_element, double required_share,
                    Operation operation) {
  KernelCase result;
  result.name = std::move(name);
  result.bytes_per_element = bytes_per_element;
  result.required_share = required_share;
  result.on_cpu = operation;
  result.on_gpu = operation;
  result.scratch_bytes = [](int64_t, const CudaStream&) { return size_t{0}; };
  return result;
}

template <typename Rule>  // Adam and its kin
Rule MomentsRule() {
  Rule rule;
  rule.moments.step = kLearningRate;
  rule.moments.root_scale = 1.1f;
  rule.moments.keep_first = 0.9f;
  rule.moments.add_first = 0.1f;
  rule.moments.keep_second = 0.999f;
  rule.moments.add_second = 0.001f;
  rule.moments.epsilon = 1e-8f;
  return rule;
}

template <typename Rule>
Rule MakeRmsprop() {
  Rule rule;
  rule.learning_rate = kLearningRate;
  rule.keep = 0.99f;
  rule.add = 0.01f;
  rule.momentum = 0.9f;
  rule.epsilon = 1e-8f;
  return rule;
}

template <typename Rule>
void AddOptimizer(std::string name, const Rule& rule, std::vector<KernelCase>& cases) {
  // The gradient is read, all others are read and written.
  constexpr double kBytes = 4 + 8 * (1 + Rule::kStateCount);
  cases.push_back(MakeCase(std::move(name), kBytes, kElementwiseShare,
                           [rule](int64_t n, auto& x, auto& stream) {
                             float* arrays[1 + Rule::kStateCount];
                             std::copy_n(x.floats + 1, 1 + Rule::kStateCount, arrays);
                             return ApplyRule(rule, n, x.floats[0], arrays, stream);
                           }));
}

void AddOptimizers(std::vector<KernelCase>& cases) {
  constexpr float kDecay = 1e-4f;
  AddOptimizer("sgd", SgdRule{kLearningRate, kDecay}, cases);
  AddOptimizer("momentum", MomentumRule{kLearningRate, /*momentum=*/0.9f, kDecay}, cases);
  AddOptimizer("nesterov", NesterovRule{kLearningRate, /*momentum=*/0.9f, kDecay}, cases);
  AddOptimizer("adagrad", AdagradRule{kLearningRate, /*epsilon=*/1e-8f, kDecay}, cases);
  AddOptimizer("adam", MomentsRule<AdamRule>(), cases);
  AddOptimizer("adamw", MomentsRule<AdamWRule>(), cases);
  AddOptimizer("amsgrad", MomentsRule<AmsgradRule>(), cases);
  AddOptimizer("rmsprop", MakeRmsprop<RmspropRule<false, false>>(), cases);
  AddOptimizer("rmsprop centered", MakeRmsprop<RmspropRule<true, true>>(), cases);
  AddOptimizer("lion", LionRule{kLearningRate, 0.9f, 0.1f, 0.99f, 0.01f}, cases);
}

void AddElementwise(std::vector<KernelCase>& cases) {
  cases.push_back(MakeCase("fill", 4, kElementwiseShare, [](int64_t n, auto& x, auto& stream) {
    return Fill(n, /*value=*/0.5f, x.floats[0], stream);
  }));
  cases.push_back(
      MakeCase("to bfloat16", 6, kElementwiseShare, [](int64_t n, auto& x, auto& stream) {
        return ConvertToBfloat16(n, x.floats[0], reinterpret_cast<Bfloat16*>(x.floats[1]), stream);
      }));
  cases.push_back(
      MakeCase("to float32", 6, kElementwiseShare, [](int64_t n, auto& x, auto& stream) {
        return ConvertToFloat32(n, reinterpret_cast<const Bfloat16*>(x.floats[0]), x.floats[1],
                                stream);
      }));
  KernelCase norm =
      MakeCase("sum of squares", 4, kMatrixShare, [](int64_t n, auto& x, auto& stream) {
        return SumOfSquares(n, x.floats[0], x.norm, x.scratch, stream);
      });
  norm.tolerance = 1e-10;
  // Three float64 instructions for each 4 bytes, on two lanes of a multiprocessor.
  norm.slow_float64_share = 0.4;
  norm.scratch_bytes = [](int64_t n, const CudaStream& stream) {
    return SumOfSquaresScratchBytes(n, stream);
  };
  cases.push_back(std::move(norm));
}

void AddLayers(std::vector<KernelCase>& cases) {
  KernelCase forward =
      MakeCase("bias + ReLU", 8, kMatrixShare, [](int64_t rows, auto& x, auto& stream) {
        return AddBias(rows, kLayerColumns, Activation::kRelu, x.floats[1], x.floats[0], stream);
      });
  forward.columns = kLayerColumns;
  cases.push_back(std::move(forward));
  for (const Activation activation : {Activation::kRelu, Activation::kNone}) {
    const bool is_relu = activation == Activation::kRelu;
    KernelCase backward =
        MakeCase(is_relu ? "bias + ReLU, backward" : "bias gradient", is_relu ? 12 : 4,
                 kMatrixShare, [activation](int64_t rows, auto& x, auto& stream) {
                   return AddBiasBackward(rows, kLayerColumns, activation, x.floats[1], x.floats[0],
                                          x.floats[2], x.scratch, stream);
                 });
    backward.columns = kLayerColumns;
    backward.tolerance = kSumTolerance;
    backward.scratch_bytes = [](int64_t rows, const CudaStream& stream) {
      return AddBiasBackwardScratchBytes(rows, kLayerColumns, stream);
    };
    cases.push_back(std::move(backward));
  }
}

void AddSoftmax(int64_t classes, std::vector<KernelCase>& cases) {
  // A label of 4 bytes for each row.
  const double bytes = 8 + 4 / static_cast<double>(classes);
  KernelCase softmax =
      MakeCase(absl::StrCat("softmax, ", classes, " classes"), bytes, kMatrixShare,
               [classes](int64_t samples, auto& x, auto& stream) {
                 return SoftmaxCrossEntropy(samples, classes, x.floats[0], x.labels, x.floats[1],
                                            x.loss, x.scratch, stream);
               });
  softmax.columns = classes;
  softmax.tolerance = kSumTolerance;
  softmax.scratch_bytes = [classes](int64_t samples, const CudaStream& stream) {
    return SoftmaxCrossEntropyScratchBytes(samples, classes, stream);
  };
  cases.push_back(std::move(softmax));
}

}  // namespace

std::vector<KernelCase> AllKernelCases() {
  std::vector<KernelCase> cases;
  AddOptimizers(cases);
  AddElementwise(cases);
  AddLayers(cases);
  for (KernelCase& codec : CodecCases()) cases.push_back(std::move(codec));
  for (const int64_t classes : {10, 100, 300, 1000, 1100, 4096, 8000, 32000, 50000})
    AddSoftmax(classes, cases);
  return cases;
}

}  // namespace capstan
