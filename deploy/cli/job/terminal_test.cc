#include "deploy/cli/job/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>

namespace capstan {
namespace {

TEST(TerminalSizeTest, FileIsNoTerminal) {
  FILE* file = tmpfile();
  EXPECT_FALSE(GetTerminalSize(fileno(file)).has_value());
  fclose(file);
}

TEST(TerminalKeysTest, KeysAreTakenOneByOneAndTheTerminalIsRestored) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  const int inside = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  termios before = {}, after = {};
  ASSERT_EQ(tcgetattr(inside, &before), 0);
  {
    TerminalKeys keys(inside);
    EXPECT_EQ(keys.Take(), 0);
    ASSERT_EQ(write(terminal, "aq", 2), 2);
    EXPECT_EQ(keys.Take(), 'a');
    EXPECT_EQ(keys.Take(), 'q');
    EXPECT_EQ(keys.Take(), 0);
  }
  ASSERT_EQ(tcgetattr(inside, &after), 0);
  EXPECT_EQ(before.c_lflag, after.c_lflag);
  close(inside);
  close(terminal);
}

TEST(TerminalKeysTest, AFileHasNoKeys) {
  FILE* file = tmpfile();
  EXPECT_EQ(TerminalKeys(fileno(file)).Take(), 0);
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
