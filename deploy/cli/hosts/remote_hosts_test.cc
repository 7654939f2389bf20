#include "deploy/cli/hosts/remote_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/base/real_clock.h"
#include "deploy/cli/hosts/fake_ssh.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RemoteHostsTest, EachHostAnswers) {
  RealClock clock;
  FakeSsh ssh("each_host_answers");
  RemoteHosts hosts(ssh.Options("ann@a,b", &clock));
  const auto answers = hosts.RunAll("answer", {1, 0}, [](int host) {
    return RemoteHosts::Command{
        "cat; echo noise; echo \"capstan: $host " + std::to_string(host) + " it's\"",
        "echo given | \"$@\""};
  });
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
  const auto answers = hosts.RunAll("dance", {0, 1, 2, 3}, [](int host) {
    return RemoteHosts::Command{host == 2   ? "echo broken >&2; exit 3"
                                : host == 3 ? "echo silent"
                                            : "echo capstan: ok"};
  });
  EXPECT_THAT(std::string(answers.status().message()),
              HasSubstr("expected to dance, but cannot on "));
  EXPECT_THAT(ssh.told(), testing::UnorderedElementsAre("host nobody: ssh: no route to host",
                                                        "host c: broken", "host d: silent"));
}

TEST(RemoteHostsTest, AnInterruptEndsTheWait) {
  RealClock clock;
  FakeSsh ssh("an_interrupt");
  RemoteHosts hosts(ssh.Options("a", &clock));
  ssh.Interrupt();
  const auto answers =
      hosts.RunAll("sleep", {0}, [](int) { return RemoteHosts::Command{"sleep 1000"}; });
  EXPECT_TRUE(absl::IsCancelled(answers.status())) << answers.status();
}

TEST(RemoteHostsTest, WordsOfTheShellArriveAsTheyAre) {
  RealClock clock;
  FakeSsh ssh("words");
  RemoteHosts hosts(ssh.Options("a", &clock));
  const std::string text = "a 'b' \"c\" $HOME `x` \\ *";
  const auto answers = hosts.RunAll("echo", {0}, [&](int) {
    return RemoteHosts::Command{"printf 'capstan: %s\\n' " + ShellWord(text)};
  });
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
}

}  // namespace
}  // namespace capstan
