#include "deploy/cli/interrupt_signals.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(InterruptSignalsTest, EachSignalIsTakenOnce) {
  InterruptSignals signals;
  EXPECT_FALSE(signals.Take());
  raise(SIGINT);
  EXPECT_TRUE(signals.Take());
  EXPECT_FALSE(signals.Take());
  raise(SIGTERM);
  EXPECT_TRUE(signals.Take());
}

TEST(InterruptSignalsTest, SignalThatNobodyTookDoesNotEndTheProcessAfterwards) {
  {
    InterruptSignals signals;
    raise(SIGTERM);
  }
  InterruptSignals signals;
  EXPECT_FALSE(signals.Take());
}

}  // namespace
}  // namespace capstan
