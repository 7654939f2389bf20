#include "tests/process/shared_barrier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <new>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/process/forked_process.h"

namespace capstan {
namespace {

TEST(SharedBarrierTest, NobodyGoesOnUntilAllHaveCome) {
  constexpr int kProcesses = 3, kRounds = 200;
  SharedBarrier barrier(kProcesses);
  void* const memory = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const arrivals = new (memory) std::atomic<int>(0);
  std::vector<std::unique_ptr<ForkedProcess>> processes;
  for (int i = 0; i < kProcesses; ++i) {
    processes.push_back(std::make_unique<ForkedProcess>([&](ForkedProcess::Parent& parent) {
      int early = 0;
      for (int round = 1; round <= kRounds; ++round) {
        ++*arrivals;
        barrier.Wait();
        if (*arrivals < round * kProcesses) ++early;
      }
      parent.WriteLine(absl::StrCat("went on too early in ", early, " rounds"));
      parent.ReadLine();
    }));
  }
  for (const auto& process : processes) {
    EXPECT_EQ(process->ReadLine(), "went on too early in 0 rounds");
  }
  EXPECT_EQ(*arrivals, kProcesses * kRounds);
  processes.clear();
  munmap(memory, sizeof(std::atomic<int>));
}

}  // namespace
}  // namespace capstan
