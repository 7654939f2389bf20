#ifndef COMMON_TRANSPORT_GRPC_GRPC_SECURITY_H_
#define COMMON_TRANSPORT_GRPC_GRPC_SECURITY_H_

#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/clock.h"
#include "common/trust/call_proof.h"
#include "common/trust/job_token.h"
#include "common/trust/watched_keys.h"

namespace capstan {

// What a coordinator is called in proofs. A server is called by its address.
inline constexpr char kCoordinatorAudience[] = "coordinator";

// Calls to servers. All are called by the names of their methods, also those to a coordinator.
inline constexpr char kExchangeCall[] = "Exchange";
inline constexpr char kReplicateCall[] = "Replicate";
inline constexpr char kOpenUcxCall[] = "OpenUcx";

// How a process proves who it is, and whom it trusts. With keys, its connections are mutual TLS of
// version 1.2 or newer, and its calls carry the job's token. Shared by all channels and servers of
// a process. Thread-safe.
class GrpcSecurity {
 public:
  struct Options {
    std::string keys;          // the folder of keys; empty: none
    bool is_insecure = false;  // plaintext on every address; with keys, calls prove the token
    Clock* clock = nullptr;    // Required; outlives the object
    bool listens = false;      // whether clients check the certificate: then it is a server's
  };

  // The errors of ReadTlsKeys and ReadTokens. If `is_insecure`, only the tokens are read.
  static absl::StatusOr<std::shared_ptr<const GrpcSecurity>> Open(const Options& options);
  // See NoSecurity.
  GrpcSecurity();
  ~GrpcSecurity();

  bool is_tls() const { return provider_ != nullptr; }
  // Whether plaintext may leave the machine.
  bool is_insecure() const { return is_insecure_; }
  // Null: there are none.
  std::shared_ptr<const JobTokens> tokens() const;
  // None without TLS.
  std::optional<TlsKeys> tls_keys() const;

  std::shared_ptr<grpc::ServerCredentials> server_credentials() const;
  std::shared_ptr<grpc::ChannelCredentials> channel_credentials() const;

  // Adds the token to the call named `call`, or over plaintext a proof of it for `audience`.
  void Authorize(absl::string_view audience, absl::string_view call,
                 grpc::ClientContext& context) const;
  // The token of a call to this process, `audience`. UNAUTHENTICATED says what is wrong with it.
  // Without tokens every call may do everything.
  absl::StatusOr<JobTokens::Token> TokenOf(const grpc::ServerContextBase& context,
                                           absl::string_view audience,
                                           absl::string_view call) const;

  // A better reason why `address` is UNAVAILABLE: what ProbeTrust finds out, otherwise `status`.
  // Blocks for up to two seconds.
  absl::Status Explain(const std::string& address, const absl::Status& status) const;

 private:
  class PublishedKeys;

  bool is_insecure_ = false;
  Clock* clock_ = nullptr;
  std::unique_ptr<PublishedKeys> published_;                                    // null: no TLS
  std::unique_ptr<WatchedKeys> keys_;                                           // null: no keys
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> provider_;  // null: no TLS
  mutable CallProofChecker proofs_;
};

using SecurityPointer = std::shared_ptr<const GrpcSecurity>;

// Plaintext without tokens.
inline SecurityPointer NoSecurity() { return std::make_shared<GrpcSecurity>(); }

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_SECURITY_H_
