#include "server/page/page_sessions.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/fake_clock.h"

namespace capstan {
namespace {

constexpr char kToken[] = "0123456789abcdef";

TEST(PageSessionsTest, ATokenBeginsASessionWithItsRight) {
  FakeClock clock;
  PageSessions sessions(clock);
  const JobTokens tokens = JobTokens::Parse(kToken).value();
  const std::string all = sessions.Begin(tokens, kToken);
  const std::string look = sessions.Begin(tokens, WeakerToken(kToken, Right::kLook));
  EXPECT_EQ(all.size(), 64);
  EXPECT_NE(all, look);
  EXPECT_EQ(sessions.RightOf(tokens, all), Right::kOperate);
  EXPECT_EQ(sessions.RightOf(tokens, look), Right::kLook);
  EXPECT_EQ(sessions.Begin(tokens, "fedcba9876543210"), "");
  EXPECT_EQ(sessions.RightOf(tokens, kToken), std::nullopt);
  EXPECT_EQ(sessions.RightOf(tokens, ""), std::nullopt);
}

TEST(PageSessionsTest, ASessionEndsAfterItsTimeAndWithItsToken) {
  FakeClock clock;
  PageSessions sessions(clock);
  const JobTokens tokens = JobTokens::Parse(kToken).value();
  const JobTokens others = JobTokens::Parse("fedcba9876543210").value();
  const std::string replaced = sessions.Begin(tokens, kToken);
  EXPECT_EQ(sessions.RightOf(others, replaced), std::nullopt);
  const std::string ended = sessions.Begin(tokens, kToken);
  sessions.End(ended);
  EXPECT_EQ(sessions.RightOf(tokens, ended), std::nullopt);
  const std::string old = sessions.Begin(tokens, kToken);
  clock.Advance(PageSessions::kLifetime - absl::Seconds(1));
  EXPECT_TRUE(sessions.RightOf(tokens, old).has_value());
  clock.Advance(absl::Seconds(1));
  EXPECT_FALSE(sessions.RightOf(tokens, old).has_value());
}

TEST(PageSessionsTest, TheOldestSessionOfATokenMakesRoom) {
  FakeClock clock;
  PageSessions sessions(clock);
  const JobTokens tokens = JobTokens::Parse(kToken).value();
  const std::string look = sessions.Begin(tokens, WeakerToken(kToken, Right::kLook));
  clock.Advance(absl::Seconds(1));
  std::vector<std::string> ids;
  for (size_t i = 0; i <= PageSessions::kMaxSessionsOfToken; ++i) {
    ids.push_back(sessions.Begin(tokens, kToken));
    clock.Advance(absl::Seconds(1));
  }
  EXPECT_FALSE(sessions.RightOf(tokens, ids[0]).has_value());
  EXPECT_TRUE(sessions.RightOf(tokens, ids[1]).has_value());
  EXPECT_TRUE(sessions.RightOf(tokens, ids.back()).has_value());
  EXPECT_TRUE(sessions.RightOf(tokens, look).has_value()) << "others' logins end nobody's session";
}

}  // namespace
}  // namespace capstan
