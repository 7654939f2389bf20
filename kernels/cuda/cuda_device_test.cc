#include "kernels/cuda/cuda_device.h"

#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan {
namespace {

using ::testing::EndsWith;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

TEST(CudaDeviceTest, OpensTheFirstGpu) {
  const auto device = CudaDevice::Open(0);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_THAT((*device)->name(), MatchesRegex("cuda:0 \\(.+\\)"));
  EXPECT_GE((*device)->multiprocessor_count(), 1);
}

TEST(CudaDeviceTest, ANumberThatNoGpuHasIsTold) {
  for (int number : {-1, 1000}) {
    const absl::Status status = CudaDevice::Open(number).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << number;
    EXPECT_THAT(std::string(status.message()), StartsWith("cuda:" + std::to_string(number) +
                                                          ": expected a GPU number from 0 to "));
    EXPECT_THAT(std::string(status.message()), EndsWith("; correct --device"));
  }
}

TEST(CudaDeviceTest, EachThreadCanMakeItCurrent) {
  const auto device = CudaDevice::Open(0);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_TRUE((*device)->MakeCurrent().ok());
  std::thread([&] { EXPECT_TRUE((*device)->MakeCurrent().ok()); }).join();
}

}  // namespace
}  // namespace capstan
