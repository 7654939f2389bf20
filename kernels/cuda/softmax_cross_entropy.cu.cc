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
// of loads under way. Longer rows have 64, in half as many threads: these wait less for each other.
constexpr int kRowScores = 32;
constexpr int kLargeRowScores = 64;
constexpr int kRowThreads = 256;
// The longest rows in registers fill a multiprocessor with one block.
constexpr int kLargestRowThreads = 512;
// Eight floats are a sector of 32 bytes, the least that is read from memory.
constexpr int kSectorFloats = 8;

constexpr int kLongRowThreads = 1024;
// Packs under way in each thread. The first reading needs registers for its sum, and prefetches.
template <int kWidth, bool kIsLast>
constexpr int kLongRowLoads = kWidth == 1 ? 4 : (kIsLast ? 3 : 2);
// Floats between what is read and what is prefetched: 48 KiB are on their way to a multiprocessor.
// The latency of an H200's memory times its bandwidth is about 32 KiB.
constexpr int kLongRowAhead = 12288;

// Several rows share a block if each lies in a warp.
template <int kLanes>
constexpr int kRowBlockThreads = kLanes > kWarpThreads ? kLanes : kRowThreads;

struct Problem {
  int64_t samples;
  int64_t classes;
  const float* scores;
  const int32_t* labels;
  float* gradient;
  double scale;  // 1 / samples
  int64_t multiprocessors;
  bool prefetches_rows;  // of kLargestRowThreads
};

// The row that comes after `sample` on the block's multiprocessor: the block's own next one or,
// after its last one, the first of the block that takes its place. Null if there is none.
__device__ inline const float* NextRow(const Problem& problem, int64_t sample) {
  int64_t next = sample + gridDim.x;
  if (next >= problem.samples) {
    next = blockIdx.x + problem.multiprocessors;
    if (next >= gridDim.x) return nullptr;
  }
  return problem.scores + next * problem.classes;
}

__device__ inline void PrefetchNextRow(const Problem& problem, int64_t sample) {
  const float* const row = NextRow(problem, sample);
  if (row == nullptr) return;
  for (int64_t i = int64_t{threadIdx.x} * kLineFloats; i < problem.classes;
       i += int64_t{blockDim.x} * kLineFloats) {
    PrefetchToL2(row + i);
  }
}

// Blocks on a multiprocessor. More of them would have too few registers.
template <int kMaxClasses>
constexpr int kTileBlocks = kMaxClasses == 16 ? 8 : 6;

// Bytes moved for each score: 4 read, 4 written. The way through shared memory makes both
// contiguous. Meanwhile the next tile is on its way to the L2 cache.
// At most 80 registers and 19456 bytes of shared memory.
template <int kMaxClasses, int kWidth, bool kIsAligned>
__global__ void __launch_bounds__(kTileSamples, kTileBlocks<kMaxClasses>)
    TileKernel(Problem problem, SumAndCount* partials) {
  alignas(sizeof(float) * kWidth) __shared__ float tile[kTileSamples * (kMaxClasses + kWidth)];
  const TileLayout<kWidth> layout(static_cast<int>(problem.classes));
  SampleTotals own;
  const int64_t step = int64_t{gridDim.x} * kTileSamples;
  for (int64_t first = int64_t{blockIdx.x} * kTileSamples; first < problem.samples; first += step) {
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
    if (left >= step + kTileSamples) PrefetchTile(scores + step * problem.classes, elements);
    __syncthreads();
    if (has_sample) {
      SoftmaxOfTileRow<kMaxClasses, kWidth>(layout.classes, problem.scale, label,
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
  const SumAndCount total = BlockSum<kTileSamples>(own.Total());
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

// Bytes moved for each score: 4 read, 4 written.
// At most 128 registers and 8512 bytes of shared memory.
template <int kWidth, int kLanes, int kPacks>
__global__ void __launch_bounds__(kRowBlockThreads<kLanes>)
    RowsInRegistersKernel(Problem problem, SumAndCount* partials) {
  constexpr int kThreads = kRowBlockThreads<kLanes>;
  constexpr int kSamples = kThreads / kLanes;
  SampleTotals own;
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
    // Before the gradient takes its place.
    const float label_score = label.is_class ? scores[label.index] : 0.0f;
    const float maximum = GroupMaximum<kLanes>(part.Maximum());
    // The row is there. While it is computed, the next one is on its way to the L2 cache.
    if (kLanes == kLargestRowThreads && problem.prefetches_rows) PrefetchNextRow(problem, sample);
    RowTotal total = {0, 0};
    if (label_score == maximum) total.earlier = part.EarlierMaxima(maximum);
    total.sum = part.Exponentiate(maximum);
    total = GroupSum<kLanes>(total);
    const double factor = problem.scale / total.sum;
    part.StoreGradient(static_cast<float>(factor), gradient);
    if (part.HoldsLabel()) {
      gradient[label.index] = LabelGradient(problem.scale, factor, label_score, maximum);
      own.Add(total.sum, label_score, maximum, total.earlier == 0 && label_score == maximum);
    }
    if (has_sample && !label.is_class) own.AddNan();
  }
  const SumAndCount sum = BlockSum<kThreads>(own.Total());
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// Accesses to what is not needed again soon: the L2 cache drops it first.

template <int kWidth>
__device__ inline Pack<float, kWidth> LoadPackOnce(const float* array, int64_t pack) {
  if constexpr (kWidth == 1) {
    return {{__ldcs(array + pack)}};
  } else {
    const float4 items = __ldcs(reinterpret_cast<const float4*>(array) + pack);
    return {{items.x, items.y, items.z, items.w}};
  }
}

template <int kWidth>
__device__ inline void StorePackOnce(const Pack<float, kWidth>& values, float* array,
                                     int64_t pack) {
  const auto& items = values.items;
  if constexpr (kWidth == 1) {
    __stcs(array + pack, items[0]);
  } else {
    __stcs(reinterpret_cast<float4*>(array) + pack,
           make_float4(items[0], items[1], items[2], items[3]));
  }
}

// Calls use(index, pack) for each of the thread's packs of a row. A few of them are loaded
// before the first is used. `kIsLast`: the row is not read again.
template <int kWidth, bool kIsLast, typename Use>
__device__ void ForEachPack(const float* row, uint32_t packs, const Use& use) {
  constexpr int kLoads = kLongRowLoads<kWidth, kIsLast>;
  for (uint32_t first = threadIdx.x; first < packs; first += kLoads * kLongRowThreads) {
    Pack<float, kWidth> loaded[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const uint32_t pack = first + u * kLongRowThreads;
      if (pack >= packs) continue;
      loaded[u] = kIsLast ? LoadPackOnce<kWidth>(row, pack) : LoadPack<kWidth>(row, pack);
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
// The second reading finds most of the row in the L2 cache: a multiprocessor has one row at a time,
// and what is not read again is dropped first. The first reading prefetches the scores ahead. Those
// beyond the row's end are the next row's, and arrive while the gradient is written.
// At most 64 registers and 17024 bytes of shared memory.
template <int kWidth>
__global__ void __launch_bounds__(kLongRowThreads)
    LongRowsKernel(Problem problem, SumAndCount* partials) {
  constexpr uint32_t kAheadPacks = kLongRowAhead / kWidth;
  SampleTotals own;
  const uint32_t packs = static_cast<uint32_t>(problem.classes) / kWidth;
  for (int64_t sample = blockIdx.x; sample < problem.samples; sample += gridDim.x) {
    const float* const row = problem.scores + sample * problem.classes;
    const float* const next_row = NextRow(problem, sample);
    float* const gradient = problem.gradient + sample * problem.classes;
    const RowLabel label = MakeRowLabel(problem.labels[sample], problem.classes);
    const float label_score = label.is_class ? row[label.index] : 0.0f;
    RunningSum running;
    ForEachPack<kWidth, false>(row, packs, [&](uint32_t pack, const Pack<float, kWidth>& scores) {
      const uint32_t ahead = pack + kAheadPacks;
      if (ahead < packs) {
        PrefetchToL2(row + ahead * kWidth);
      } else if (next_row != nullptr) {
        PrefetchToL2(next_row + (ahead - packs) * kWidth);
      }
      running.Add(scores);
    });
    const float maximum = GroupMaximum<kLongRowThreads>(running.maximum);
    RowTotal total = {running.sum * expf(running.maximum - maximum), 0};
    if (label_score == maximum) {
      const uint32_t before = static_cast<uint32_t>(label.index + kWidth - 1) / kWidth;
      ForEachPack<kWidth, false>(
          row, before, [&](uint32_t pack, const Pack<float, kWidth>& scores) {
#pragma unroll
            for (int item = 0; item < kWidth; ++item) {
              const bool is_earlier = static_cast<int>(pack * kWidth) + item < label.index;
              total.earlier += is_earlier && scores.items[item] == maximum ? 1 : 0;
            }
          });
    }
    total = GroupSum<kLongRowThreads>(total);
    const double factor = problem.scale / total.sum;
    ForEachPack<kWidth, true>(row, packs, [&](uint32_t pack, Pack<float, kWidth> scores) {
#pragma unroll
      for (int item = 0; item < kWidth; ++item) {
        scores.items[item] = expf(scores.items[item] - maximum) * static_cast<float>(factor);
      }
      StorePackOnce(scores, gradient, pack);
    });
    if (label.is_class && label.index / kWidth % kLongRowThreads == static_cast<int>(threadIdx.x)) {
      gradient[label.index] = LabelGradient(problem.scale, factor, label_score, maximum);
      own.Add(total.sum, label_score, maximum, total.earlier == 0 && label_score == maximum);
    }
    if (!label.is_class) own.AddNan();
  }
  const SumAndCount sum = BlockSum<kLongRowThreads>(own.Total());
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

using Kernel = void (*)(Problem, SumAndCount*);

struct Choice {
  Kernel kernel;
  int threads;
  int block_samples;
};

template <int kMaxClasses>
Choice Tile(int64_t classes, bool are_aligned) {
  const Kernel kernels[2][2] = {
      {TileKernel<kMaxClasses, 1, false>, TileKernel<kMaxClasses, 1, true>},
      {TileKernel<kMaxClasses, 2, false>, TileKernel<kMaxClasses, 2, true>}};
  return {kernels[classes % 2 == 0][are_aligned], kTileSamples, kTileSamples};
}

template <int kWidth, int kLanes, int kScores>
constexpr Choice kRowsInRegisters = {RowsInRegistersKernel<kWidth, kLanes, kScores / kWidth>,
                                     kRowBlockThreads<kLanes>, kRowBlockThreads<kLanes> / kLanes};

template <int kLanes, int kScores>
Choice RowsInRegisters(bool is_aligned) {
  // Neighbours that read single floats still read whole sectors.
  constexpr int kSingleLanes = std::max(kLanes, kSectorFloats);
  return is_aligned ? kRowsInRegisters<kPackWidth, kLanes, kScores>
                    : kRowsInRegisters<1, kSingleLanes, kScores * kLanes / kSingleLanes>;
}

// A row gets the fewest threads that hold it, so that few of them idle.
// `are_aligned`: scores and gradient begin at multiples of 16 bytes.
Choice Choose(int64_t classes, bool are_aligned) {
  const bool is_aligned = are_aligned && classes % kPackWidth == 0;  // each row
  if (classes <= 16) return Tile<16>(classes, are_aligned);
  if (classes <= 32) return Tile<32>(classes, are_aligned);
  if (classes <= 4 * 16) return RowsInRegisters<4, 16>(is_aligned);
  if (classes <= 4 * kRowScores) return RowsInRegisters<4, kRowScores>(is_aligned);
  if (classes <= 8 * kRowScores) return RowsInRegisters<8, kRowScores>(is_aligned);
  if (classes <= 16 * kRowScores) return RowsInRegisters<16, kRowScores>(is_aligned);
  if (classes <= 32 * kRowScores) return RowsInRegisters<32, kRowScores>(is_aligned);
  if (classes <= 32 * kLargeRowScores) return RowsInRegisters<32, kLargeRowScores>(is_aligned);
  if (classes <= 64 * kLargeRowScores) return RowsInRegisters<64, kLargeRowScores>(is_aligned);
  if (classes <= 128 * kLargeRowScores) return RowsInRegisters<128, kLargeRowScores>(is_aligned);
  if (classes <= 256 * kLargeRowScores) return RowsInRegisters<256, kLargeRowScores>(is_aligned);
  if (classes <= kLargestRowThreads * kLargeRowScores) {
    return RowsInRegisters<kLargestRowThreads, kLargeRowScores>(is_aligned);
  }
  return {is_aligned ? LongRowsKernel<kPackWidth> : LongRowsKernel<1>, kLongRowThreads, 1};
}

// True if the L2 cache holds the next rows of all multiprocessors until they are loaded, beside as
// many gradients.
bool HoldsNextRows(const CudaDevice& device, int64_t classes) {
  const int64_t row_bytes = classes * static_cast<int64_t>(sizeof(float));
  return 2 * device.multiprocessor_count() * row_bytes <= device.l2_cache_bytes();
}

int64_t BlockCount(int64_t samples, const Choice& choice) {
  return std::min((samples + choice.block_samples - 1) / choice.block_samples, kMaxBlocks);
}

}  // namespace

size_t SoftmaxCrossEntropyScratchBytes(int64_t samples, int64_t /*classes*/,
                                       const CudaStream& /*stream*/) {
  // A block has a sample at least.
  return static_cast<size_t>(std::min(samples, kMaxBlocks)) * sizeof(SumAndCount);
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
                           stream.device().multiprocessor_count(),
                           HoldsNextRows(stream.device(), classes)};
  absl::Status status =
      Launch(kOperation, stream, blocks, choice.threads, choice.kernel, problem, partials);
  if (!status.ok()) return status;
  return AddPartials(kOperation, blocks, partials, &result->loss_sum, &result->correct, stream);
}

}  // namespace capstan
