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
constexpr int kLongRowThreads = 512;
// Packs under way in each thread. More would not fit into its 64 registers.
template <int kWidth>
constexpr int kLongRowLoads = kWidth == 1 ? 4 : 2;

template <int kLanes>
constexpr int kRowBlockThreads = kLanes > kRowThreads ? kLanes : kRowThreads;

struct Problem {
  int64_t samples;
  int64_t classes;
  const float* scores;
  const int32_t* labels;
  float* gradient;
  double scale;  // 1 / samples
  // Blocks that run at once, if the next row of each is to be prefetched, else 0.
  int64_t prefetching_blocks;
};

// Prefetches the row that comes after `sample` on the block's multiprocessor: the block's own next
// one or, after its last one, the first of the block that takes its place.
__device__ inline void PrefetchNextRow(const Problem& problem, int64_t sample) {
  int64_t next = sample + gridDim.x;
  if (next >= problem.samples) {
    next = blockIdx.x + problem.prefetching_blocks;
    if (next >= gridDim.x) return;
  }
  const float* const row = problem.scores + next * problem.classes;
  for (int64_t i = int64_t{threadIdx.x} * kLineFloats; i < problem.classes;
       i += int64_t{blockDim.x} * kLineFloats) {
    PrefetchToL2(row + i);
  }
}

// Bytes moved for each score: 4 read, 4 written. The way through shared memory makes both
// contiguous.
// At most 104 registers and 18944 bytes of shared memory.
template <int kMaxClasses, bool kIsAligned>
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
    const float* const scores = problem.scores + first * problem.classes;
    float* const gradient = problem.gradient + first * problem.classes;
    const bool has_packs = kIsAligned && samples == kTileSamples;
    if (has_packs) {
      LoadTile<kPackWidth>(scores, elements, layout, tile);
    } else {
      LoadTile<1>(scores, elements, layout, tile);
    }
    __syncthreads();
    if (has_sample) {
      SoftmaxOfTileRow<kMaxClasses>(layout.classes, problem.scale, label,
                                    tile + threadIdx.x * layout.row_length, own);
    }
    __syncthreads();
    if (has_packs) {
      StoreTile<kPackWidth>(tile, elements, layout, gradient);
    } else {
      StoreTile<1>(tile, elements, layout, gradient);
    }
    __syncthreads();
  }
  const SumAndCount total = BlockSum<kTileSamples>(own);
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

// Bytes moved for each score: 4 read, 4 written.
// At most 128 registers and 8512 bytes of shared memory.
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
    const float* const scores = problem.scores + sample * problem.classes;
    float* const gradient = problem.gradient + sample * problem.classes;
    const RowLabel label = MakeRowLabel(has_sample ? problem.labels[sample] : -1, classes);
    RowPart<kWidth, kLanes, kPacks> part(classes, label);
    part.Load(scores);
    if (kLanes == kLargeRowThreads && problem.prefetching_blocks > 0) {
      PrefetchNextRow(problem, sample);
    }
    // Before the gradient takes its place.
    const float label_score = label.is_class ? scores[label.index] : 0.0f;
    const float maximum = GroupMaximum<kLanes>(part.Maximum());
    RowTotal total = {0, 0};
    if (label_score == maximum) total.earlier = part.EarlierMaxima(maximum);
    total.sum = part.Exponentiate(maximum);
    total = GroupSum<kLanes>(total);
    const double factor = problem.scale / total.sum;
    part.StoreGradient(static_cast<float>(factor), gradient);
    if (part.HoldsLabel()) {
      gradient[label.index] = LabelGradient(problem.scale, factor, label_score, maximum);
      AddSample(total, label_score, maximum, own);
    }
    if (has_sample && !label.is_class) own.sum = kNan;
  }
  const SumAndCount sum = BlockSum<kThreads>(own);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// Calls use(index, pack) for each of the thread's packs of a row. A few of them are loaded
// before the first is used.
template <int kWidth, typename Use>
__device__ void ForEachPack(const float* row, uint32_t packs, const Use& use) {
  constexpr int kLoads = kLongRowLoads<kWidth>;
  for (uint32_t first = threadIdx.x; first < packs; first += kLoads * kLongRowThreads) {
    Pack<float, kWidth> loaded[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const uint32_t pack = first + u * kLongRowThreads;
      if (pack < packs) loaded[u] = LoadPack<kWidth>(row, pack);
    }
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const uint32_t pack = first + u * kLongRowThreads;
      if (pack < packs) use(pack, loaded[u]);
    }
  }
}

// The exponentials of a thread's scores so far, less the largest of them. Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018, algorithm 3.
struct RunningSum {
  float maximum = kMinusInfinity;
  double sum = 0;

  template <int kWidth>
  __device__ void Add(const Pack<float, kWidth>& scores) {
    float largest = scores.items[0];
#pragma unroll
    for (int item = 1; item < kWidth; ++item) largest = fmaxf(largest, scores.items[item]);
    if (largest > maximum) {
      sum *= expf(maximum - largest);
      maximum = largest;
    }
    // -inf - -inf would be a NaN.
    const float subtracted = maximum == kMinusInfinity ? 0 : maximum;
    float part = 0;
#pragma unroll
    for (int item = 0; item < kWidth; ++item) part += expf(scores.items[item] - subtracted);
    sum += part;
  }
};

// Rows longer than registers hold, one block each. Bytes moved for each score: 8 read, 4 written.
// The second reading finds most of the row in the L2 cache. Two blocks share a multiprocessor: one
// loads while the other computes.
// At most 64 registers and 8512 bytes of shared memory.
template <int kWidth>
__global__ void __launch_bounds__(kLongRowThreads, /*blocks of a multiprocessor*/ 2)
    LongRowsKernel(Problem problem, SumAndCount* partials) {
  SumAndCount own = {0, 0};
  const uint32_t packs = static_cast<uint32_t>(problem.classes) / kWidth;
  for (int64_t sample = blockIdx.x; sample < problem.samples; sample += gridDim.x) {
    const float* const row = problem.scores + sample * problem.classes;
    float* const gradient = problem.gradient + sample * problem.classes;
    const RowLabel label = MakeRowLabel(problem.labels[sample], problem.classes);
    const float label_score = label.is_class ? row[label.index] : 0.0f;
    RunningSum running;
    ForEachPack<kWidth>(row, packs, [&](uint32_t /*pack*/, const Pack<float, kWidth>& scores) {
      running.Add(scores);
    });
    const float maximum = GroupMaximum<kLongRowThreads>(running.maximum);
    RowTotal total = {running.sum * expf(running.maximum - maximum), 0};
    if (label_score == maximum) {
      const uint32_t before = static_cast<uint32_t>(label.index + kWidth - 1) / kWidth;
      ForEachPack<kWidth>(row, before, [&](uint32_t pack, const Pack<float, kWidth>& scores) {
#pragma unroll
        for (int item = 0; item < kWidth; ++item) {
          const bool is_earlier = static_cast<int>(pack * kWidth) + item < label.index;
          total.earlier += is_earlier && scores.items[item] == maximum ? 1 : 0;
        }
      });
    }
    total = GroupSum<kLongRowThreads>(total);
    const double factor = problem.scale / total.sum;
    ForEachPack<kWidth>(row, packs, [&](uint32_t pack, Pack<float, kWidth> scores) {
#pragma unroll
      for (int item = 0; item < kWidth; ++item) {
        scores.items[item] = expf(scores.items[item] - maximum) * static_cast<float>(factor);
      }
      StorePack(scores, gradient, pack);
    });
    if (label.is_class && label.index / kWidth % kLongRowThreads == static_cast<int>(threadIdx.x)) {
      gradient[label.index] = LabelGradient(problem.scale, factor, label_score, maximum);
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
// `are_aligned`: scores and gradient begin at multiples of 16 bytes.
Choice Choose(int64_t classes, bool are_aligned) {
  const bool is_aligned = are_aligned && classes % kPackWidth == 0;  // each row
  if (classes <= 32) {
    const Kernel kernels[2][2] = {{TileKernel<16, false>, TileKernel<16, true>},
                                  {TileKernel<32, false>, TileKernel<32, true>}};
    return {kernels[classes > 16][are_aligned], kTileSamples, kTileSamples};
  }
  if (classes <= 8 * 8) return RowsInRegisters<8, 8>(is_aligned);
  if (classes <= 8 * kRowScores) return RowsInRegisters<8, kRowScores>(is_aligned);
  if (classes <= kWarpThreads * kRowScores) {
    return RowsInRegisters<kWarpThreads, kRowScores>(is_aligned);
  }
  if (classes <= kWarpThreads * kLargeRowScores) {
    return RowsInRegisters<kWarpThreads, kLargeRowScores>(is_aligned);
  }
  if (classes <= kRowThreads * kRowScores) {
    return RowsInRegisters<kRowThreads, kRowScores>(is_aligned);
  }
  if (classes <= kLargeRowThreads * kLargeRowScores) {
    return RowsInRegisters<kLargeRowThreads, kLargeRowScores>(is_aligned);
  }
  return {is_aligned ? LongRowsKernel<kPackWidth> : LongRowsKernel<1>, kLongRowThreads, 1};
}

// The largest rows in registers fill a multiprocessor with one block. Nothing is loaded while it
// computes, unless the next row is prefetched. That pays if the L2 cache holds the rows of all
// blocks until they are loaded, beside as many gradients.
int64_t PrefetchingBlocks(int64_t classes, const CudaDevice& device) {
  const int64_t blocks = device.multiprocessor_count();
  const int64_t row_bytes = classes * static_cast<int64_t>(sizeof(float));
  return 2 * blocks * row_bytes <= device.l2_cache_bytes() ? blocks : 0;
}

int64_t BlockCount(int64_t samples, const Choice& choice) {
  return std::min((samples + choice.block_samples - 1) / choice.block_samples, kMaxBlocks);
}

}  // namespace

size_t SoftmaxCrossEntropyScratchBytes(int64_t samples, int64_t classes,
                                       const CudaStream& /*stream*/) {
  const Choice choice = Choose(classes, /*are_aligned=*/true);
  return static_cast<size_t>(BlockCount(samples, choice)) * sizeof(SumAndCount);
}

absl::Status SoftmaxCrossEntropy(int64_t samples, int64_t classes, const float* scores,
                                 const int32_t* labels, float* gradient,
                                 SoftmaxCrossEntropyResult* result, void* scratch,
                                 CudaStream& stream) {
  const Choice choice = Choose(classes, AreAligned(sizeof(float4), scores, gradient));
  const int64_t blocks = BlockCount(samples, choice);
  SumAndCount* const partials = static_cast<SumAndCount*>(scratch);
  const Problem problem = {samples,
                           classes,
                           scores,
                           labels,
                           gradient,
                           /*scale=*/1.0 / static_cast<double>(samples),
                           PrefetchingBlocks(classes, stream.device())};
  absl::Status status =
      Launch(kOperation, stream, blocks, choice.threads, choice.kernel, problem, partials);
  if (!status.ok()) return status;
  return AddPartials(kOperation, blocks, partials, &result->loss_sum, &result->correct, stream);
}

}  // namespace capstan
