#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/tensor/host_buffer.h"
#include "common/tensor/memory_cutter.h"
#include "common/tensor/slicing.h"

namespace capstan {
namespace {

void ExpectAligned(size_t bytes, size_t alignment) {
  void* const memory = AllocateHostMemory(bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0) << bytes << " bytes";
  std::memset(memory, 1, bytes);
  FreeHostMemory(memory);
}

TEST(HostMemoryTest, AlignsToCacheLinesPagesAndHugePages) {
  ExpectAligned(1, 64);
  ExpectAligned(4095, 64);
  ExpectAligned(4096, 4096);
  ExpectAligned((2 << 20) - 1, 4096);
  ExpectAligned(2 << 20, 2 << 20);
  ExpectAligned((5 << 20) + 3, 2 << 20);
}

TEST(HostMemoryTest, NothingCanBeAllocatedAndFreed) {
  EXPECT_NO_THROW(FreeHostMemory(AllocateHostMemory(0)));
  EXPECT_NO_THROW(FreeHostMemory(nullptr));
}

TEST(HostBufferTest, CreateGivesZerosOrSaysHowManyBytesItCouldNotGet) {
  const absl::StatusOr<HostBuffer> buffer = HostBuffer::Create(1001);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(buffer->size_bytes(), 4004);
  for (const float value : buffer->span()) EXPECT_EQ(value, 0.0f);
  EXPECT_TRUE(HostBuffer::Create(0).ok());
  for (const size_t size : {SIZE_MAX, SIZE_MAX / 4, SIZE_MAX / 8}) {
    const absl::Status status = HostBuffer::Create(size).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << size;
  }
  EXPECT_THAT(std::string(HostBuffer::Create(size_t{1} << 62).status().message()),
              testing::HasSubstr("cannot allocate 18446744073709551616 bytes"));
}

TEST(HostBufferTest, IsAlignedAndZero) {
  HostBuffer buffer(1001);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0);
  for (const float value : buffer.span()) EXPECT_EQ(value, 0.0f);
  HostBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.size_bytes(), 4004);
}

TEST(SlicingTest, SlicesCoverTheTensorWithoutGapOrOverlap) {
  for (const uint64_t elements : {1, 15, 16, 17, 1000}) {
    const Slicing slicing(elements, /*slice_bytes=*/64);
    uint64_t next = 0;
    for (uint32_t slice = 0; slice < slicing.slice_count(); ++slice) {
      const SliceRange range = slicing.Range(SliceIndex(slice));
      EXPECT_EQ(range.offset, next);
      EXPECT_GT(range.size, 0);
      EXPECT_LE(range.size, 16);
      next += range.size;
    }
    EXPECT_EQ(next, elements);
  }
}

TEST(SlicingTest, EmptyTensorHasNoSlices) {
  EXPECT_EQ(Slicing(0, /*slice_bytes=*/64).slice_count(), 0);
}

TEST(HostBufferTest, PartOfSomethingElseKeepsItsOwner) {
  auto owner = std::make_shared<std::vector<float>>(8, 2.0f);
  HostBuffer part(owner->data() + 4, /*size=*/4, owner);
  EXPECT_EQ(owner.use_count(), 2);
  HostBuffer moved = std::move(part);
  EXPECT_EQ(moved.span()[3], 2.0f);
  moved = HostBuffer(1);
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(MemoryCutterTest, CountingNeedsWhatCuttingUses) {
  MemoryCutter count(/*memory=*/nullptr);
  EXPECT_EQ(count.Take<float>(3), nullptr);
  EXPECT_EQ(count.Take<double>(0), nullptr);
  EXPECT_EQ(count.Take<char>(257), nullptr);
  EXPECT_EQ(count.used_bytes(), 256u + 0u + 512u);

  alignas(256) char memory[768];
  MemoryCutter cutter(memory);
  EXPECT_EQ(static_cast<void*>(cutter.Take<float>(3)), memory);
  EXPECT_EQ(static_cast<void*>(cutter.Take<double>(0)), memory + 256);
  EXPECT_EQ(static_cast<void*>(cutter.Take<char>(257)), memory + 256);
  EXPECT_EQ(cutter.used_bytes(), count.used_bytes());
}

}  // namespace
}  // namespace capstan
