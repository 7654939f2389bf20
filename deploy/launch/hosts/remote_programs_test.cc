#include "deploy/launch/hosts/remote_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "deploy/launch/hosts/fake_ssh.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// An unpacked bundle, and what hosts do with it.
class RemoteProgramsTest : public ::testing::Test {
 protected:
  RemoteProgramsTest()
      : ssh_(::testing::UnitTest::GetInstance()->current_test_info()->name()),
        bundle_(ssh_.folder() + "/my bundle") {
    MakeProgram(bundle_, kVersion);
    for (const std::string name : {"coordinator", "server", "worker"}) {
      std::ofstream(bundle_ + "/bin/capstan_" + name) << "#!/bin/sh\n";
    }
    std::ofstream(bundle_ + "/capstan.spdx.json") << "the list";
    list_.bundle = bundle_;
  }

  // FOLDER/bin/capstan
  void MakeProgram(const std::string& folder, const std::string& version) {
    fs::create_directories(folder + "/bin");
    std::ofstream(folder + "/bin/capstan") << "#!/bin/sh\necho capstan " << version << "\n";
    fs::permissions(folder + "/bin/capstan", fs::perms::owner_all);
  }

  absl::StatusOr<std::vector<std::string>> Bring(const std::string& hosts) {
    told_.clear();
    RemoteHosts remote(ssh_.Options(hosts, &clock_));
    return BringPrograms(
        list_, [this](const std::string& line) { told_.push_back(line); }, &remote);
  }

  RealClock clock_;
  FakeSsh ssh_;
  const std::string bundle_;
  HostList list_;
  std::vector<std::string> told_;
};

TEST_F(RemoteProgramsTest, ABundleIsCopiedOnce) {
  const auto folders = Bring("a,b");
  ASSERT_TRUE(folders.ok()) << folders.status();
  EXPECT_THAT(told_, ElementsAre("copies the programs to 2 of 2 hosts"));
  for (const std::string& folder : *folders) {
    EXPECT_TRUE(fs::exists(folder + "/capstan")) << folder;
    EXPECT_THAT(folder, HasSubstr("/.cache/capstan/bundle-"));
  }
  EXPECT_NE((*folders)[0], (*folders)[1]);
  ASSERT_TRUE(Bring("b,a").ok());
  EXPECT_THAT(told_, IsEmpty());
  ASSERT_TRUE(Bring("b,c").ok());
  EXPECT_THAT(told_, ElementsAre("copies the programs to 1 of 2 hosts"));
  // Another bundle has another name.
  std::ofstream(bundle_ + "/capstan.spdx.json") << "another list";
  ASSERT_TRUE(Bring("a").ok());
  EXPECT_THAT(told_, ElementsAre("copies the programs to 1 of 1 hosts"));
}

TEST_F(RemoteProgramsTest, AnArchiveIsUnpacked) {
  list_.bundle = ssh_.folder() + "/capstan.tar.gz";
  ASSERT_EQ(
      std::system(
          absl::StrCat("tar -czf ", list_.bundle, " -C ", ssh_.folder(), " 'my bundle'").c_str()),
      0);
  const auto folders = Bring("a");
  ASSERT_TRUE(folders.ok()) << folders.status();
  EXPECT_TRUE(fs::exists((*folders)[0] + "/capstan"));
}

TEST_F(RemoteProgramsTest, WhatIsNoBundleIsRefusedAndNotKept) {
  fs::remove(bundle_ + "/bin/capstan_worker");
  EXPECT_FALSE(Bring("a").ok());
  EXPECT_THAT(ssh_.told(),
              testing::Contains("host a: expected bin/capstan_worker in --bundle, got none"));
  EXPECT_TRUE(fs::is_empty(ssh_.folder() + "/a/.cache/capstan"));
  list_.bundle = ssh_.folder() + "/capstan.tar.gz";
  std::ofstream(list_.bundle) << "no archive";
  EXPECT_FALSE(Bring("a").ok());
  EXPECT_THAT(ssh_.told(), testing::Contains("host a: gzip: stdin: not in gzip format"));
  EXPECT_TRUE(fs::is_empty(ssh_.folder() + "/a/.cache/capstan"));
  list_.bundle = ssh_.folder();
  EXPECT_THAT(std::string(Bring("a").status().message()), HasSubstr("cannot read"));
}

TEST_F(RemoteProgramsTest, HostsHaveProgramsOfTheSameVersion) {
  list_.bundle.clear();
  list_.remote_programs = bundle_ + "/bin";
  const auto folders = Bring("a,b");
  ASSERT_TRUE(folders.ok()) << folders.status();
  EXPECT_THAT(*folders, ElementsAre(bundle_ + "/bin", bundle_ + "/bin"));
  MakeProgram(bundle_, "0.0.7");
  EXPECT_THAT(
      std::string(Bring("a").status().message()),
      HasSubstr(absl::StrCat("host a: expected programs of version ", kVersion, ", got 0.0.7")));
  list_.remote_programs = "/nonexistent";
  EXPECT_THAT(
      std::string(Bring("a").status().message()),
      HasSubstr("expected the program capstan in /nonexistent of each host, got none on a"));
}

}  // namespace
}  // namespace capstan
