#include "common/trust/job_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";
constexpr char kOtherToken[] = "an other token of 31 characters";
constexpr char kVisibleOtherToken[] = "an-other-token-of-31-characters";

std::string HexMac(absl::string_view key, std::initializer_list<absl::string_view> parts) {
  return absl::BytesToHexString(Mac(key, parts));
}

JobTokens Parse(absl::string_view text) { return JobTokens::Parse(text).value(); }

std::string ErrorOf(absl::string_view text) {
  const absl::StatusOr<JobTokens> tokens = JobTokens::Parse(text);
  EXPECT_TRUE(absl::IsInvalidArgument(tokens.status())) << tokens.status();
  return std::string(tokens.status().message());
}

// The right that a presented token gives; none: 0.
int RightOf(const JobTokens& tokens, absl::string_view presented) {
  const JobTokens::Token* const token = tokens.Find(presented);
  return token == nullptr ? 0 : static_cast<int>(token->right);
}

// Keys and data of RFC 4231, cases 1, 2 and 6; the data in parts, with a length of 8 bytes before
// each. The MACs are those of Python's hmac.
TEST(JobTokenTest, MacIsHmacSha256OfPartsWithTheirLengths) {
  EXPECT_EQ(HexMac(std::string(20, '\x0b'), {"Hi There"}),
            "7f576cd063ed3e3615e6bf957fc801d0f4d8cf70bc1a604ab2ba1d06c8732e2e");
  EXPECT_EQ(HexMac("Jefe", {"what do ya want ", "for nothing?"}),
            "7147a8852f1bae7b07dfc583dad589c20583e025440bfc4c6431d8d0d901880b");
  EXPECT_EQ(
      HexMac(std::string(131, '\xaa'), {"Test Using Larger Than Block-Size Key - Hash Key First"}),
      "f76b227cd21a0e71625c7c25aaec494ed07144bf8fbad8b9cf0906b69799b050");
  EXPECT_EQ(HexMac("Jefe", {}), "923598ca6d64af2a5dba79dcd021a8a0fe5c5f557519adaaf0ad532d4506dd30");
}

TEST(JobTokenTest, TheSameBytesInOtherPartsHaveAnotherMac) {
  EXPECT_NE(HexMac("key", {"ab", "c"}), HexMac("key", {"a", "bc"}));
  EXPECT_NE(HexMac("key", {"abc"}), HexMac("key", {"abc", ""}));
}

TEST(JobTokenTest, WeakerTokensAreAsTheyWere) {
  EXPECT_EQ(WeakerToken(kToken, Right::kLook),
            "e62348a2b734ed6073d379c080200f56103016cee2dd8ad36cad8c5a83fc6cda");
  EXPECT_EQ(WeakerToken(kToken, Right::kTakePart),
            "7fc7a2cbc29494d2eb01ba6e0d4651030f8c5598448f90662f271060ada87e70");
}

TEST(JobTokenTest, NewTokensDifferAndAreAccepted) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) tokens.insert(MakeToken());
  EXPECT_EQ(tokens.size(), 100u);
  for (const std::string& token : tokens) {
    EXPECT_THAT(token, MatchesRegex("[0-9a-f]{64}"));
    EXPECT_EQ(Parse(token).own(), token);
  }
}

TEST(JobTokenTest, EqualMeansTheSameBytesAndTheSameLength) {
  EXPECT_TRUE(AreEqual("", ""));
  EXPECT_TRUE(AreEqual("token", "token"));
  EXPECT_FALSE(AreEqual("token", "tokem"));
  EXPECT_FALSE(AreEqual("token", "tokens"));
  EXPECT_FALSE(AreEqual(absl::string_view("a\0b", 3), absl::string_view("a\0c", 3)));
}

TEST(JobTokenTest, ATokenGivesAllRightsAndThoseDerivedFromItFewer) {
  const JobTokens tokens = Parse(kToken);
  EXPECT_EQ(RightOf(tokens, kToken), static_cast<int>(Right::kOperate));
  for (const Right right : kWeakerRights) {
    EXPECT_EQ(RightOf(tokens, WeakerToken(kToken, right)), static_cast<int>(right));
  }
}

TEST(JobTokenTest, NoOtherTextIsAToken) {
  const JobTokens tokens = Parse(kToken);
  const std::string weaker = WeakerToken(kToken, Right::kTakePart);
  for (const std::string& presented :
       {std::string(), std::string(kVisibleOtherToken), absl::StrCat(kToken, "0"),
        std::string(kToken).substr(1), absl::StrCat(kToken, "\n"), std::string(1 << 16, '0'),
        WeakerToken(weaker, Right::kLook), WeakerToken(kToken, Right::kOperate),
        WeakerToken(kVisibleOtherToken, Right::kLook)}) {
    EXPECT_EQ(tokens.Find(presented), nullptr) << presented.substr(0, 100);
  }
}

TEST(JobTokenTest, TheFirstLineIsSentAndAllAreAccepted) {
  const JobTokens tokens = Parse(absl::StrCat("\n  ", kToken, " \r\n\n", kVisibleOtherToken));
  EXPECT_EQ(tokens.own(), kToken);
  EXPECT_EQ(tokens.accepted().size(), 8u);
  for (const char* const token : {kToken, kVisibleOtherToken}) {
    EXPECT_EQ(RightOf(tokens, token), static_cast<int>(Right::kOperate));
    EXPECT_EQ(RightOf(tokens, WeakerToken(token, Right::kLook)), static_cast<int>(Right::kLook));
  }
}

TEST(JobTokenTest, AFileHasOneToEightTokens) {
  std::string text;
  for (int i = 0; i < 8; ++i) absl::StrAppend(&text, kToken, i, "\n");
  EXPECT_EQ(Parse(text).accepted().size(), 32u);
  EXPECT_THAT(ErrorOf(absl::StrCat(text, kToken)), HasSubstr("expected 1 to 8 tokens"));
  EXPECT_THAT(ErrorOf(""), AllOf(HasSubstr("each on a line"), HasSubstr("got 0")));
  EXPECT_THAT(ErrorOf("\n \r\n"), HasSubstr("got 0"));
}

TEST(JobTokenTest, TheErrorSaysWhatIsWrongWithALineAndNotItsText) {
  EXPECT_THAT(ErrorOf(absl::StrCat(kToken, "\nsecret-token")),
              AllOf(HasSubstr("line 2: expected a token of 16 to 512 visible characters, got 12"),
                    Not(HasSubstr("secret")), Not(HasSubstr(kToken))));
  EXPECT_THAT(ErrorOf(kOtherToken),
              AllOf(HasSubstr("got 31, some of them not visible"), Not(HasSubstr("other"))));
  EXPECT_THAT(ErrorOf(std::string(513, 'x')), AllOf(HasSubstr("got 513"), Not(HasSubstr("xxx"))));
  EXPECT_EQ(Parse(std::string(16, 'x')).own(), std::string(16, 'x'));
  EXPECT_EQ(Parse(std::string(512, 'x')).own(), std::string(512, 'x'));
}

TEST(JobTokenTest, RightsHaveTheNamesOfTheCommandLine) {
  EXPECT_EQ(RightName(Right::kLook), "look");
  EXPECT_EQ(RightName(Right::kRead), "read");
  EXPECT_EQ(RightName(Right::kTakePart), "take_part");
  EXPECT_EQ(RightName(Right::kOperate), "operate");
}

}  // namespace
}  // namespace capstan
