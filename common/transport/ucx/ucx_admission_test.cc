#include "common/transport/ucx/ucx_admission.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

#include "common/base/real_clock.h"
#include "common/transport/ucx/ucx_protocol.h"

namespace capstan {
namespace {

constexpr char kToken[] = "0123456789abcdef-the-token";
constexpr char kServer[] = "10.0.0.1:4000";
constexpr char kJob[] = "job";

class UcxAdmissionTest : public testing::Test {
 protected:
  // A worker that talks in plaintext and has this token.
  UcxMember MemberWith(const std::string& token) {
    std::string dir = testing::TempDir() + "/token-XXXXXX";
    EXPECT_NE(mkdtemp(&dir[0]), nullptr);
    std::ofstream(dir + "/token") << token;
    return {GrpcSecurity::Open({dir, /*is_insecure=*/true, &clock_}).value(), kJob, 7};
  }
  static v1::UcxInvitation InvitationOf(const UcxAdmission& admission) {
    v1::UcxInvitation invitation;
    admission.AddTo(invitation);
    return invitation;
  }

  RealClock clock_;
};

TEST_F(UcxAdmissionTest, OverTlsTheSecretIsTold) {
  const UcxMember member;
  const auto admission = UcxAdmission::Telling();
  v1::UcxInvitation invitation = InvitationOf(admission);
  EXPECT_TRUE(CompleteInvitation(member, {}, invitation).ok());
  EXPECT_EQ(invitation.secret(), admission.secret());
  EXPECT_EQ(invitation.secret().size(), UcxGreeting::kSecretBytes);
}

TEST_F(UcxAdmissionTest, OverPlaintextBothSidesComputeTheSecretAndNobodyTellsIt) {
  const UcxMember member = MemberWith(kToken);
  const v1::OpenUcxRequest request = MakeUcxRequest(member, kServer);
  const auto admission = UcxAdmission::Proving(request, kToken, kJob, kServer);
  ASSERT_TRUE(admission.ok()) << admission.status();
  v1::UcxInvitation invitation = InvitationOf(*admission);
  EXPECT_TRUE(invitation.secret().empty());
  EXPECT_EQ(invitation.SerializeAsString().find(admission->secret()), std::string::npos);
  ASSERT_TRUE(CompleteInvitation(member, request, invitation).ok());
  EXPECT_EQ(invitation.secret(), admission->secret());
}

TEST_F(UcxAdmissionTest, ASecondConnectionHasAnotherSecretEvenForTheSameRequest) {
  const UcxMember member = MemberWith(kToken);
  const v1::OpenUcxRequest request = MakeUcxRequest(member, kServer);
  const auto first = UcxAdmission::Proving(request, kToken, kJob, kServer);
  const auto second = UcxAdmission::Proving(request, kToken, kJob, kServer);
  EXPECT_NE(first->secret(), second->secret());
}

TEST_F(UcxAdmissionTest, AServerWithoutTheTokenIsNotTrusted) {
  const UcxMember member = MemberWith(kToken);
  const v1::OpenUcxRequest request = MakeUcxRequest(member, kServer);
  const auto admission = UcxAdmission::Proving(request, "another-long-token", kJob, kServer);
  v1::UcxInvitation invitation = InvitationOf(*admission);
  EXPECT_TRUE(absl::IsUnauthenticated(CompleteInvitation(member, request, invitation)));
  v1::UcxInvitation told;
  told.set_secret(std::string(UcxGreeting::kSecretBytes, 's'));
  EXPECT_TRUE(absl::IsUnauthenticated(CompleteInvitation(member, request, told)));
  // An answer to another request of the worker does not do either.
  const auto other = UcxAdmission::Proving(MakeUcxRequest(member, kServer), kToken, kJob, kServer);
  v1::UcxInvitation replayed = InvitationOf(*other);
  EXPECT_TRUE(absl::IsUnauthenticated(CompleteInvitation(member, request, replayed)));
}

TEST_F(UcxAdmissionTest, ARequestForAnotherServerOrJobIsRefused) {
  const v1::OpenUcxRequest right = MakeUcxRequest(MemberWith(kToken), kServer);
  EXPECT_TRUE(absl::IsUnauthenticated(
      UcxAdmission::Proving(right, kToken, "another_job", kServer).status()));
  const v1::OpenUcxRequest request = MakeUcxRequest(MemberWith(kToken), "10.0.0.2:4000");
  EXPECT_TRUE(
      absl::IsUnauthenticated(UcxAdmission::Proving(request, kToken, kJob, kServer).status()));
}

}  // namespace
}  // namespace capstan
