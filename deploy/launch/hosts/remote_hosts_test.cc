#include "deploy/launch/hosts/remote_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/base/real_clock.h"
#include "deploy/launch/hosts/fake_ssh.h"

namespace capstan {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RemoteHostsTest, EachHostAnswers) {
  RealClock clock;
  FakeSsh ssh("each_host_answers");
  RemoteHosts hosts(ssh.Options("ann@a,b", &clock));
  RemoteHosts::Task task;
  task.script = [](int host) {
    return "cat; printf 'no end of line'; answer \"$host " + std::to_string(host) +
           " it's\"; echo more";
  };
  task.here = [](int) { return "echo given | \"$@\""; };
  const auto answers = hosts.RunAll(task, {1, 0});
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_THAT(*answers, ElementsAre("b 1 it's", "a 0 it's"));
  std::ifstream log(hosts.LogPath(0));
  std::string line;
  std::getline(log, line);
  EXPECT_EQ(line, "given");
}

TEST(RemoteHostsTest, AHostThatFailsIsNamed) {
  RealClock clock;
  FakeSsh ssh("a_host_that_fails");
  RemoteHosts hosts(ssh.Options("a,nobody,c,d", &clock));
  RemoteHosts::Task task;
  task.what = "dance";
  task.script = [](int host) {
    return host == 2   ? "echo broken >&2; echo 'tar: Exiting with failure status' >&2; exit 3"
           : host == 3 ? "echo silent"
                       : "answer ok";
  };
  const auto answers = hosts.RunAll(task, hosts.All());
  EXPECT_EQ(answers.status().message(), "expected to dance, but cannot on nobody, c, d");
  EXPECT_THAT(ssh.told(), testing::UnorderedElementsAre("host nobody: ssh: no route to host",
                                                        "host c: broken", "host d: silent"));
}

TEST(RemoteHostsTest, AnInterruptEndsTheWait) {
  RealClock clock;
  FakeSsh ssh("an_interrupt");
  RemoteHosts hosts(ssh.Options("a", &clock));
  ssh.Interrupt();
  RemoteHosts::Task task;
  task.script = [](int) { return "sleep 1000"; };
  const auto answers = hosts.RunAll(task, {0});
  EXPECT_TRUE(absl::IsCancelled(answers.status())) << answers.status();
}

TEST(RemoteHostsTest, AHostHasLimitedTimeAndOutput) {
  RealClock clock;
  FakeSsh ssh("limits");
  RemoteHosts::Options options = ssh.Options("a,b", &clock);
  options.notice_time = absl::Milliseconds(50);
  RemoteHosts hosts(options);
  RemoteHosts::Task task;
  task.what = "dance";
  task.script = [](int host) { return host == 0 ? "sleep 1000" : "exec yes"; };
  task.time_limit = absl::Seconds(1);
  EXPECT_FALSE(hosts.RunAll(task, hosts.All()).ok());
  EXPECT_THAT(ssh.told(), Contains("host a: did not dance within 1s"));
  EXPECT_THAT(ssh.told(), Contains("host b: has printed more than 4 MiB"));
  EXPECT_THAT(ssh.told(), Contains(HasSubstr("waits for a")));
}

TEST(RemoteHostsTest, WordsOfTheShellArriveAsTheyAre) {
  RealClock clock;
  FakeSsh ssh("words");
  RemoteHosts hosts(ssh.Options("a", &clock));
  const std::string text = "a 'b' \"c\" $HOME `x` \\ *";
  RemoteHosts::Task task;
  task.script = [&text](int) { return "answer " + ShellWord(text); };
  const auto answers = hosts.RunAll(task, {0});
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_THAT(*answers, ElementsAre(text));
}

TEST(LineFollowerTest, TakesWholeLines) {
  const std::string path = ::testing::TempDir() + "/growing";
  std::ofstream out(path, std::ios::trunc);
  out << "before\n" << std::flush;
  LineFollower lines(path);
  out << "one\ntw" << std::flush;
  EXPECT_THAT(lines.Take(false), ElementsAre("one"));
  EXPECT_THAT(lines.Take(false), ElementsAre());
  out << "o\r\n\x1b[2J" << std::flush;
  EXPECT_THAT(lines.Take(false), ElementsAre("two"));
  EXPECT_THAT(lines.Take(true), ElementsAre("\\x1b[2J"));
  EXPECT_THAT(lines.Take(true), ElementsAre());
  out << std::string(40'000, 'x') << std::flush;
  EXPECT_THAT(lines.Take(false), testing::SizeIs(2)) << "a very long line is cut";
  EXPECT_THAT(lines.Take(true), testing::SizeIs(1));
}

}  // namespace
}  // namespace capstan
