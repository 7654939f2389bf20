#ifndef KERNELS_CUDA_SLICE_ENCODING_H_
#define KERNELS_CUDA_SLICE_ENCODING_H_

#include <array>
#include <cstdint>

#include "common/base/ids.h"
#include "common/base/random.h"

// What the encoders of a slice have in common. Their bytes are those of common/codec, bit by bit.
namespace capstan {

struct EncodeResult {
  // In float64; 0 without a residual. The order of the sums depends on the sizes only.
  double gradient_sum_of_squares = 0;  // of the values
  double residual_sum_of_squares = 0;  // of the new residual
  // Number of elements whose value + residual is a NaN or an infinity. Unless it is 0, the sums and
  // the bytes are undefined.
  int64_t non_finite = 0;
};

// One encoding: of values + residual. All pointers are to the GPU's memory.
struct SliceToEncode {
  int64_t n = 0;
  const float* values = nullptr;  // `n`
  // `n`, or null for none. Becomes values + residual - decoded bytes.
  float* residual = nullptr;
  uint8_t* bytes = nullptr;        // aligned to 16 bytes
  EncodeResult* result = nullptr;  // always written
  void* scratch = nullptr;
};

// What the draws of stochastic rounding depend on, as the generator takes it.
struct EncodeDraws {
  uint32_t key[2] = {};      // of the job's seed, the table and the worker
  uint64_t first_block = 0;  // of the slice, in its table; of 8 elements each
  uint64_t step = 0;
};

inline EncodeDraws MakeEncodeDraws(uint64_t seed, TableId table, WorkerId worker, Step step,
                                   uint64_t first_element) {
  const std::array<uint32_t, 4> words =
      Philox4x32({static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), table.value(),
                  worker.value()},
                 {0, 0});
  return {{words[0], words[1]}, first_element / 8, static_cast<uint64_t>(step.value())};
}

}  // namespace capstan

#endif  // KERNELS_CUDA_SLICE_ENCODING_H_
