#include "deploy/launch/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/net/listening_socket.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The error's text. `flags` must have one.
std::string ErrorOf(const std::map<std::string, std::string>& flags) {
  const auto read = ReadRendezvous(flags, /*num_devices=*/1);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(read.status().message());
}

TEST(RendezvousTest, JobWithoutTheFlagsIsOnThisMachine) {
  const auto read = ReadRendezvous({}, /*num_devices=*/2);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->has_value());
}

TEST(RendezvousTest, EachMachineHasOneServerAndOneWorkerForEachDevice) {
  const auto read =
      ReadRendezvous({{"rendezvous", "10.0.0.1:4000"}, {"nnodes", "3"}}, /*num_devices=*/2);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->has_value());
  EXPECT_EQ((*read)->address(), "10.0.0.1:4000");
  EXPECT_EQ((*read)->num_nodes, 3);
  EXPECT_EQ((*read)->servers_per_node, 1);
  EXPECT_EQ((*read)->workers_per_node, 2);
  EXPECT_EQ((*read)->network, "");
}

TEST(RendezvousTest, GivenNumbersCount) {
  const auto read = ReadRendezvous({{"rendezvous", "a:1"},
                                    {"nnodes", "2"},
                                    {"servers_per_node", "0"},
                                    {"workers_per_node", "4"},
                                    {"network", "eth1"}},
                                   /*num_devices=*/2);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->has_value());
  EXPECT_EQ((*read)->servers_per_node, 0);
  EXPECT_EQ((*read)->workers_per_node, 4);
  EXPECT_EQ((*read)->network, "eth1");
}

TEST(RendezvousTest, FlagsForSeveralMachinesNeedARendezvous) {
  for (const std::string name :
       {"nnodes", "servers_per_node", "workers_per_node", "network", "insecure"}) {
    EXPECT_THAT(ErrorOf({{name, "1"}}), AllOf(HasSubstr("--" + name), HasSubstr("--rendezvous=")));
  }
}

TEST(RendezvousTest, RendezvousNeedsTheNumberOfMachines) {
  EXPECT_THAT(ErrorOf({{"rendezvous", "a:1"}}), HasSubstr("add --nnodes=N"));
}

TEST(RendezvousTest, WrongValuesAreNamed) {
  EXPECT_THAT(ErrorOf({{"rendezvous", "a"}, {"nnodes", "2"}}), HasSubstr("--rendezvous"));
  EXPECT_THAT(ErrorOf({{"rendezvous", "a:1"}, {"nnodes", "0"}}),
              HasSubstr("--nnodes: expected a number from 1 to 4096, got \"0\""));
  EXPECT_THAT(ErrorOf({{"rendezvous", "a:1"}, {"nnodes", "2"}, {"workers_per_node", "x"}}),
              HasSubstr("--workers_per_node: expected a number from 0 to 1024, got \"x\""));
}

TEST(FindNodeRoleTest, MachineOfTheHostCoordinatesAtAFreePort) {
  Rendezvous rendezvous;
  rendezvous.host = "127.0.0.1";
  const absl::StatusOr<NodeRole> role = FindNodeRole(rendezvous);
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_TRUE(role->coordinates);
  EXPECT_EQ(role->address, "127.0.0.1");
  EXPECT_EQ(role->network, "127.0.0.1/32");
}

TEST(FindNodeRoleTest, JoinsIfThePortIsTaken) {
  const ListeningSocket taken = ListenAt({"0.0.0.0", 0});
  ASSERT_GE(taken.socket, 0);
  const auto closer = absl::MakeCleanup([&taken] { close(taken.socket); });
  Rendezvous rendezvous;
  rendezvous.host = "127.0.0.1";
  rendezvous.port = taken.port;
  const absl::StatusOr<NodeRole> role = FindNodeRole(rendezvous);
  ASSERT_TRUE(role.ok()) << role.status();
  EXPECT_FALSE(role->coordinates);
}

TEST(FindNodeRoleTest, UnknownNetworkIsAnError) {
  Rendezvous rendezvous;
  rendezvous.host = "127.0.0.1";
  rendezvous.network = "no_such_interface";
  EXPECT_EQ(FindNodeRole(rendezvous).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace capstan
