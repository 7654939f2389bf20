#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "common/base/program.h"

namespace capstan {
namespace {

constexpr size_t kBlockBytes = 4 << 20;
constexpr int kRounds = 50;
constexpr int kBlocks = 4;

// The number of pages touched for the first time while blocks come and go many times.
int64_t PageFaultsOfAllocating() {
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  for (int round = 0; round < kRounds; ++round) {
    void* blocks[kBlocks];
    for (void*& block : blocks) {
      block = std::malloc(kBlockBytes);
      std::memset(block, round, kBlockBytes);
    }
    for (void* const block : blocks) std::free(block);
  }
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST(KeepFreedMemoryTest, LargeBlocksAreTouchedForTheFirstTimeOnce) {
  KeepFreedMemory();
  constexpr int64_t kPagesOfARound = kBlocks * kBlockBytes / 4096;
  EXPECT_LT(PageFaultsOfAllocating(), 2 * kPagesOfARound) << "on the main thread";
  std::thread([] {
    EXPECT_LT(PageFaultsOfAllocating(), 2 * kPagesOfARound) << "on another thread";
  }).join();
}

}  // namespace
}  // namespace capstan
