#include "common/base/host_port.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace capstan {
namespace {

std::string ErrorOf(const std::string& text, int least_port = 1) {
  const absl::Status status = ParseHostPort("--coordinator", text, least_port).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(HostPortTest, ReadsNamesAndAddresses) {
  for (const char* host : {"localhost", "127.0.0.1", "[::1]", "[fe80::1%eth0]", "a_b-c.example"}) {
    for (const int port : {1, 4000, 65535}) {
      const auto read =
          ParseHostPort("--coordinator", std::string(host) + ":" + std::to_string(port));
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->host, host);
      EXPECT_EQ(read->port, port);
    }
  }
}

TEST(HostPortTest, OnlyListenersMayLeaveTheChoiceOfThePort) {
  EXPECT_EQ(ParseHostPort("--listen", "127.0.0.1:0", /*least_port=*/0)->port, 0);
  EXPECT_EQ(ErrorOf("127.0.0.1:0"),
            "--coordinator: expected host:port with a port from 1 to 65535, got \"127.0.0.1:0\"");
}

TEST(HostPortTest, RefusesAnythingElse) {
  for (const char* text : {"",
                           ":",
                           "host",
                           ":80",
                           "host:",
                           "host:0",
                           "host:65536",
                           "host:4294971296",
                           "host:x",
                           "host:+1",
                           "host: 1",
                           "host:1 ",
                           "host:0x10",
                           "a b:1",
                           "a/b:1",
                           "user@host:1",
                           "[]:1",
                           "[::1:1",
                           "[host:1",
                           "host]:1",
                           "[:1",
                           "::1]:1",
                           "[::1]",
                           "[::1]1",
                           "host:1:2",
                           "unix:/tmp/socket",
                           "dns:///host:1",
                           "host:80/",
                           "a\x1b:1"}) {
    ErrorOf(text);
  }
  ErrorOf(std::string(256, 'a') + ":1");
}

TEST(HostPortTest, SaysWhatToDo) {
  EXPECT_NE(ErrorOf("http://host:80").find("\"http://host:80\"; leave out what is before the host"),
            std::string::npos);
  EXPECT_NE(ErrorOf("::1:4000").find("; an IPv6 address needs brackets, as in [::1]:4000"),
            std::string::npos);
}

TEST(AddressesTest, OneOrSeveralAreReadInTheirOrder) {
  EXPECT_EQ(*ParseAddresses("--coordinator", "a:1"), std::vector<std::string>{"a:1"});
  EXPECT_EQ(*ParseAddresses("--coordinator", "b:1,[::1]:4000,a:1"),
            (std::vector<std::string>{"b:1", "[::1]:4000", "a:1"}));
}

TEST(AddressesTest, BadListsAreRefused) {
  const auto error_of = [](const std::string& text) {
    const absl::Status status = ParseAddresses("--coordinator", text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  };
  for (const char* text : {"a:1,", ",a:1", "a:1,,b:1", ","}) {
    EXPECT_EQ(error_of(text),
              std::string("--coordinator: expected host:port, or several of them with one comma "
                          "between two, got \"") +
                  text + "\"");
  }
  EXPECT_EQ(error_of("a:1,b:1,a:1"), "--coordinator: expected different addresses, got a:1 twice");
  EXPECT_EQ(error_of(""),
            "--coordinator: expected host:port with a port from 1 to 65535, got \"\"");
  EXPECT_EQ(error_of("a:1, b:1"),
            "--coordinator: expected host:port with a port from 1 to 65535, got \" b:1\"");
  EXPECT_EQ(error_of("a:1,b"),
            "--coordinator: expected host:port with a port from 1 to 65535, got \"b\"");
}

}  // namespace
}  // namespace capstan
