#ifndef KERNELS_CUDA_CODEC_CASES_H_
#define KERNELS_CUDA_CODEC_CASES_H_

#include <vector>

#include "kernels/cuda/kernel_cases.h"

namespace capstan {

// The codecs' part of AllKernelCases(): encoding with a residual, and decoding.
std::vector<KernelCase> CodecCases();

}  // namespace capstan

#endif  // KERNELS_CUDA_CODEC_CASES_H_
