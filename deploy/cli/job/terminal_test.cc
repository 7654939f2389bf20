#include "deploy/cli/job/terminal.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace capstan {
namespace {

TEST(TerminalSizeTest, FileIsNoTerminal) {
  FILE* file = tmpfile();
  EXPECT_FALSE(GetTerminalSize(fileno(file)).has_value());
  fclose(file);
}

TEST(InterruptSignalsTest, EachSignalIsTakenOnce) {
  InterruptSignals signals;
  EXPECT_FALSE(signals.Take());
  raise(SIGINT);
  EXPECT_TRUE(signals.Take());
  EXPECT_FALSE(signals.Take());
  raise(SIGTERM);
  EXPECT_TRUE(signals.Take());
}

TEST(InterruptSignalsTest, HangupIsTakenUnlessItIsIgnored) {
  const auto previous = std::signal(SIGHUP, SIG_DFL);
  {
    InterruptSignals signals;
    raise(SIGHUP);
    EXPECT_TRUE(signals.Take());
  }
  std::signal(SIGHUP, SIG_IGN);
  {
    InterruptSignals signals;
    raise(SIGHUP);
    EXPECT_FALSE(signals.Take());
  }
  std::signal(SIGHUP, previous);
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
