#include "kernels/cuda/topk_threshold.h"

#include <cuda_runtime.h>

#include "common/base/status_macros.h"
#include "kernels/cuda/block_scan.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/encode_sums.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/value_bits.h"

namespace capstan {
namespace {

constexpr char kOperation[] = "top-k threshold";

// The digits of a magnitude's 31 bits. Bins of 11 bits are 8 KiB of shared memory, which let as
// many blocks run as registers do, and a fourth pass would cost more.
constexpr int kMaxBins = 1 << 11;
struct Digit {
  int shift;
  int bits;
};
constexpr Digit kDigits[] = {{20, 11}, {10, 10}, {0, 10}};
constexpr int kDigitCount = 3;

struct TopkScratch {
  TopkThreshold threshold;
  uint32_t histograms[kDigitCount][kMaxBins];
};

// Counts the digits of the elements whose higher digits are the threshold's. Bytes moved for each
// element: 4 read, and 4 more with a residual.
// At most 56 registers and 14336 bytes of shared memory.
template <bool kIsFirst, bool kIsAligned>
__global__ void __launch_bounds__(kEncodeThreads)
    HistogramKernel(SliceToEncode slice, Digit digit, TopkThreshold* threshold, uint32_t* histogram,
                    EncodeResult* partials) {
  __shared__ unsigned bins[kMaxBins];
  for (int bin = static_cast<int>(threadIdx.x); bin < kMaxBins; bin += kEncodeThreads) {
    bins[bin] = 0;
  }
  __syncthreads();
  const bool has_residual = slice.residual != nullptr;
  const uint32_t prefix = kIsFirst ? 0 : threshold->magnitude;
  EncodeResult own;
  for (int64_t pack = int64_t{blockIdx.x} * kEncodeThreads + threadIdx.x;
       pack * kPackWidth < slice.n; pack += int64_t{gridDim.x} * kEncodeThreads) {
    const auto values = LoadPackOf<kIsAligned>(slice.n, slice.values, pack);
    Pack<float, kPackWidth> residual = {};
    if (has_residual) residual = LoadPackOf<kIsAligned>(slice.n, slice.residual, pack);
#pragma unroll
    for (int item = 0; item < kPackWidth; ++item) {
      if (pack * kPackWidth + item >= slice.n) break;
      const float value = values.items[item];
      const float sum = has_residual ? value + residual.items[item] : value;
      const uint32_t magnitude = MagnitudeOf(sum);
      if (kIsFirst) AddElement(has_residual, value, sum, /*rest=*/0.0f, own);
      if (magnitude >> digit.shift >> digit.bits != prefix) continue;
      atomicAdd(&bins[magnitude >> digit.shift & ((1u << digit.bits) - 1)], 1u);
    }
  }
  if (kIsFirst) {
    if (own.non_finite > 0) atomicAdd(&threshold->non_finite, 1u);
    StoreBlockEncodeSum<kEncodeThreads>(own, &partials[blockIdx.x]);
  }
  __syncthreads();
  for (int bin = static_cast<int>(threadIdx.x); bin < kMaxBins; bin += kEncodeThreads) {
    if (bins[bin] > 0) atomicAdd(&histogram[bin], bins[bin]);
  }
}

// One block of 8 bins a thread: few enough for a scan of the block.
constexpr int kSelectThreads = kMaxBins / 8;

// Appends a digit to the threshold: that of the `wanted`-th largest element in the histogram. If
// `wanted` is 0, it is what the digit before left to be found.
// At most 48 registers and 64 bytes of shared memory.
__global__ void __launch_bounds__(kSelectThreads)
    SelectDigitKernel(uint32_t wanted, int bits, const uint32_t* histogram,
                      TopkThreshold* threshold) {
  // From the largest digit on.
  const int bins = 1 << bits;
  const int bins_per_thread = bins / kSelectThreads;
  const int first = bins - 1 - static_cast<int>(threadIdx.x) * bins_per_thread;
  uint64_t own = 0;
  for (int i = 0; i < bins_per_thread; ++i) own += histogram[first - i];
  if (wanted == 0) wanted = threshold->ties;
  // All threads have read the threshold before one of them leaves the barriers in here.
  uint64_t before = BlockScan<kSelectThreads>(own).before;
  if (before >= wanted || before + own < wanted) return;
  int bin = first;
  while (before + histogram[bin] < wanted) before += histogram[bin--];
  threshold->magnitude = threshold->magnitude << bits | static_cast<uint32_t>(bin);
  threshold->ties = static_cast<uint32_t>(wanted - before);
}

}  // namespace

size_t TopkThresholdScratchBytes() { return sizeof(TopkScratch); }

absl::Status FindTopkThreshold(const SliceToEncode& slice, int64_t k, void* scratch,
                               EncodeResult* partials, CudaStream& stream) {
  TopkScratch* const own = static_cast<TopkScratch*>(scratch);
  TopkThreshold* const threshold = &own->threshold;
  RETURN_IF_ERROR(stream.SetBytes(0, sizeof(*own), own));
  const bool is_aligned = AreAligned(sizeof(float4), slice.values, slice.residual);
  const auto first = is_aligned ? HistogramKernel<true, true> : HistogramKernel<true, false>;
  const auto other = is_aligned ? HistogramKernel<false, true> : HistogramKernel<false, false>;
  for (int i = 0; i < kDigitCount; ++i) {
    RETURN_IF_ERROR(Launch(kOperation, stream, EncodeBlocks(slice.n), kEncodeThreads,
                           i == 0 ? first : other, slice, kDigits[i], threshold, own->histograms[i],
                           partials));
    RETURN_IF_ERROR(Launch(kOperation, stream, /*blocks=*/1, kSelectThreads, SelectDigitKernel,
                           static_cast<uint32_t>(i == 0 ? k : 0), kDigits[i].bits,
                           own->histograms[i], threshold));
  }
  return absl::OkStatus();
}

}  // namespace capstan
