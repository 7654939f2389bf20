#include "server/shard/turn_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace capstan {
namespace {

TEST(TurnMutexTest, OneThreadAtATimeHasIt) {
  TurnMutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 2000; ++j) {
        TurnLock lock(&mutex);
        ++count;
      }
    });
  }
  for (int j = 0; j < 2000; ++j) {
    mutex.LockLast();
    ++count;
    mutex.UnlockLast();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 8000);
}

TEST(TurnMutexTest, AWaitingThreadGoesBeforeOneThatTakesItAgainAndAgain) {
  TurnMutex mutex;
  std::atomic<bool> is_had = false;
  mutex.LockLast();
  std::thread waiting([&] {
    TurnLock lock(&mutex);
    is_had = true;
  });
  // It may not wait yet when the mutex is free for the first time.
  int turns = 0;
  for (; !is_had; ++turns) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    mutex.UnlockLast();
    mutex.LockLast();
  }
  mutex.UnlockLast();
  waiting.join();
  EXPECT_LT(turns, 1000);
}

}  // namespace
}  // namespace capstan
