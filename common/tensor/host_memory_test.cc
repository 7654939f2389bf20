#include "common/tensor/host_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

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
  FreeHostMemory(AllocateHostMemory(0));
  FreeHostMemory(nullptr);
}

}  // namespace
}  // namespace capstan
