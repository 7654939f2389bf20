#include "deploy/launch/hosts/job_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "common/base/real_clock.h"
#include "deploy/launch/hosts/fake_ssh.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A job with the id "x" on hosts a and b. Results come to the folders first and second.
class JobFoldersTest : public ::testing::Test {
 protected:
  JobFoldersTest()
      : ssh_(::testing::UnitTest::GetInstance()->current_test_info()->name()),
        hosts_(ssh_.Options("a,b", &clock_)),
        folders_("x", &hosts_) {
    std::ofstream(ssh_.folder() + "/token") << "secret";
  }

  // Sends the token, and runs a script in the folder of each host.
  void Prepare(const std::string& script) {
    const absl::Status sent = folders_.Send("-C " + ShellWord(ssh_.folder()) + " token");
    ASSERT_TRUE(sent.ok()) << sent;
    RemoteHosts::Task task;
    task.script = [&](int host) { return folders_.Enter(host) + script + "; answer done"; };
    const auto done = hosts_.RunAll(task, hosts_.All());
    ASSERT_TRUE(done.ok()) << done.status();
  }
  absl::Status Fetch() {
    return folders_.Fetch({{"run", ssh_.folder() + "/first"}, {"run", ssh_.folder() + "/second"}});
  }
  std::string OnHost(const std::string& name) const {
    return ssh_.folder() + "/" + name + "/.cache/capstan/job.x." + (name == "a" ? "0" : "1");
  }
  std::set<std::string> FilesIn(const std::string& folder) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(ssh_.folder() + "/" + folder)) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  RealClock clock_;
  FakeSsh ssh_;
  RemoteHosts hosts_;
  JobFolders folders_;
};

TEST_F(JobFoldersTest, FilesGoToAFolderForTheUserAlone) {
  Prepare("true");
  for (const std::string host : {"a", "b"}) {
    EXPECT_EQ(Contents(OnHost(host) + "/token"), "secret");
    EXPECT_EQ(fs::status(OnHost(host)).permissions(), fs::perms::owner_all);
  }
}

TEST_F(JobFoldersTest, ResultsComeAndTheFoldersGo) {
  Prepare("mkdir run && echo $host >run/worker-0.log && echo {} >run/summary.json");
  ASSERT_TRUE(Fetch().ok());
  EXPECT_EQ(FilesIn("first"), (std::set<std::string>{"worker-0.log", "summary.json"}));
  EXPECT_EQ(Contents(ssh_.folder() + "/second/worker-0.log"), "b\n");
  EXPECT_TRUE(folders_.Remove(/*keeps_results=*/true).ok());
  EXPECT_FALSE(fs::exists(OnHost("a") + "/token"));
  EXPECT_TRUE(fs::exists(OnHost("a") + "/run/worker-0.log"));
  EXPECT_TRUE(folders_.Remove(/*keeps_results=*/false).ok());
  EXPECT_FALSE(fs::exists(OnHost("a")));
}

TEST_F(JobFoldersTest, AHostCannotBringOtherFilesThanThoseOfARun) {
  const std::string victim = ssh_.folder() + "/victim";
  std::ofstream(victim) << "untouched";
  // A link that was there before is replaced, and not followed.
  fs::create_directories(ssh_.folder() + "/first");
  fs::create_symlink(victim, ssh_.folder() + "/first/worker-0.log");
  Prepare(
      "mkdir -p run/keys && echo bad >run/token && echo bad >run/keys/ca.key && "
      "echo bad >run/a.ssh.log && ln -s " +
      victim + " run/summary.json && ln -s / run/worker-1.log && echo good >run/worker-0.log && " +
      "chmod 777 run");
  ASSERT_TRUE(Fetch().ok());
  EXPECT_EQ(FilesIn("first"), (std::set<std::string>{"worker-0.log"}));
  EXPECT_EQ(Contents(ssh_.folder() + "/first/worker-0.log"), "good\n");
  EXPECT_NE(fs::status(ssh_.folder() + "/first").permissions(), fs::perms::all);
  EXPECT_EQ(Contents(victim), "untouched");
}

TEST_F(JobFoldersTest, ABannerOfTheLoginShellDoesNoHarm) {
  std::string ssh = Contents(ssh_.folder() + "/ssh");
  ssh.insert(ssh.find("exec sh -c"), "printf 'Welcome, loading'\n");
  std::ofstream(ssh_.folder() + "/ssh") << ssh;
  Prepare("mkdir run && echo log >run/worker-0.log");
  ASSERT_TRUE(Fetch().ok());
  EXPECT_EQ(FilesIn("first"), (std::set<std::string>{"worker-0.log"}));
}

TEST_F(JobFoldersTest, AHostWithoutTheFolderIsNamed) {
  EXPECT_FALSE(Fetch().ok());
  EXPECT_THAT(ssh_.told(), testing::Contains(testing::HasSubstr("host a: ")));
}

}  // namespace
}  // namespace capstan
