#include "kernels/gemm.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"

namespace capstan {
namespace {

// C = beta * C: the product of an empty inner size. cuBLAS does not promise it.
// At most 32 registers.
__global__ void __launch_bounds__(kElementwiseThreads)
    ScaleKernel(int64_t n, float beta, float* c) {
  for (int64_t i = int64_t{blockIdx.x} * kElementwiseThreads + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * kElementwiseThreads) {
    c[i] = beta == 0 ? 0.0f : beta * c[i];
  }
}

// cuBLAS stores columns one after the other: it reads a row-major array as its transpose. So
// C = op(A) op(B) is computed as C^T = op(B)^T op(A)^T: factors swapped, no data moved.
absl::Status Multiply(const GemmShape& shape, cublasComputeType_t compute, cudaDataType_t type,
                      float alpha, const void* a, const void* b, float beta, float* c,
                      CudaStream& stream) {
  RETURN_IF_ERROR(CheckGemmShape(shape));
  const int m = static_cast<int>(shape.m), n = static_cast<int>(shape.n);
  const int k = static_cast<int>(shape.k);
  if (m == 0 || n == 0) return absl::OkStatus();
  if (k == 0) {
    const int64_t elements = shape.m * shape.n;
    return Launch("matrix product", stream,
                  ElementwiseBlocks(elements, kElementwiseThreads, stream), kElementwiseThreads,
                  ScaleKernel, elements, beta, c);
  }
  RETURN_IF_ERROR(stream.device().MakeCurrent());
  const cublasStatus_t error =
      cublasGemmEx(stream.blas(), shape.is_b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                   shape.is_a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &alpha, b, type,
                   shape.is_b_transposed ? k : n, a, type, shape.is_a_transposed ? m : k, &beta, c,
                   CUDA_R_32F, n, compute, CUBLAS_GEMM_DEFAULT);
  if (error == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return CublasStatus(error, absl::StrCat("matrix product of m = ", m, ", n = ", n, ", k = ", k,
                                          " on ", stream.device().name()));
}

}  // namespace

absl::Status Gemm(const GemmShape& shape, MatrixPrecision precision, float alpha, const float* a,
                  const float* b, float beta, float* c, CudaStream& stream) {
  const cublasComputeType_t compute =
      precision == MatrixPrecision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  return Multiply(shape, compute, CUDA_R_32F, alpha, a, b, beta, c, stream);
}

absl::Status Gemm(const GemmShape& shape, float alpha, const Bfloat16* a, const Bfloat16* b,
                  float beta, float* c, CudaStream& stream) {
  return Multiply(shape, CUBLAS_COMPUTE_32F, CUDA_R_16BF, alpha, a, b, beta, c, stream);
}

}  // namespace capstan
