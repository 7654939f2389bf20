#include "common/tensor/buffer_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace capstan {
namespace {

TEST(BufferPoolTest, BuffersComeBackWhenTheLastOwnerLetsGo) {
  BufferPool pool;
  std::shared_ptr<uint8_t> first = pool.Take(8192);
  std::shared_ptr<uint8_t> also_first = first;
  const uint8_t* const memory = first.get();
  first = nullptr;
  EXPECT_NE(pool.Take(8192).get(), memory) << "it has an owner still";
  also_first = nullptr;
  EXPECT_EQ(pool.free_bytes(), 2 * 8192);
  std::set<const uint8_t*> taken;
  std::vector<std::shared_ptr<uint8_t>> owners;
  for (int i = 0; i < 3; ++i) {
    owners.push_back(pool.Take(8192));
    taken.insert(owners.back().get());
  }
  EXPECT_EQ(taken.size(), 3);
  EXPECT_EQ(taken.count(memory), 1);
  EXPECT_EQ(pool.free_bytes(), 0);
}

TEST(BufferPoolTest, SizesAreKeptApart) {
  BufferPool pool;
  { const auto small = pool.Take(12'288); }
  const auto large = pool.Take(20'000);
  EXPECT_EQ(pool.free_bytes(), 12'288);
  std::memset(large.get(), 1, 20'000);
}

TEST(BufferPoolTest, SizesThatDifferLittleShareABuffer) {
  BufferPool pool;
  const uint8_t* const memory = pool.Take(114'500).get();
  for (size_t bytes = 107'000; bytes < 114'000; bytes += 100) {
    EXPECT_EQ(pool.Take(bytes).get(), memory) << bytes;
  }
  EXPECT_EQ(pool.held_bytes(), 14 * 8192);
  for (size_t bytes = 4096; bytes < 200'000; bytes += bytes / 10) {
    BufferPool other;
    std::memset(other.Take(bytes).get(), 1, bytes);
    EXPECT_GE(other.free_bytes(), bytes);
    EXPECT_LE(other.free_bytes(), bytes + std::max<size_t>(4095, bytes / 8));
  }
}

TEST(BufferPoolTest, LessThanAPageIsNotKept) {
  BufferPool pool;
  const auto first = pool.Take(1), second = pool.Take(4095);
  std::memset(second.get(), 1, 4095);
  *first = 2;
  EXPECT_EQ(second.get()[0], 1);
  EXPECT_EQ(second.get()[4094], 1);
  EXPECT_EQ(pool.held_bytes(), 0);
}

TEST(BufferPoolTest, AlignsToPagesAndHugePages) {
  BufferPool pool;
  const auto alignment = [&pool](size_t bytes) {
    return reinterpret_cast<uintptr_t>(pool.Take(bytes).get());
  };
  EXPECT_EQ(alignment(1) % alignof(float), 0);
  EXPECT_EQ(alignment(4096) % 4096, 0);
  EXPECT_EQ(alignment(4 << 20) % (2 << 20), 0);
}

TEST(BufferPoolTest, LargeBuffersShareHugePages) {
  BufferPool pool;
  constexpr size_t kBytes = 500'000, kHugePage = 2 << 20;
  std::vector<std::shared_ptr<uint8_t>> buffers;
  std::set<uintptr_t> huge_pages;
  for (uint8_t i = 0; i < 8; ++i) {
    buffers.push_back(pool.Take(kBytes));
    std::memset(buffers.back().get(), i, kBytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers.back().get()) % 4096, 0);
    huge_pages.insert(reinterpret_cast<uintptr_t>(buffers.back().get()) / kHugePage);
  }
  EXPECT_EQ(huge_pages.size(), 2);
  EXPECT_EQ(pool.free_bytes(), 0);
  for (uint8_t i = 0; i < 8; ++i) {
    EXPECT_EQ(buffers[i].get()[0], i);
    EXPECT_EQ(buffers[i].get()[kBytes - 1], i);
  }
}

TEST(BufferPoolTest, EverOtherSizesAreNotAllKept) {
  BufferPool pool;
  // Each size is another one to the pool: it rounds up by an eighth at most.
  constexpr size_t kLeast = 1 << 20, kStep = 1 << 20, kSizes = 40;
  const std::shared_ptr<uint8_t> kept = pool.Take(kLeast / 2);
  std::memset(kept.get(), 7, kLeast / 2);
  size_t largest = 0;
  for (size_t i = 0; i < kSizes; ++i) {
    largest = kLeast + i * kStep;
    std::memset(pool.Take(largest).get(), 1, largest);
    EXPECT_LE(pool.held_bytes(), 2 * (kLeast / 2 + largest * 9 / 8) + BufferPool::kSlackBytes);
  }
  EXPECT_GT(pool.held_bytes(), BufferPool::kSlackBytes) << "what may be kept is";
  EXPECT_EQ(kept.get()[kLeast / 2 - 1], 7);
}

TEST(BufferPoolTest, WhatIsTakenAtOnceIsKeptWhateverItsSizes) {
  BufferPool pool;
  std::set<const uint8_t*> before, after;
  for (std::set<const uint8_t*>* memory : {&before, &after}) {
    std::vector<std::shared_ptr<uint8_t>> taken;
    for (size_t i = 0; i < 100; ++i) {
      taken.push_back(pool.Take((1 << 20) + i * 8192));
      memory->insert(taken.back().get());
    }
  }
  EXPECT_EQ(before, after);
}

TEST(BufferPoolTest, BuffersOutliveThePool) {
  std::shared_ptr<uint8_t> buffer;
  {
    BufferPool pool;
    buffer = pool.Take(8192);
  }
  std::memset(buffer.get(), 7, 8192);
  // They would lie in its memory, if that were free.
  const std::vector<std::vector<uint8_t>> others(100, std::vector<uint8_t>(8192, 1));
  EXPECT_EQ(std::count(buffer.get(), buffer.get() + 8192, 7), 8192);
}

// For the sanitizers: buffers are taken on one thread and returned on another.
TEST(BufferPoolTest, BuffersAreLetGoOnAnyThread) {
  BufferPool pool;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&pool, i] {
      for (int round = 0; round < 1000; ++round) {
        std::shared_ptr<uint8_t> buffer = pool.Take(8192);
        std::memset(buffer.get(), i, 8192);
        EXPECT_EQ(buffer.get()[4999], i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(pool.free_bytes(), 4 * 8192);
}

}  // namespace
}  // namespace capstan
