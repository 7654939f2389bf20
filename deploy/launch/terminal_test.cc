#include "deploy/launch/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>

#include "common/base/fake_clock.h"

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

TEST(InputEndTest, EndsWithTheInput) {
  FakeClock clock;
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  InputEnd input(pipe_fds[0], &clock);
  clock.Advance(absl::Hours(1));
  EXPECT_FALSE(input.Take()) << "nobody has begun to send something";
  ASSERT_EQ(write(pipe_fds[1], "x", 1), 1);
  EXPECT_FALSE(input.Take());
  close(pipe_fds[1]);
  EXPECT_TRUE(input.Take());
  EXPECT_FALSE(input.Take()) << "once";
  close(pipe_fds[0]);
}

TEST(InputEndTest, SilenceIsTheEndOnceSomethingHasCome) {
  FakeClock clock;
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  InputEnd input(pipe_fds[0], &clock);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(write(pipe_fds[1], "\n", 1), 1);
    EXPECT_FALSE(input.Take());
    clock.Advance(InputEnd::kLongestSilence - absl::Seconds(1));
    EXPECT_FALSE(input.Take());
  }
  clock.Advance(absl::Seconds(2));
  EXPECT_TRUE(input.Take());
  close(pipe_fds[0]);
  close(pipe_fds[1]);
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
