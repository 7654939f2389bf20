#ifndef TESTS_CUDA_EMULATOR_CUBLAS_V2_H_
#define TESTS_CUDA_EMULATOR_CUBLAS_V2_H_

#include <cuda_runtime.h>

#include <cstddef>

// This repository's part of cuBLAS's interface, for machines without CUDA. As documented in the
// cuBLAS reference.

enum cublasStatus_t : int {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
using cudaDataType = cudaDataType_t;
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
enum cublasMath_t {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16,
};

using cublasHandle_t = struct cublasContext*;

cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
const char* cublasGetStatusName(cublasStatus_t status);

// C = alpha * op(A) * op(B) + beta * C, column-major; alpha and beta are floats in host memory. A
// and B are both float32 or both bfloat16, C is float32; others are CUBLAS_STATUS_NOT_SUPPORTED.
// Every sum is float32; the order is neither the CPU's nor cuBLAS's. Factors of TF32 lose 13 bits.
// Stricter than cuBLAS: expects a workspace, set after the stream.
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_operation,
                            cublasOperation_t b_operation, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute_type,
                            cublasGemmAlgo_t algorithm);

#endif  // TESTS_CUDA_EMULATOR_CUBLAS_V2_H_
