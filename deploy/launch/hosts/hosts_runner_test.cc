#include "deploy/launch/hosts/hosts_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "common/base/real_clock.h"
#include "deploy/launch/hosts/fake_ssh.h"

namespace capstan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// Ends with its input, as `capstan run --end_with_stdin`.
constexpr char kUntilTheEnd[] = "cat >/dev/null; echo told to end; exit 130";
constexpr char kMeet[] = "echo the other machines meet at 10.0.0.1:4000; ";

// Runs the scripts on hosts a, b, ...
class HostsRunnerTest : public ::testing::Test {
 protected:
  HostsRunnerTest() : ssh_(::testing::UnitTest::GetInstance()->current_test_info()->name()) {}

  absl::Status Run(const std::vector<std::string>& scripts) {
    const std::string names[] = {"a", "a,b", "a,b,c"};
    const RemoteHosts::Options ssh_options = ssh_.Options(names[scripts.size() - 1], &clock_);
    RemoteHosts hosts(ssh_options);
    HostsRunner::Options options;
    options.hosts = &hosts;
    options.script = [&](int host, const std::string& coordinator) {
      coordinators_.push_back(coordinator);
      return scripts[host];
    };
    options.print = [this](const std::string& line) {
      lines_.push_back(line);
      if (interrupt_after_.count(line) > 0) ssh_.Interrupt();
    };
    options.take_interrupt = ssh_options.take_interrupt;
    options.clock = &clock_;
    options.runs_programs = runs_programs_;
    options.patience_after_first = absl::Milliseconds(300);
    options.patience_after_failure = absl::Milliseconds(600);
    options.end_timeout = absl::Seconds(1);
    HostsRunner runner(options);
    const absl::Status result = runner.Run();
    have_all_ended_ = runner.HaveAllEnded();
    return result;
  }

  RealClock clock_;
  FakeSsh ssh_;
  bool runs_programs_ = false;
  std::set<std::string> interrupt_after_;  // these lines
  bool have_all_ended_ = false;
  std::vector<std::string> coordinators_;
  std::vector<std::string> lines_;
};

TEST_F(HostsRunnerTest, TheOthersMeetTheFirst) {
  const absl::Status result =
      Run({std::string(kMeet) + "sleep 0.3; echo done", "echo here", "true"});
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(coordinators_, testing::ElementsAre("", "10.0.0.1:4000", "10.0.0.1:4000"));
  EXPECT_THAT(lines_, Contains("a | done"));
  EXPECT_THAT(lines_, Contains("b | here"));
}

TEST_F(HostsRunnerTest, EachHearsASignOfLifeAtItsStart) {
  const absl::Status result = Run({std::string(kMeet) + "sleep 0.3", "read -r line && echo heard"});
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(lines_, Contains("b | heard"));
}

TEST_F(HostsRunnerTest, WhoOutlivesTheFirstIsToldToEnd) {
  const absl::Status result = Run({std::string(kMeet) + "sleep 0.3", kUntilTheEnd});
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(lines_, Contains("b | told to end"));
}

TEST_F(HostsRunnerTest, AProgramMayTakeLongAfterTheJobIsDone) {
  runs_programs_ = true;
  const std::string first = std::string(kMeet) + "sleep 0.3";
  const absl::Status result = Run({first, "sleep 1; echo saved"});
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_THAT(lines_, Contains("b | saved"));
  EXPECT_EQ(Run({first, "sleep 1; echo disk full; exit 1"}).message(),
            "host b ended (exit code 1): disk full");
}

TEST_F(HostsRunnerTest, TheFirstSaysWhyTheJobFailed) {
  EXPECT_EQ(Run({"echo no data >&2; exit 1", "true"}).message(),
            "host a ended (exit code 1): no data");
  EXPECT_THAT(coordinators_, testing::ElementsAre(""));
  EXPECT_EQ(Run({std::string(kMeet) + "sleep 0.3; echo 'capstan run: lost b; logs in x'; exit 1",
                 "exit 255"})
                .message(),
            "host a ended (exit code 1): lost b");
}

TEST_F(HostsRunnerTest, AJobDoesNotOutliveAFailedHostForLong) {
  EXPECT_EQ(Run({std::string(kMeet) + kUntilTheEnd, "echo broken pipe; exit 255"}).message(),
            "host b ended (exit code 255): broken pipe");
  EXPECT_THAT(lines_, Contains("a | told to end"));
}

TEST_F(HostsRunnerTest, AnInterruptEndsAll) {
  interrupt_after_ = {"b | ready"};
  const absl::Status result =
      Run({std::string(kMeet) + kUntilTheEnd, std::string("echo ready; ") + kUntilTheEnd});
  EXPECT_TRUE(absl::IsCancelled(result)) << result;
  EXPECT_THAT(lines_, Contains("a | told to end"));
  EXPECT_THAT(lines_, Contains("b | told to end"));
  EXPECT_TRUE(have_all_ended_);
}

TEST_F(HostsRunnerTest, ASecondInterruptDoesNotWait) {
  interrupt_after_ = {"a | ready", "a | still here"};
  const absl::Status result = Run({"echo ready; cat >/dev/null; echo still here; sleep 1000"});
  EXPECT_TRUE(absl::IsCancelled(result)) << result;
  EXPECT_FALSE(have_all_ended_);
}

TEST_F(HostsRunnerTest, AHostThatDoesNotEndIsGivenUp) {
  EXPECT_TRUE(Run({std::string(kMeet) + "sleep 0.3", "sleep 1000"}).ok());
  EXPECT_FALSE(have_all_ended_);
}

TEST_F(HostsRunnerTest, AHostThatPrintsWithoutEndIsEnded) {
  EXPECT_EQ(Run({"exec cat /dev/zero"}).message(),
            "host a ended (killed by signal 9): it has printed too much");
}

}  // namespace
}  // namespace capstan
