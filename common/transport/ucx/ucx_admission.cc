#include "common/transport/ucx/ucx_admission.h"

#include "absl/strings/str_cat.h"
#include "common/base/little_endian.h"
#include "common/transport/ucx/ucx_protocol.h"
#include "common/trust/job_token.h"

namespace capstan {
namespace {

constexpr size_t kNonceBytes = 16;

// `purpose` keeps what the server proves and what the worker proves apart.
std::string MacOf(absl::string_view token, absl::string_view purpose,
                  const v1::OpenUcxRequest& request, absl::string_view server_nonce) {
  std::string incarnation;
  AppendLittleEndian(uint64_t{request.incarnation()}, &incarnation);
  return Mac(token, {"capstan ucx", purpose, request.nonce(), server_nonce, request.job(),
                     incarnation, request.address()});
}

std::string ServerProof(absl::string_view token, const v1::OpenUcxRequest& request,
                        absl::string_view server_nonce) {
  return MacOf(token, "server", request, server_nonce);
}

std::string Secret(absl::string_view token, const v1::OpenUcxRequest& request,
                   absl::string_view server_nonce) {
  return MacOf(token, "worker", request, server_nonce).substr(0, UcxGreeting::kSecretBytes);
}

}  // namespace

v1::OpenUcxRequest MakeUcxRequest(const UcxMember& member, const std::string& address) {
  v1::OpenUcxRequest request;
  request.set_nonce(RandomBytes(kNonceBytes));
  request.set_job(member.job);
  request.set_incarnation(member.incarnation);
  request.set_address(address);
  return request;
}

absl::Status CompleteInvitation(const UcxMember& member, const v1::OpenUcxRequest& request,
                                v1::UcxInvitation& invitation) {
  const std::shared_ptr<const JobTokens> tokens = member.security->tokens();
  if (tokens == nullptr || member.security->is_tls()) return absl::OkStatus();
  const std::string& token = tokens->own();
  if (!AreEqual(invitation.proof(), ServerProof(token, request, invitation.nonce()))) {
    return absl::UnauthenticatedError(
        "expected a server that has this job's token, got one that has not");
  }
  invitation.set_secret(Secret(token, request, invitation.nonce()));
  return absl::OkStatus();
}

UcxAdmission UcxAdmission::Telling() {
  UcxAdmission admission;
  admission.secret_ = RandomBytes(UcxGreeting::kSecretBytes);
  return admission;
}

absl::StatusOr<UcxAdmission> UcxAdmission::Proving(const v1::OpenUcxRequest& request,
                                                   absl::string_view token, absl::string_view job,
                                                   absl::string_view address) {
  const bool fits = request.job() == job && request.address() == address;
  if (!fits || request.nonce().size() != kNonceBytes) {
    return absl::UnauthenticatedError(absl::StrCat(
        "expected a request for job ", job, " and the server at ", address, ", got another one"));
  }
  UcxAdmission admission;
  admission.nonce_ = RandomBytes(kNonceBytes);
  admission.proof_ = ServerProof(token, request, admission.nonce_);
  admission.secret_ = Secret(token, request, admission.nonce_);
  return admission;
}

void UcxAdmission::AddTo(v1::UcxInvitation& invitation) const {
  if (nonce_.empty()) return invitation.set_secret(secret_);
  invitation.set_nonce(nonce_);
  invitation.set_proof(proof_);
}

}  // namespace capstan
