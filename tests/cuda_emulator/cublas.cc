#include <cublas_v2.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/cuda_emulator/machine.h"
#include "tests/cuda_emulator/runtime_internal.h"

using capstan::emulator::BlockRunner;
using capstan::emulator::Machine;

struct cublasContext {
  const int gpu;
  cudaStream_t stream = nullptr;
  bool has_workspace = false;
};

namespace {

float ToFloat(float value) { return value; }

// A bfloat16 is the upper half of a float32.
float ToFloat(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// A factor of a TF32 product. Tensor cores ignore the lowest 13 bits of its float32.
struct Tf32 {
  float value;
};
float ToFloat(Tf32 factor) {
  uint32_t bits;
  std::memcpy(&bits, &factor.value, sizeof(bits));
  bits &= ~uint32_t{0x1fff};
  std::memcpy(&factor.value, &bits, sizeof(bits));
  return factor.value;
}

// A column-major matrix as the product sees it.
template <typename T>
struct Operand {
  const T* data;
  int64_t row_stride;
  int64_t column_stride;

  Operand(cublasOperation_t operation, const void* matrix, int leading)
      : data(static_cast<const T*>(matrix)),
        row_stride(operation == CUBLAS_OP_N ? 1 : leading),
        column_stride(operation == CUBLAS_OP_N ? leading : 1) {}
  float at(int64_t row, int64_t column) const {
    return ToFloat(data[row * row_stride + column * column_stride]);
  }
};

// Adds every fourth product, and then the four sums: cuBLAS has an order of its own, too. A
// column's sums are made side by side: that is fast for a plain A.
template <typename T>
void Multiply(int m, int n, int k, float alpha, const Operand<T>& a, const Operand<T>& b,
              float beta, float* c, int ldc) {
  std::vector<float> sums[4];
  for (int64_t column = 0; column < n; ++column) {
    for (std::vector<float>& part : sums) part.assign(static_cast<size_t>(m), 0.0f);
    for (int64_t i = 0; i < k; ++i) {
      const float factor = b.at(i, column);
      std::vector<float>& part = sums[i % 4];
      for (int64_t row = 0; row < m; ++row) part[row] += a.at(row, i) * factor;
    }
    float* const results = c + column * ldc;
    for (int64_t row = 0; row < m; ++row) {
      const float sum = (sums[0][row] + sums[1][row]) + (sums[2][row] + sums[3][row]);
      results[row] = beta == 0 ? alpha * sum : alpha * sum + beta * results[row];
    }
  }
}

bool IsKnown(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T;
}

// Bytes from the first to the last element of a column-major matrix.
size_t SpanBytes(int64_t rows, int64_t columns, int64_t leading, size_t element_bytes) {
  if (rows == 0 || columns == 0) return 0;
  return static_cast<size_t>((columns - 1) * leading + rows) * element_bytes;
}

}  // namespace

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  int gpu_count = 0;
  if (cudaGetDeviceCount(&gpu_count) != cudaSuccess || cudaPeekAtLastError() != cudaSuccess)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext{capstan::emulator::CurrentGpu()};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!Machine::Get().IsStream(stream) || stream->gpu != handle->gpu)
    return CUBLAS_STATUS_INVALID_VALUE;
  handle->stream = stream;
  handle->has_workspace = false;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool is_aligned = reinterpret_cast<uintptr_t>(workspace) % 256 == 0;
  if (!is_aligned || !Machine::Get().IsOnGpu(workspace, bytes, handle->gpu)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  handle->has_workspace = true;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t /*mode*/) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_operation,
                            cublasOperation_t b_operation, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute_type,
                            cublasGemmAlgo_t algorithm) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool is_float = a_type == CUDA_R_32F;
  if (a_type != b_type || c_type != CUDA_R_32F || (!is_float && a_type != CUDA_R_16BF) ||
      (!is_float && compute_type != CUBLAS_COMPUTE_32F) || algorithm != CUBLAS_GEMM_DEFAULT)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!is_float && Machine::Get().options().compute_capability < 80) {
    return CUBLAS_STATUS_ARCH_MISMATCH;
  }
  const int a_rows = a_operation == CUBLAS_OP_N ? m : k;
  const int b_rows = b_operation == CUBLAS_OP_N ? k : n;
  if (!IsKnown(a_operation) || !IsKnown(b_operation) || m < 0 || n < 0 || k < 0 ||
      lda < std::max(1, a_rows) || ldb < std::max(1, b_rows) || ldc < std::max(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!Machine::Get().IsStream(handle->stream)) return CUBLAS_STATUS_INVALID_VALUE;
  if (Machine::Get().fault(handle->gpu) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  // cuBLAS would take one of its own, and the order of sums could differ from run to run.
  if (!handle->has_workspace) return CUBLAS_STATUS_INTERNAL_ERROR;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const size_t element_bytes = is_float ? sizeof(float) : sizeof(uint16_t);
  const int gpu = handle->gpu;
  // A GPU would have an illegal access while it runs.
  if (!Machine::Get().IsOnGpu(a, SpanBytes(a_rows, m + k - a_rows, lda, element_bytes), gpu) ||
      !Machine::Get().IsOnGpu(b, SpanBytes(b_rows, n + k - b_rows, ldb, element_bytes), gpu) ||
      !Machine::Get().IsOnGpu(c, SpanBytes(m, n, ldc, sizeof(float)), gpu))
    return CUBLAS_STATUS_EXECUTION_FAILED;
  Machine::Get().PushLaunch(*handle->stream,
                            [=, scale = *static_cast<const float*>(alpha),
                             keep = *static_cast<const float*>(beta)](BlockRunner&) {
                              float* const result = static_cast<float*>(c);
                              if (compute_type == CUBLAS_COMPUTE_32F_FAST_TF32) {
                                Multiply<Tf32>(m, n, k, scale, {a_operation, a, lda},
                                               {b_operation, b, ldb}, keep, result, ldc);
                              } else if (is_float) {
                                Multiply<float>(m, n, k, scale, {a_operation, a, lda},
                                                {b_operation, b, ldb}, keep, result, ldc);
                              } else {
                                Multiply<uint16_t>(m, n, k, scale, {a_operation, a, lda},
                                                   {b_operation, b, ldb}, keep, result, ldc);
                              }
                            });
  return CUBLAS_STATUS_SUCCESS;
}
