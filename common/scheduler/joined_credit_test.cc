#include "common/scheduler/joined_credit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace capstan {
namespace {

TEST(JoinedCreditTest, RunsOnceAtTheLastCallOfAnyCopy) {
  int runs = 0;
  const JoinedCredit joined(3, [&runs] { ++runs; });
  const JoinedCredit copy = joined;
  joined();
  copy();
  EXPECT_EQ(runs, 0);
  joined();
  EXPECT_EQ(runs, 1);
}

TEST(JoinedCreditTest, TheLastOfManyThreadsRunsIt) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> runs = 0;
    std::atomic<int> calls = 0;
    const JoinedCredit joined(4, [&] {
      EXPECT_EQ(calls, 4);
      ++runs;
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&calls, joined] {
        ++calls;
        joined();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(runs, 1);
  }
}

}  // namespace
}  // namespace capstan
