#include "common/trust/call_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef-the-token";
constexpr char kServer[] = "10.0.0.1:4000";
constexpr char kCall[] = "GetJob";

class CallProofTest : public testing::Test {
 protected:
  absl::Status Check(const std::string& proof, absl::Time now) {
    return checker_.Check(tokens_, proof, kServer, kCall, now).status();
  }

  const JobTokens tokens_ = JobTokens::Parse(kToken).value();
  const absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  CallProofChecker checker_;
};

TEST_F(CallProofTest, AProofIsAcceptedOnceAndDoesNotShowTheToken) {
  const std::string proof = MakeCallProof(kToken, kServer, kCall, now_);
  EXPECT_THAT(proof, Not(HasSubstr(kToken)));
  EXPECT_TRUE(Check(proof, now_).ok()) << Check(proof, now_);
  const absl::Status replayed = Check(proof, now_ + absl::Seconds(1));
  EXPECT_TRUE(absl::IsUnauthenticated(replayed));
  EXPECT_THAT(std::string(replayed.message()), HasSubstr("got a used one"));
  EXPECT_TRUE(Check(MakeCallProof(kToken, kServer, kCall, now_), now_).ok()) << "a new one";
}

TEST_F(CallProofTest, AProofStaysUsedAsLongAsItsTimeIsAccepted) {
  const absl::Time made = now_ + CallProofChecker::kLargestSkew;  // by a clock that is ahead
  const std::string proof = MakeCallProof(kToken, kServer, kCall, made);
  EXPECT_TRUE(Check(proof, now_).ok());
  EXPECT_FALSE(Check(proof, made + CallProofChecker::kLargestSkew).ok());
}

TEST_F(CallProofTest, AProofForAnotherProcessOrOfAnotherTokenIsRefused) {
  for (const std::string& proof :
       {MakeCallProof(kToken, "10.0.0.2:4000", kCall, now_),
        MakeCallProof(kToken, kServer, "SetConsistency", now_),
        MakeCallProof("another-long-token", kServer, kCall, now_), std::string("x.y.z"),
        std::string(""), absl::StrCat("1", MakeCallProof(kToken, kServer, kCall, now_)),
        std::string(1 << 20, '.')}) {
    EXPECT_TRUE(absl::IsUnauthenticated(Check(proof, now_))) << proof.substr(0, 100);
  }
}

TEST_F(CallProofTest, ClocksThatDifferTooMuchAreNamed) {
  const std::string proof = MakeCallProof(kToken, kServer, kCall, now_ - absl::Minutes(3));
  EXPECT_THAT(std::string(Check(proof, now_).message()), HasSubstr("differ by 3m"));
}

TEST_F(CallProofTest, TheRightIsThatOfTheToken) {
  const std::string weaker = WeakerToken(kToken, Right::kLook);
  const auto token =
      checker_.Check(tokens_, MakeCallProof(weaker, kServer, kCall, now_), kServer, kCall, now_);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ((*token)->right, Right::kLook);
}

}  // namespace
}  // namespace capstan
