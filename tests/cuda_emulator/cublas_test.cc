#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace capstan {
namespace emulator {
namespace {

constexpr int kM = 5;
constexpr int kN = 7;
constexpr int kK = 3;
constexpr int kRoom = 128;  // elements of each array; the rest must stay

// A stream with a handle, and three arrays of kRoom floats of device memory.
class CublasTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasSetStream(handle_, stream_), CUBLAS_STATUS_SUCCESS);
    for (void** array : {&a_, &b_, &c_, &workspace_})
      ASSERT_EQ(cudaMalloc(array, kRoom * sizeof(float)), cudaSuccess);
    ASSERT_EQ(SetWorkspace(), CUBLAS_STATUS_SUCCESS);
  }

  void TearDown() override {
    EXPECT_EQ(cublasDestroy(handle_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    for (void* array : {a_, b_, c_, workspace_}) EXPECT_EQ(cudaFree(array), cudaSuccess);
  }

  void Upload(const void* from, size_t bytes, void* to) {
    ASSERT_EQ(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

  std::vector<float> DownloadC() {
    std::vector<float> c(kRoom);
    EXPECT_EQ(cudaMemcpyAsync(c.data(), c_, kRoom * sizeof(float), cudaMemcpyDeviceToHost, stream_),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return c;
  }

  cublasStatus_t SetWorkspace() {
    return cublasSetWorkspace(handle_, workspace_, kRoom * sizeof(float));
  }

  cublasStatus_t Gemm(cublasOperation_t a_operation, int lda, cublasOperation_t b_operation,
                      int ldb, int ldc, cudaDataType type, float alpha, float beta,
                      cublasComputeType_t compute = CUBLAS_COMPUTE_32F) {
    return cublasGemmEx(handle_, a_operation, b_operation, kM, kN, kK, &alpha, a_, type, lda, b_,
                        type, ldb, &beta, c_, CUDA_R_32F, ldc, compute, CUBLAS_GEMM_DEFAULT);
  }

  cudaStream_t stream_;
  cublasHandle_t handle_;
  void* a_;
  void* b_;
  void* c_;
  void* workspace_;
};

std::vector<float> SmallIntegers(int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<float> values(kRoom);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 17) - 8);
  return values;
}

// The element of op(M) at (row, column), M column-major.
float At(const std::vector<float>& matrix, bool is_transposed, int leading, int row, int column) {
  return is_transposed ? matrix[row * leading + column] : matrix[column * leading + row];
}

// Sums of small integers are exact in float32.
TEST_F(CublasTest, ColumnMajorProductInEveryOrientation) {
  const std::vector<float> a = SmallIntegers(1);
  const std::vector<float> b = SmallIntegers(2);
  const std::vector<float> c = SmallIntegers(3);
  for (bool is_a_transposed : {false, true}) {
    for (bool is_b_transposed : {false, true}) {
      SCOPED_TRACE(std::to_string(is_a_transposed) + std::to_string(is_b_transposed));
      const int lda = 6, ldb = 8, ldc = 9;
      Upload(a.data(), kRoom * sizeof(float), a_);
      Upload(b.data(), kRoom * sizeof(float), b_);
      Upload(c.data(), kRoom * sizeof(float), c_);

      ASSERT_EQ(Gemm(is_a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, lda,
                     is_b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, ldb, ldc, CUDA_R_32F,
                     /*alpha=*/2, /*beta=*/-1),
                CUBLAS_STATUS_SUCCESS);

      std::vector<float> expected = c;
      for (int row = 0; row < kM; ++row) {
        for (int column = 0; column < kN; ++column) {
          double sum = 0;
          for (int i = 0; i < kK; ++i)
            sum += At(a, is_a_transposed, lda, row, i) * At(b, is_b_transposed, ldb, i, column);
          float& result = expected[column * ldc + row];
          result = static_cast<float>(2 * sum - result);
        }
      }
      EXPECT_EQ(DownloadC(), expected);
    }
  }
}

TEST_F(CublasTest, BetaZeroDoesNotReadC) {
  const std::vector<float> ones(kRoom, 1.0f);
  Upload(ones.data(), kRoom * sizeof(float), a_);
  Upload(ones.data(), kRoom * sizeof(float), b_);
  ASSERT_EQ(Gemm(CUBLAS_OP_N, kM, CUBLAS_OP_N, kK, kM, CUDA_R_32F, 1, 0), CUBLAS_STATUS_SUCCESS);
  const std::vector<float> c = DownloadC();
  for (int i = 0; i < kM * kN; ++i) EXPECT_EQ(c[i], kK) << i;
}

TEST_F(CublasTest, Bfloat16InputsAreTheUpperHalvesOfFloats) {
  std::vector<uint16_t> half(kRoom);
  const std::vector<float> values = SmallIntegers(4);
  for (int i = 0; i < kRoom; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof(bits));
    half[i] = static_cast<uint16_t>(bits >> 16);
  }
  Upload(half.data(), kRoom * sizeof(uint16_t), a_);
  Upload(half.data(), kRoom * sizeof(uint16_t), b_);
  ASSERT_EQ(Gemm(CUBLAS_OP_N, kM, CUBLAS_OP_N, kK, kM, CUDA_R_16BF, 1, 0), CUBLAS_STATUS_SUCCESS);
  const std::vector<float> c = DownloadC();
  for (int row = 0; row < kM; ++row) {
    for (int column = 0; column < kN; ++column) {
      float sum = 0;
      for (int i = 0; i < kK; ++i)
        sum += At(values, false, kM, row, i) * At(values, false, kK, i, column);
      EXPECT_EQ(c[column * kM + row], sum);
    }
  }
}

TEST_F(CublasTest, FactorsOfTf32Have10BitsAfterThePoint) {
  // 1 + 2^-10 stays, and 1 + 2^-11 becomes 1.
  for (const auto& [factor, expected] : {std::pair(0x1.004p0f, 0x1.004p0f), {0x1.002p0f, 1.0f}}) {
    std::vector<float> values(kRoom, factor);
    Upload(values.data(), kRoom * sizeof(float), a_);
    values.assign(kRoom, 1.0f);
    Upload(values.data(), kRoom * sizeof(float), b_);
    ASSERT_EQ(
        Gemm(CUBLAS_OP_N, kM, CUBLAS_OP_N, kK, kM, CUDA_R_32F, 1, 0, CUBLAS_COMPUTE_32F_FAST_TF32),
        CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(DownloadC()[0], kK * expected);
  }
}

TEST_F(CublasTest, AProductNeedsAWorkspaceThatWasSetAfterTheStream) {
  ASSERT_EQ(cublasSetStream(handle_, stream_), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Gemm(CUBLAS_OP_N, kM, CUBLAS_OP_N, kK, kM, CUDA_R_32F, 1, 0),
            CUBLAS_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(cublasSetWorkspace(handle_, static_cast<char*>(workspace_) + 128, 128),
            CUBLAS_STATUS_INVALID_VALUE)
      << "aligned to 256 bytes";
  ASSERT_EQ(SetWorkspace(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Gemm(CUBLAS_OP_N, kM, CUBLAS_OP_N, kK, kM, CUDA_R_32F, 1, 0), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
}

TEST_F(CublasTest, WrongArgumentsAreRefused) {
  EXPECT_EQ(Gemm(CUBLAS_OP_N, kM - 1, CUBLAS_OP_N, kK, kM, CUDA_R_32F, 1, 0),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Gemm(CUBLAS_OP_N, kM, CUBLAS_OP_N, kK, kM, static_cast<cudaDataType>(2), 1, 0),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(Gemm(CUBLAS_OP_N, 100, CUBLAS_OP_N, kK, kM, CUDA_R_32F, 1, 0),
            CUBLAS_STATUS_EXECUTION_FAILED)
      << "A ends beyond its memory";
  EXPECT_EQ(cublasSetStream(handle_, nullptr), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSetWorkspace(handle_, a_, kRoom * sizeof(float) + 1),
            CUBLAS_STATUS_INVALID_VALUE);
}

}  // namespace
}  // namespace emulator
}  // namespace capstan
