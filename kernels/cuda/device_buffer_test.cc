#include "kernels/cuda/device_buffer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::unique_ptr<CudaDevice> OpenGpu() { return CudaDevice::Open(0).value(); }

TEST(DeviceBufferTest, HasTheBytesAlignedTo256) {
  const auto device = OpenGpu();
  for (size_t bytes : {1, 4, 1000, 100'000}) {
    const auto buffer = DeviceBuffer::Allocate(*device, bytes, "the test");
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ(buffer->size_bytes(), bytes);
    ASSERT_NE(buffer->data<void>(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data<char>()) % 256, 0u);
  }
}

TEST(DeviceBufferTest, NoBytesAreANullPointer) {
  const auto device = OpenGpu();
  const auto buffer = DeviceBuffer::Allocate(*device, 0, "the test");
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(buffer->data<void>(), nullptr);
  EXPECT_EQ(buffer->size_bytes(), 0u);
}

TEST(DeviceBufferTest, MoreThanThereIsIsToldWithItsPurpose) {
  const auto device = OpenGpu();
  const absl::Status status =
      DeviceBuffer::Allocate(*device, size_t{1} << 50, "parameters").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith(device->name() +
                               ": expected 1125899906842624 free bytes for parameters, got "),
                    HasSubstr("; free the GPU of other programs")));
}

TEST(DeviceBufferTest, TheGpuWorksOnAfterAnAllocationThatFailed) {
  const auto device = OpenGpu();
  EXPECT_FALSE(DeviceBuffer::Allocate(*device, size_t{1} << 50, "too much").ok());
  EXPECT_TRUE(DeviceBuffer::Allocate(*device, 1 << 10, "enough").ok());
}

TEST(DeviceBufferTest, MovingLeavesAnEmptyBuffer) {
  const auto device = OpenGpu();
  DeviceBuffer first = DeviceBuffer::Allocate(*device, 100, "the test").value();
  void* const data = first.data<void>();

  DeviceBuffer second = std::move(first);
  EXPECT_EQ(second.data<void>(), data);
  EXPECT_EQ(first.data<void>(), nullptr);
  EXPECT_EQ(first.size_bytes(), 0u);

  DeviceBuffer third = DeviceBuffer::Allocate(*device, 50, "the test").value();
  third = std::move(second);
  EXPECT_EQ(third.data<void>(), data);
  EXPECT_EQ(third.size_bytes(), 100u);
}

}  // namespace
}  // namespace capstan
