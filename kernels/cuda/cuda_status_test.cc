#include "kernels/cuda/cuda_status.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Numbers of cudaError_t and cublasStatus_t, as CUDA's documentation has them.
constexpr int kOutOfMemory = 2;
constexpr int kInsufficientDriver = 35;
constexpr int kDevicesUnavailable = 46;
constexpr int kNoDevice = 100;
constexpr int kNoKernelImage = 209;
constexpr int kOperatingSystem = 304;
constexpr int kIllegalAddress = 700;
constexpr int kCompatNotSupported = 804;
constexpr int kBlasAllocFailed = 3;
constexpr int kBlasArchMismatch = 8;
constexpr int kBlasExecutionFailed = 13;
constexpr int kBlasNotSupported = 15;

TEST(CudaStatusTest, SuccessIsOk) {
  EXPECT_TRUE(CudaStatus(0, "copying").ok());
  EXPECT_TRUE(CublasStatus(0, "Gemm").ok());
}

TEST(CudaStatusTest, SaysWhatFailedItsNameAndWhatToDo) {
  const absl::Status status = CudaStatus(kIllegalAddress, "cuda:0: copying 12 bytes");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(),
            "cuda:0: copying 12 bytes: cudaErrorIllegalAddress: an illegal memory access was "
            "encountered; start the process again; when it comes back, dmesg (Xid) tells whether "
            "the GPU is at fault");
}

TEST(CudaStatusTest, EachKindOfErrorHasItsCode) {
  EXPECT_EQ(CudaStatus(kOutOfMemory, "").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CudaStatus(kNoDevice, "").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CudaStatus(kDevicesUnavailable, "").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CudaStatus(kInsufficientDriver, "").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CudaStatus(kNoKernelImage, "").code(), absl::StatusCode::kFailedPrecondition);
}

TEST(CudaStatusTest, StartingAgainIsNotTheAdviceForWhatTheMachineDoesNotAllow) {
  const absl::Status compat = CudaStatus(kCompatNotSupported, "");
  EXPECT_EQ(compat.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(compat.message()), HasSubstr("cuda-compat"));
  const absl::Status system = CudaStatus(kOperatingSystem, "");
  EXPECT_EQ(system.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(system.message()), HasSubstr("/dev/nvidia*"));
}

TEST(CudaStatusTest, ANumberThatCudaDoesNotKnowIsInternal) {
  EXPECT_EQ(CudaStatus(123456, "").code(), absl::StatusCode::kInternal);
}

TEST(CudaStatusTest, CublasHasNamesOfItsOwn) {
  const absl::Status status = CublasStatus(kBlasExecutionFailed, "Gemm");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), StartsWith("Gemm: CUBLAS_STATUS_EXECUTION_FAILED; "));
  EXPECT_EQ(CublasStatus(kBlasAllocFailed, "").code(), absl::StatusCode::kResourceExhausted);
}

TEST(CudaStatusTest, WhatAGpuCannotDoAsksForAnotherPrecision) {
  for (const int error : {kBlasNotSupported, kBlasArchMismatch}) {
    const absl::Status status = CublasStatus(error, "Gemm");
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << error;
    EXPECT_THAT(std::string(status.message()), HasSubstr("use --precision=float32")) << error;
  }
}

}  // namespace
}  // namespace capstan
