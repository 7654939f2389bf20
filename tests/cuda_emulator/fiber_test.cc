#include "tests/cuda_emulator/fiber.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace capstan {
namespace emulator {
namespace {

using ::testing::ElementsAre;

TEST(FiberTest, EachGoesOnWhereItLeft) {
  std::vector<int> order;
  Fiber main;
  Fiber* second_fiber = nullptr;
  Fiber first([&] {
    for (int round = 0;; ++round) {
      order.push_back(10 + round);
      Fiber::Switch(first, *second_fiber);
    }
  });
  Fiber second([&] {
    for (int round = 0;; ++round) {
      order.push_back(20 + round);
      Fiber::Switch(second, round == 1 ? main : first);
    }
  });
  second_fiber = &second;

  Fiber::Switch(main, first);

  EXPECT_THAT(order, ElementsAre(10, 20, 11, 21));
}

TEST(FiberTest, HasItsOwnStack) {
  int depth_reached = 0;
  Fiber main;
  Fiber deep([&] {
    // More than a page in one frame, and written to.
    volatile char room[64 * 1024];
    for (size_t i = 0; i < sizeof(room); i += 512) room[i] = static_cast<char>(i / 512);
    for (size_t i = 0; i < sizeof(room); i += 512) {
      if (room[i] == static_cast<char>(i / 512)) ++depth_reached;
    }
    Fiber::Switch(deep, main);
  });

  Fiber::Switch(main, deep);

  EXPECT_EQ(depth_reached, 128);
}

}  // namespace
}  // namespace emulator
}  // namespace capstan
