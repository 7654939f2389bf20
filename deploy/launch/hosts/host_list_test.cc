#include "deploy/launch/hosts/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace capstan {
namespace {

using ::testing::HasSubstr;

std::string Error(const std::string& list) {
  return std::string(ReadHosts(list, /*num_workers=*/1).status().message());
}

TEST(HostListTest, AHostHasAUserANameAndANumberOfWorkers) {
  const auto hosts = ReadHosts("a,ann@b.example.org:2,[2001:db8::1]:0,bob@[::1]", 3);
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  ASSERT_EQ(hosts->size(), 4u);
  EXPECT_EQ((*hosts)[0].target, "a");
  EXPECT_EQ((*hosts)[0].num_workers, 3);
  EXPECT_EQ((*hosts)[1].target, "ann@b.example.org");
  EXPECT_EQ((*hosts)[1].name, "b.example.org");
  EXPECT_EQ((*hosts)[1].num_workers, 2);
  EXPECT_EQ((*hosts)[2].target, "2001:db8::1");
  EXPECT_EQ((*hosts)[2].num_workers, 0);
  EXPECT_EQ((*hosts)[3].target, "bob@::1");
  EXPECT_EQ((*hosts)[3].name, "::1");
}

TEST(HostListTest, AFileHasAHostALine) {
  const std::string path = ::testing::TempDir() + "/hosts";
  std::ofstream(path) << "# all\n\n a:2  # two\nb";
  const auto hosts = ReadHosts(path, 1);
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  ASSERT_EQ(hosts->size(), 2u);
  EXPECT_EQ((*hosts)[0].num_workers, 2);
  EXPECT_EQ((*hosts)[1].name, "b");

  std::ofstream(path) << "a\nb c\n";
  EXPECT_THAT(Error(path), HasSubstr("hosts:2: expected a host as in node1"));
  std::ofstream(path) << "# none\n";
  EXPECT_THAT(Error(path), HasSubstr("expected 1 to 4096 hosts, got 0"));
  std::ofstream(path) << "\xEF\xBB\xBF"
                      << "a\r\n";
  EXPECT_EQ(ReadHosts(path, 1)->front().name, "a") << "without the byte order mark";
  EXPECT_THAT(Error("/dev/zero"), HasSubstr("expected a file of hosts, got /dev/zero (it is a"));
}

TEST(HostListTest, AWrongHostIsNamed) {
  for (const std::string wrong :
       {"", "a,", "-oProxyCommand=x", "a b", "a@", "@a", "a@-b", "a:", "a:x", "a:-1", "a:1025",
        "::1", "[::1", "[::1]2", "[]", "..", "$(x)"}) {
    EXPECT_THAT(Error(wrong), HasSubstr("--hosts: expected a host as in node1")) << wrong;
  }
  EXPECT_THAT(Error("a,b,ann@a"), HasSubstr("expected each host once, got a twice"));
}

TEST(HostListTest, FlagsMakeAList) {
  const auto list = ReadHostList({{"hosts", "a,b:3"},
                                  {"ssh", "ssh  -p 2222"},
                                  {"remote_programs", "/opt/capstan"},
                                  {"servers_per_node", "2"},
                                  {"network", "eth1"}},
                                 /*num_devices=*/4, "/usr/bin/capstan");
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_TRUE(list->has_value());
  EXPECT_EQ((*list)->num_servers(), 4);
  EXPECT_EQ((*list)->num_workers(), 7);
  EXPECT_EQ((*list)->ssh, (std::vector<std::string>{"ssh", "-p", "2222"}));
  EXPECT_EQ((*list)->remote_programs, "/opt/capstan");
  EXPECT_EQ((*list)->network, "eth1");
  EXPECT_FALSE(ReadHostList({}, 1, "/usr/bin/capstan")->has_value());
}

TEST(HostListTest, WrongFlagsAreNamed) {
  const auto error = [](const std::map<std::string, std::string>& flags) {
    return std::string(ReadHostList(flags, 1, "/usr/bin/capstan").status().message());
  };
  EXPECT_THAT(error({{"ssh", "ssh"}}), HasSubstr("--ssh: expected --hosts=HOST,... with it"));
  EXPECT_THAT(error({{"hosts", "a"}, {"nnodes", "2"}}),
              HasSubstr("--nnodes: expected a job without --hosts"));
  EXPECT_THAT(error({{"hosts", "a"}}), HasSubstr("--bundle: expected the programs for the hosts"));
  EXPECT_THAT(error({{"hosts", "a"}, {"bundle", "/nonexistent"}}),
              HasSubstr("got no file /nonexistent"));
  EXPECT_THAT(error({{"hosts", "a"}, {"remote_programs", "bin"}}),
              HasSubstr("a folder of the hosts that begins with /, got \"bin\""));
  EXPECT_THAT(error({{"hosts", "a"}, {"remote_programs", "/b"}, {"bundle", "/"}}),
              HasSubstr("got both"));
  EXPECT_THAT(error({{"hosts", "a"}, {"remote_programs", "/b"}, {"ssh", " "}}),
              HasSubstr("--ssh: expected a program"));
}

}  // namespace
}  // namespace capstan
