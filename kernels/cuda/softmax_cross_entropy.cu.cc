#include "kernels/softmax_cross_entropy.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/block_sum.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/softmax_row.h"
#include "kernels/cuda/softmax_tile.h"
#include "kernels/cuda/sum_and_count.h"

namespace capstan {
namespace {

constexpr char kOperation[] = "softmax cross-entropy";

// Each block leaves one partial result. The blocks are enough for their ends to even out on the
// largest GPUs. A constant: the order of the sum does not depend on the GPU.
constexpr int64_t kMaxBlocks = 4096;

// A row in registers. 32 scores a thread leave room for 24 warps on a multiprocessor, with 96 KiB
// of loads under way. The longest rows take half of all registers, in as few threads as possible
// (each may have 128): fewer threads wait less for each other.
constexpr int kRowThreads = 256;
constexpr int kRowScores = 32;
constexpr int kLargeRowThreads = 512;
constexpr int kLargeRowScores = 64;
constexpr int kLongRowThreads = 1024;  // the most of a block: a row is its work alone
constexpr int kLongRowLoads = 8;       // under way in each thread

template <int kLanes>
constexpr int kRowBlockThreads = kLanes > kRowThreads ? kLanes : kRowThreads;

struct Problem {
  int64_t samples;
  int64_t classes;
  const float* scores;
  const int32_t* labels;
  float* gradient;
  double scale;  // 1 / samples
};

// Bytes moved for each score: 4 read, 4 written. The way through shared memory makes both
// contiguous.
template <int kMaxClasses>
__global__ void __launch_bounds__(kTileSamples) TileKernel(Problem problem, SumAndCount* partials) {
  __shared__ float tile[kTileSamples * (kMaxClasses + 1)];
  const TileLayout layout(static_cast<int>(problem.classes));
  SumAndCount own = {0, 0};
  for (int64_t first = int64_t{blockIdx.x} * kTileSamples; first < problem.samples;
       first += int64_t{gridDim.x} * kTileSamples) {
    const int64_t left = problem.samples - first;
    const int samples = left < kTileSamples ? static_cast<int>(left) : kTileSamples;
    const bool has_sample = static_cast<int>(threadIdx.x) < samples;
    const int32_t label = has_sample ? problem.labels[first + threadIdx.x] : 0;
    const int elements = samples * layout.classes;
    LoadTile(problem.scores + first * problem.classes, elements, layout, tile);
    __syncthreads();
    if (has_sample) {
      SoftmaxOfTileRow<kMaxClasses>(layout.classes, problem.scale, label,
                                    tile + threadIdx.x * layout.row_length, own);
    }
    __syncthreads();
    StoreTile(tile, elements, layout, problem.gradient + first * problem.classes);
    __syncthreads();
  }
  const SumAndCount total = BlockSum<kTileSamples>(own);
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

// Bytes moved for each score: 4 read, 4 written.
template <int kWidth, int kLanes, int kPacks>
__global__ void __launch_bounds__(std::max(kLanes, kRowThreads))
    RowsInRegistersKernel(Problem problem, SumAndCount* partials) {
  constexpr int kThreads = kRowBlockThreads<kLanes>;
  constexpr int kSamples = kThreads / kLanes;
  SumAndCount own = {0, 0};
  for (int64_t first = int64_t{blockIdx.x} * kSamples; first < problem.samples;
       first += int64_t{gridDim.x} * kSamples) {
    const int64_t sample = first + threadIdx.x / kLanes;
    // All threads take part in shuffles; those without a sample have a row of no classes.
    const bool has_sample = sample < problem.samples;
    const int classes = has_sample ? static_cast<int>(problem.classes) : 0;
    const RowLabel label = MakeRowLabel(has_sample ? problem.labels[sample] : -1, classes);
    RowPart<kWidth, kLanes, kPacks> part(classes, label);
    part.Load(problem.scores + sample * problem.classes);
    const float maximum = GroupMaximum<kLanes>(part.Maximum());
    float label_score = 0;
    const RowTotal total = GroupSum<kLanes>(part.Exponentiate(maximum, label_score));
    part.StoreGradient(MakeRowFactor(problem.scale, total.sum, label_score, maximum),
                       problem.gradient + sample * problem.classes);
    if (part.HoldsLabel()) AddSample(total, label_score, maximum, own);
    if (has_sample && !label.is_class) own.sum = kNan;
  }
  const SumAndCount sum = BlockSum<kThreads>(own);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// Calls use(index, score) for each of the thread's scores of a row. kLongRowLoads of them are
// loaded before the first is used; `use` may overwrite the score.
template <typename Use>
__device__ void ForEachScore(const float* row, int64_t classes, const Use& use) {
  constexpr int64_t kStride = kLongRowThreads;
  for (int64_t first = threadIdx.x; first < classes; first += kLongRowLoads * kStride) {
    float loaded[kLongRowLoads] = {};
#pragma unroll
    for (int u = 0; u < kLongRowLoads; ++u) {
      if (first + u * kStride < classes) loaded[u] = row[first + u * kStride];
    }
#pragma unroll
    for (int u = 0; u < kLongRowLoads; ++u) {
      if (first + u * kStride < classes) use(first + u * kStride, loaded[u]);
    }
  }
}

// Rows longer than registers hold, one block each. Bytes moved for each score: 12 read, 4 written.
// The second and third reading find most of the row in the L2 cache.
__global__ void __launch_bounds__(kLongRowThreads)
    LongRowsKernel(Problem problem, SumAndCount* partials) {
  SumAndCount own = {0, 0};
  for (int64_t sample = blockIdx.x; sample < problem.samples; sample += gridDim.x) {
    const float* const row = problem.scores + sample * problem.classes;
    float* const gradient = problem.gradient + sample * problem.classes;
    const RowLabel label = MakeRowLabel(problem.labels[sample], problem.classes);
    float maximum = kMinusInfinity;
    ForEachScore(row, problem.classes,
                 [&](int64_t /*i*/, float score) { maximum = fmaxf(maximum, score); });
    maximum = GroupMaximum<kLongRowThreads>(maximum);
    RowTotal total = {0, 0};
    float label_score = 0;
    ForEachScore(row, problem.classes, [&](int64_t i, float score) {
      if (i == label.index) label_score = score;
      total.earlier += IsEarlierMaximum<int64_t>(score, maximum, i, label.index);
      total.sum += expf(score - maximum);
    });
    total = GroupSum<kLongRowThreads>(total);
    const RowFactor factor = MakeRowFactor(problem.scale, total.sum, label_score, maximum);
    ForEachScore(row, problem.classes, [&](int64_t i, float score) {
      gradient[i] = i == label.index ? factor.label : expf(score - maximum) * factor.others;
    });
    if (label.is_class && label.index % kLongRowThreads == static_cast<int>(threadIdx.x)) {
      AddSample(total, label_score, maximum, own);
    }
    if (!label.is_class) own.sum = kNan;
  }
  const SumAndCount sum = BlockSum<kLongRowThreads>(own);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

using Kernel = void (*)(Problem, SumAndCount*);

struct Choice {
  Kernel kernel;
  int threads;
  int block_samples;
};

template <int kLanes, int kScores>
Choice RowsInRegisters(bool is_aligned) {
  constexpr int kThreads = kRowBlockThreads<kLanes>;
  return {is_aligned ? RowsInRegistersKernel<kPackWidth, kLanes, kScores / kPackWidth>
                     : RowsInRegistersKernel<1, kLanes, kScores>,
          kThreads, kThreads / kLanes};
}

// A row gets the fewest threads that hold it, so that few of them idle.
Choice Choose(int64_t classes, bool is_aligned) {
  if (classes <= 16) return {TileKernel<16>, kTileSamples, kTileSamples};
  if (classes <= 32) return {TileKernel<32>, kTileSamples, kTileSamples};
  if (classes <= 8 * 8) return RowsInRegisters<8, 8>(is_aligned);
  if (classes <= 8 * kRowScores) return RowsInRegisters<8, kRowScores>(is_aligned);
  if (classes <= kWarpThreads * kRowScores) {
    return RowsInRegisters<kWarpThreads, kRowScores>(is_aligned);
  }
  if (classes <= kRowThreads * kRowScores) {
    return RowsInRegisters<kRowThreads, kRowScores>(is_aligned);
  }
  if (classes <= kLargeRowThreads * kLargeRowScores) {
    return RowsInRegisters<kLargeRowThreads, kLargeRowScores>(is_aligned);
  }
  return {LongRowsKernel, kLongRowThreads, 1};
}

int64_t BlockCount(int64_t samples, const Choice& choice) {
  return std::min((samples + choice.block_samples - 1) / choice.block_samples, kMaxBlocks);
}

}  // namespace

size_t SoftmaxCrossEntropyScratchBytes(int64_t samples, int64_t classes,
                                       const CudaStream& /*stream*/) {
  const Choice choice = Choose(classes, /*is_aligned=*/true);
  return static_cast<size_t>(BlockCount(samples, choice)) * sizeof(SumAndCount);
}

absl::Status SoftmaxCrossEntropy(int64_t samples, int64_t classes, const float* scores,
                                 const int32_t* labels, float* gradient,
                                 SoftmaxCrossEntropyResult* result, void* scratch,
                                 CudaStream& stream) {
  const bool is_aligned = classes % kPackWidth == 0 && AreAligned(sizeof(float4), scores, gradient);
  const Choice choice = Choose(classes, is_aligned);
  const int64_t blocks = BlockCount(samples, choice);
  SumAndCount* const partials = static_cast<SumAndCount*>(scratch);
  const Problem problem = {samples, classes,  scores,
                           labels,  gradient, 1.0 / static_cast<double>(samples)};
  absl::Status status =
      Launch(kOperation, stream, blocks, choice.threads, choice.kernel, problem, partials);
  if (!status.ok()) return status;
  return AddPartials(kOperation, blocks, partials, &result->loss_sum, &result->correct, stream);
}

}  // namespace capstan
