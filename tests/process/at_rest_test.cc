#include "tests/process/at_rest.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/process/forked_process.h"

namespace capstan {
namespace {

class AtRestTest : public testing::Test {
 protected:
  // A child that waits for a line and then, if it got "work", uses the processor for ever, in its
  // first thread or in another one.
  AtRestTest()
      : child_([](ForkedProcess::Parent& parent) {
          parent.WriteLine(std::to_string(getpid()));
          const std::string told = parent.ReadLine();
          const auto work = [&parent] {
            parent.WriteLine("works");
            for (std::atomic<int> count = 0;; ++count) {
            }
          };
          if (told == "work in a thread") std::thread(work).join();
          if (told == "work") work();
        }),
        pid_(std::stoi(child_.ReadLine())) {}

  ForkedProcess child_;
  const pid_t pid_;
};

TEST_F(AtRestTest, AProcessThatWaitsIsAtRest) {
  while (!WereAtRest({pid_})) {
  }
  EXPECT_TRUE(WereAtRest({pid_})) << "nothing has woken it";
}

TEST_F(AtRestTest, OneThatWorksIsNot) {
  child_.WriteLine("work");
  EXPECT_EQ(child_.ReadLine(), "works");
  for (int look = 0; look < 100; ++look) EXPECT_FALSE(WereAtRest({pid_}));
}

TEST_F(AtRestTest, NorIsOneWithAThreadThatWorks) {
  child_.WriteLine("work in a thread");
  EXPECT_EQ(child_.ReadLine(), "works");
  for (int look = 0; look < 100; ++look) EXPECT_FALSE(WereAtRest({pid_}));
}

TEST_F(AtRestTest, NorAreTwoOfWhichOneHasEnded) {
  while (!WereAtRest({pid_})) {
  }
  ForkedProcess ended(
      [](ForkedProcess::Parent& parent) { parent.WriteLine(std::to_string(getpid())); });
  const pid_t pid = std::stoi(ended.ReadLine());
  ended.ReadLine();  // empty: it has ended
  EXPECT_FALSE(WereAtRest({pid_, pid}));
}

}  // namespace
}  // namespace capstan
