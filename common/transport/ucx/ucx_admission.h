#ifndef COMMON_TRANSPORT_UCX_UCX_ADMISSION_H_
#define COMMON_TRANSPORT_UCX_UCX_ADMISSION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/transport/grpc/grpc_security.h"
#include "proto/ucx_service.pb.h"

namespace capstan {

// How a worker is admitted to UCX. The greeting over UCX carries a secret of 16 bytes. Over TLS, or
// without tokens, the server tells the secret in its invitation. Over plaintext with tokens nobody
// tells it: both sides compute it from the job's token and fresh nonces of both, and the server
// proves in its invitation that it can. Whoever listens learns neither token nor secret. This
// admits a worker; it does not protect the bytes that follow.

// The worker of a connection.
struct UcxMember {
  SecurityPointer security = NoSecurity();
  std::string job;
  uint64_t incarnation = 0;
};

// The worker's request to the server at `address`, host:port.
v1::OpenUcxRequest MakeUcxRequest(const UcxMember& member, const std::string& address);

// Fills in the secret of an invitation that does not tell it. UNAUTHENTICATED: the server does not
// prove that it has the job's token.
absl::Status CompleteInvitation(const UcxMember& member, const v1::OpenUcxRequest& request,
                                v1::UcxInvitation& invitation);

// A server's side of one connection.
class UcxAdmission {
 public:
  // Tells the secret: the stream is TLS, or there are no tokens.
  static UcxAdmission Telling();
  // For a worker over plaintext that has proved `token`. UNAUTHENTICATED: the request is for
  // another job, or for another server than that at `address`.
  static absl::StatusOr<UcxAdmission> Proving(const v1::OpenUcxRequest& request,
                                              absl::string_view token, absl::string_view job,
                                              absl::string_view address);

  const std::string& secret() const { return secret_; }
  // Sets all but the address of UCX.
  void AddTo(v1::UcxInvitation& invitation) const;

 private:
  std::string secret_;
  std::string nonce_;  // empty: the secret is told
  std::string proof_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_ADMISSION_H_
