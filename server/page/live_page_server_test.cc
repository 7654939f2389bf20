#include "server/page/live_page_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "common/base/real_clock.h"
#include "common/net/test_tls_keys.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class LivePageServerTest : public testing::Test {
 protected:
  LivePageServer::Options Options(const std::string& listen) {
    LivePageServer::Options options;
    options.listen = listen;
    options.clock = &clock_;
    options.log = &log_;
    options.tokens = [] { return nullptr; };
    return options;
  }

  RealClock clock_;
  LogRing log_;
};

TEST_F(LivePageServerTest, PlaintextStaysOnLoopback) {
  EXPECT_TRUE(LivePageServer::Start(Options("127.0.0.1:0")).ok());
  EXPECT_TRUE(LivePageServer::Start(Options("localhost:0")).ok());
  const absl::Status refused = LivePageServer::Start(Options("0.0.0.0:0")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(StartsWith("--http_listen=0.0.0.0:0 can be reached from other machines"),
                    HasSubstr("expected --keys=DIR"), HasSubstr("or --insecure")));
}

TEST_F(LivePageServerTest, InsecureMayLeaveTheMachineUnlessTokensWould) {
  LivePageServer::Options options = Options("0.0.0.0:0");
  options.is_insecure = true;
  EXPECT_TRUE(LivePageServer::Start(options).ok());
  options.tokens = [] {
    return std::make_shared<const JobTokens>(JobTokens::Parse("0123456789abcdef").value());
  };
  EXPECT_THAT(std::string(LivePageServer::Start(options).status().message()),
              HasSubstr("send the job's token there in plaintext"));
  options.listen = "127.0.0.1:0";
  EXPECT_TRUE(LivePageServer::Start(options).ok());
}

TEST_F(LivePageServerTest, WithTlsItMayListenAnywhere) {
  LivePageServer::Options options = Options("0.0.0.0:0");
  options.tls = [] { return std::optional<TlsKeys>(MakeTlsKeys("host")); };
  EXPECT_TRUE(LivePageServer::Start(options).ok());
}

}  // namespace
}  // namespace capstan
