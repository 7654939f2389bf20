#include <cuda_runtime.h>

#include "common/base/status_macros.h"
#include "kernels/cuda/block_scan.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/encode_sums.h"
#include "kernels/cuda/finite_bfloat16.h"
#include "kernels/cuda/int8_block.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/topk_codec.h"
#include "kernels/cuda/topk_threshold.h"

namespace capstan {
namespace {

constexpr char kOperation[] = "top-k encoding";
// One block scans the tiles, and is as large as possible.
constexpr int kScanThreads = 1024;
constexpr int kTilePacks = kEncodeTile / kPackWidth;
constexpr int kThreadPacks = kEncodeItems / kPackWidth;
constexpr int kWarps = kEncodeThreads / kWarpThreads;
static_assert(kInt8LaneItems == kEncodeItems);

int64_t TileCount(int64_t n) { return (n + kEncodeTile - 1) / kEncodeTile; }

// How many elements are above the threshold, and how many equal it: a sum of both is one addition.
using Counts = uint64_t;
constexpr int kAboveShift = 32;

__device__ inline Counts CountOf(float sum, uint32_t threshold) {
  const uint32_t magnitude = MagnitudeOf(sum);
  if (magnitude > threshold) return Counts{1} << kAboveShift;
  return magnitude == threshold ? 1 : 0;
}

// The elements of a thread in a tile: values + residual.
struct TileItems {
  float sums[kEncodeItems];
  Counts counts[kEncodeItems];  // 0 beyond the end
  Counts count;
};

template <bool kIsAligned>
__device__ TileItems LoadTileItems(const SliceToEncode& slice, int64_t pack, uint32_t threshold) {
  TileItems items;
  items.count = 0;
  float residual[kEncodeItems];
  LoadItems<kIsAligned>(slice.n, slice.values, pack, items.sums);
  if (slice.residual != nullptr) LoadItems<kIsAligned>(slice.n, slice.residual, pack, residual);
#pragma unroll
  for (int i = 0; i < kEncodeItems; ++i) {
    if (slice.residual != nullptr) items.sums[i] += residual[i];
    const bool is_there = pack * kPackWidth + i < slice.n;
    items.counts[i] = is_there ? CountOf(items.sums[i], threshold) : 0;
    items.count += items.counts[i];
  }
  return items;
}

__device__ inline int64_t ThreadPack(int64_t tile) {
  return tile * kTilePacks + int64_t{threadIdx.x} * kThreadPacks;
}

// Bytes moved for each element: 4 read, and 4 more with a residual.
// At most 48 registers and 64 bytes of shared memory.
template <bool kIsAligned>
__global__ void __launch_bounds__(kEncodeThreads)
    CountKernel(SliceToEncode slice, const TopkThreshold* threshold, Counts* tiles) {
  const uint32_t magnitude = threshold->magnitude;
  for (int64_t tile = blockIdx.x; tile * kEncodeTile < slice.n; tile += gridDim.x) {
    const Counts own = LoadTileItems<kIsAligned>(slice, ThreadPack(tile), magnitude).count;
    const Counts total = BlockScan<kEncodeThreads>(own).total;
    if (threadIdx.x == 0) tiles[tile] = total;
  }
}

// Each tile's count becomes that of all tiles before it.
// At most 56 registers and 256 bytes of shared memory.
__global__ void __launch_bounds__(kScanThreads) ScanTilesKernel(int64_t tile_count, Counts* tiles) {
  const int64_t per_thread = (tile_count + kScanThreads - 1) / kScanThreads;
  const int64_t begin = per_thread * threadIdx.x;
  Counts own = 0;
  for (int64_t i = begin; i < begin + per_thread && i < tile_count; ++i) own += tiles[i];
  Counts before = BlockScan<kScanThreads>(own).before;
  for (int64_t i = begin; i < begin + per_thread && i < tile_count; ++i) {
    const Counts count = tiles[i];
    tiles[i] = before;
    before += count;
  }
}

struct Selection {
  uint32_t* indices;  // k
  uint8_t* values;    // their bytes; unused for int8
  float* sums;        // k of them; for int8 only
};

// Stores a selected element. Returns its new residual; for int8 it is still the whole element.
template <TopkValues kType>
__device__ float Store(int64_t index, float sum, uint32_t position, const Selection& selection) {
  selection.indices[position] = static_cast<uint32_t>(index);
  if constexpr (kType == TopkValues::kFloat32) {
    reinterpret_cast<float*>(selection.values)[position] = sum;
    return 0;
  } else if constexpr (kType == TopkValues::kBfloat16) {
    const Bfloat16 encoded = ToFiniteBfloat16(sum);
    reinterpret_cast<Bfloat16*>(selection.values)[position] = encoded;
    return sum - ToFloat32(encoded);
  } else {
    selection.sums[position] = sum;
    return sum;
  }
}

// Bytes moved for each element: 4, and 8 more with a residual; the selected ones besides.
// At most 104 registers and 6208 bytes of shared memory.
template <TopkValues kType, bool kIsAligned>
__global__ void __launch_bounds__(kEncodeThreads)
    CompactKernel(SliceToEncode slice, const TopkThreshold* threshold, const Counts* tiles,
                  Selection selection, EncodeResult* partials) {
  const TopkThreshold limit = *threshold;
  const int64_t n = limit.non_finite > 0 ? 0 : slice.n;
  EncodeResult own;
  for (int64_t tile = blockIdx.x; tile * kEncodeTile < n; tile += gridDim.x) {
    const int64_t pack = ThreadPack(tile);
    TileItems items = LoadTileItems<kIsAligned>(slice, pack, limit.magnitude);
    Counts before = tiles[tile] + BlockScan<kEncodeThreads>(items.count).before;
#pragma unroll
    for (int i = 0; i < kEncodeItems; ++i) {
      const uint32_t above = static_cast<uint32_t>(before >> kAboveShift);
      const uint32_t equal = static_cast<uint32_t>(before);
      before += items.counts[i];
      const bool is_tie = items.counts[i] == 1;
      const bool is_selected = items.counts[i] > 0 && (!is_tie || equal < limit.ties);
      float rest = items.sums[i];
      if (is_selected) {
        const uint32_t position = above + (equal < limit.ties ? equal : limit.ties);
        rest = Store<kType>(pack * kPackWidth + i, items.sums[i], position, selection);
      }
      items.sums[i] = rest;
      // EncodeSelectedKernel adds the others.
      const bool is_final = kType != TopkValues::kInt8 || !is_selected;
      if (slice.residual != nullptr && is_final) {
        own.residual_sum_of_squares += static_cast<double>(rest) * static_cast<double>(rest);
      }
    }
    if (slice.residual != nullptr) StoreItems<kIsAligned>(n, items.sums, slice.residual, pack);
  }
  StoreBlockEncodeSum<kEncodeThreads>(own, &partials[blockIdx.x]);
}

// Encodes the selected elements as int8, and finishes their residuals. Bytes moved for each: 5, and
// 8 more, scattered, with a residual. Without a number of blocks, ptxas spills registers for
// compute capability 10.0. At most 64 registers and 6144 bytes of shared memory.
__global__ void __launch_bounds__(kEncodeThreads, /*blocks of a multiprocessor*/ 4)
    EncodeSelectedKernel(int64_t k, EncodeDraws draws, const TopkThreshold* threshold,
                         Selection selection, float* residual, EncodeResult* partials) {
  // Without a selection, the indices are not set.
  const int64_t count = threshold->non_finite > 0 ? 0 : k;
  EncodeResult own;
  for (int64_t block = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
       block * kInt8Block < count; block += int64_t{gridDim.x} * kWarps) {
    const int64_t first = block * kInt8Block + threadIdx.x % kWarpThreads * kInt8LaneItems;
    float sums[kInt8LaneItems];
    LoadItems<true>(count, selection.sums, first / kPackWidth, sums);
    const Int8Lane lane = QuantizeInt8(sums, block, draws);
    StoreInt8(lane, count, block, selection.values);
    if (residual == nullptr) continue;
#pragma unroll
    for (int i = 0; i < kInt8LaneItems; ++i) {
      if (first + i >= count) break;
      const float rest = sums[i] - lane.Decoded(i);
      residual[selection.indices[first + i]] = rest;
      own.residual_sum_of_squares += static_cast<double>(rest) * static_cast<double>(rest);
    }
  }
  StoreBlockEncodeSum<kEncodeThreads>(own, &partials[blockIdx.x]);
}

// The parts of the scratch memory, by their offsets.
struct Layout {
  Layout(int64_t n, int64_t k, TopkValues type) : selected(type == TopkValues::kInt8 ? k : 0) {
    partial_count = 2 * EncodeBlocks(n) + EncodeBlocks(selected);
    partials = Rounded(TopkThresholdScratchBytes());
    tiles = partials + Rounded(static_cast<size_t>(partial_count) * sizeof(EncodeResult));
    sums = tiles + Rounded(static_cast<size_t>(TileCount(n)) * sizeof(Counts));
    end = sums + Rounded(static_cast<size_t>(selected) * sizeof(float));
  }
  static size_t Rounded(size_t bytes) { return (bytes + 15) / 16 * 16; }

  int64_t selected;
  int64_t partial_count;
  size_t partials, tiles, sums, end;
};

template <bool kIsAligned>
auto CompactKernelFor(TopkValues type) {
  switch (type) {
    case TopkValues::kFloat32:
      return CompactKernel<TopkValues::kFloat32, kIsAligned>;
    case TopkValues::kBfloat16:
      return CompactKernel<TopkValues::kBfloat16, kIsAligned>;
    case TopkValues::kInt8:
      break;
  }
  return CompactKernel<TopkValues::kInt8, kIsAligned>;
}

// Queues all after the threshold, but not the sum of the partials.
absl::Status Select(const SliceToEncode& slice, int64_t k, TopkValues type, const Layout& layout,
                    const EncodeDraws& draws, EncodeResult* partials, CudaStream& stream) {
  uint8_t* const scratch = static_cast<uint8_t*>(slice.scratch);
  const TopkThreshold* const threshold = reinterpret_cast<const TopkThreshold*>(scratch);
  Counts* const tiles = reinterpret_cast<Counts*>(scratch + layout.tiles);
  const Selection selection = {reinterpret_cast<uint32_t*>(slice.bytes),
                               slice.bytes + static_cast<size_t>(k) * sizeof(uint32_t),
                               reinterpret_cast<float*>(scratch + layout.sums)};
  const bool is_aligned = AreAligned(sizeof(float4), slice.values, slice.residual);
  const int64_t blocks = EncodeBlocks(slice.n);
  RETURN_IF_ERROR(Launch(kOperation, stream, blocks, kEncodeThreads,
                         is_aligned ? CountKernel<true> : CountKernel<false>, slice, threshold,
                         tiles));
  RETURN_IF_ERROR(Launch(kOperation, stream, /*blocks=*/1, kScanThreads, ScanTilesKernel,
                         TileCount(slice.n), tiles));
  RETURN_IF_ERROR(Launch(kOperation, stream, blocks, kEncodeThreads,
                         is_aligned ? CompactKernelFor<true>(type) : CompactKernelFor<false>(type),
                         slice, threshold, tiles, selection, partials));
  return Launch(kOperation, stream, EncodeBlocks(layout.selected), kEncodeThreads,
                EncodeSelectedKernel, k, draws, threshold, selection, slice.residual,
                partials + blocks);
}

}  // namespace

size_t EncodeTopkScratchBytes(int64_t n, int64_t k, TopkValues type) {
  return Layout(n, k, type).end;
}

absl::Status EncodeTopk(const SliceToEncode& slice, int64_t k, TopkValues type,
                        const EncodeDraws& draws, CudaStream& stream) {
  const Layout layout(slice.n, k, type);
  uint8_t* const scratch = static_cast<uint8_t*>(slice.scratch);
  EncodeResult* const partials = reinterpret_cast<EncodeResult*>(scratch + layout.partials);
  if (slice.n > 0) {
    RETURN_IF_ERROR(FindTopkThreshold(slice, k, scratch, partials, stream));
    RETURN_IF_ERROR(
        Select(slice, k, type, layout, draws, partials + EncodeBlocks(slice.n), stream));
  }
  return AddEncodeSums(kOperation, layout.partial_count, partials, slice.result, stream);
}

}  // namespace capstan
