#include "common/net/own_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<InterfaceAddress>& Addresses() {
  static const auto& addresses =
      *new std::vector<InterfaceAddress>({{"lo", "127.0.0.1", /*is_loopback=*/true},
                                          {"eth0", "10.0.3.7"},
                                          {"ib0", "2001:db8::7"},
                                          {"ib0", "192.168.100.7"}});
  return addresses;
}

std::string In(const std::string& network) {
  const auto address = AddressIn(network, Addresses());
  return address.ok() ? *address : std::string(address.status().message());
}

TEST(OwnAddressTest, AnInterfaceStandsForItsAddressAndIpv4ComesFirst) {
  EXPECT_EQ(In("eth0"), "10.0.3.7");
  EXPECT_EQ(In("ib0"), "192.168.100.7");
}

TEST(OwnAddressTest, ARangeStandsForTheAddressInIt) {
  EXPECT_EQ(In("10.0.0.0/16"), "10.0.3.7");
  EXPECT_EQ(In("192.168.100.0/25"), "192.168.100.7");
  EXPECT_EQ(In("192.168.100.7/32"), "192.168.100.7");
  EXPECT_EQ(In("2001:db8::/32"), "2001:db8::7");
  EXPECT_EQ(In("0.0.0.0/0"), "127.0.0.1");
}

TEST(OwnAddressTest, ARangeWithAnAddressCountsByItsFirstBits) {
  EXPECT_EQ(In("10.0.255.255/16"), "10.0.3.7");
  EXPECT_THAT(In("10.0.2.0/23"), HasSubstr("10.0.3.7"));
  EXPECT_THAT(In("10.0.4.0/23"), HasSubstr("with one of its addresses, got 10.0.4.0/23"));
}

TEST(OwnAddressTest, AnotherNetworkIsRefusedWithAListOfAddresses) {
  EXPECT_THAT(In("eth1"), AllOf(HasSubstr("--network"), HasSubstr("got eth1"),
                                HasSubstr("eth0 10.0.3.7"), HasSubstr("ib0 192.168.100.7")));
  EXPECT_THAT(In(""), HasSubstr("expected an interface"));
}

TEST(OwnAddressTest, ABadRangeIsRefused) {
  for (const std::string bad : {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0/8", "/8",
                                "2001:db8::/129", "eth0/8", "10.0.0.0/8x"}) {
    EXPECT_EQ(In(bad), "--network: expected a range such as 10.0.0.0/16, got " + bad);
  }
}

TEST(OwnAddressTest, LoopbackIsAmongTheInterfaces) {
  const auto addresses = InterfaceAddresses();
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  bool has_loopback = false;
  for (const InterfaceAddress& one : *addresses) {
    has_loopback = has_loopback || (one.is_loopback && one.address == "127.0.0.1");
    EXPECT_EQ(one.address.find("fe80:"), one.address.npos);
  }
  EXPECT_TRUE(has_loopback);
  EXPECT_TRUE(DefaultAddress(*addresses).ok());
}

TEST(OwnAddressTest, TheWayToAnAddressOfThisMachineBeginsThere) {
  EXPECT_EQ(AddressTowards("127.0.0.1").value(), "127.0.0.1");
  EXPECT_EQ(AddressTowards("[127.0.0.1]").value(), "127.0.0.1");
  const auto unknown = AddressTowards("no-such-host.invalid");
  EXPECT_THAT(std::string(unknown.status().message()),
              AllOf(HasSubstr("no-such-host.invalid"), HasSubstr("/etc/hosts")));
}

TEST(OwnAddressTest, ThisMachineIsKnownByAddressAndByName) {
  EXPECT_TRUE(IsThisMachine("10.0.3.7", Addresses()).value());
  EXPECT_TRUE(IsThisMachine("127.0.1.1", Addresses()).value());
  EXPECT_TRUE(IsThisMachine("localhost", Addresses()).value());
  EXPECT_FALSE(IsThisMachine("10.0.3.8", Addresses()).value());
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof(name) - 1), 0);
  EXPECT_TRUE(IsThisMachine(name, {}).value());
  EXPECT_FALSE(IsThisMachine("no-such-host.invalid", Addresses()).ok());
}

TEST(OwnAddressTest, AnAddressIsAnnouncedIfTheCertificateHasIt) {
  EXPECT_EQ(HostToAnnounce("10.0.3.7", {}).value(), "10.0.3.7");
  EXPECT_EQ(HostToAnnounce("10.0.3.7", {"node1", "10.0.3.7"}).value(), "10.0.3.7");
  EXPECT_EQ(HostToAnnounce("2001:db8::7", {"2001:0db8:0::7"}).value(), "2001:db8::7");
}

TEST(OwnAddressTest, ANameIsAnnouncedIfItStandsForTheAddress) {
  EXPECT_EQ(
      HostToAnnounce("127.0.0.1", {"*.example.org", "no-such-host.invalid", "localhost"}).value(),
      "localhost");
}

TEST(OwnAddressTest, ACertificateForOtherHostsIsRefused) {
  const auto host = HostToAnnounce("10.0.3.7", {"localhost", "10.0.3.8"});
  EXPECT_EQ(host.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(host.status().message()),
              AllOf(HasSubstr("this machine's address 10.0.3.7"), HasSubstr("localhost, 10.0.3.8"),
                    HasSubstr("--hosts=10.0.3.7")));
}

TEST(OwnAddressTest, PortsFollowIpv6AddressesInBrackets) {
  EXPECT_EQ(HostAndPort("10.0.3.7", 4000), "10.0.3.7:4000");
  EXPECT_EQ(HostAndPort("2001:db8::7", 4000), "[2001:db8::7]:4000");
  EXPECT_EQ(HostAndPort("[2001:db8::7]", 4000), "[2001:db8::7]:4000");
}

}  // namespace
}  // namespace capstan
