#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "common/tensor/host_buffer.h"
#include "common/tensor/slicing.h"

namespace capstan {
namespace {

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

}  // namespace
}  // namespace capstan
