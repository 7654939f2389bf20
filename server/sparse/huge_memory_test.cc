#include "server/sparse/huge_memory.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace capstan {
namespace {

TEST(HugeMemoryTest, BeginsEmpty) {
  HugeMemory memory;
  EXPECT_EQ(memory.data(), nullptr);
  EXPECT_EQ(memory.size(), 0u);
}

// A process may have 65,530 maps, unless the system is told otherwise.
TEST(HugeMemoryTest, ThereMayBeMoreSmallOnesThanMaps) {
  std::vector<std::unique_ptr<HugeMemory>> all;
  for (int i = 0; i < 100'000; ++i) {
    all.push_back(std::make_unique<HugeMemory>());
    all.back()->Grow(5000);
    ASSERT_EQ(all.back()->data()[4999], 0);
  }
}

// Through small pages, huge pages, and moves to larger ranges, among other memory that grows.
TEST(HugeMemoryTest, KeepsItsContentsWhileItGrowsAndTheNewPartIsZero) {
  HugeMemory memory, other;
  size_t filled = 0;
  for (const size_t bytes : {1, 4096, 5000, 900'000, 1 << 20, 3 << 20, (8 << 20) - 100, 9 << 20,
                             (17 << 20) + 1, 64 << 20}) {
    memory.Grow(bytes);
    other.Grow(bytes);
    ASSERT_GE(memory.size(), bytes);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 64, 0u);
    for (size_t i = 0; i < memory.size(); i += 512) {
      ASSERT_EQ(memory.data()[i], i < filled ? static_cast<char>(i / 512 + 1) : 0) << i;
      memory.data()[i] = static_cast<char>(i / 512 + 1);
      other.data()[i] = 99;
    }
    filled = memory.size();
  }
}

TEST(HugeMemoryTest, DoesNotShrink) {
  HugeMemory memory;
  memory.Grow(10000);
  const size_t size = memory.size();
  const char* const data = memory.data();
  memory.Grow(1);
  EXPECT_EQ(memory.size(), size);
  EXPECT_EQ(memory.data(), data);
}

}  // namespace
}  // namespace capstan
