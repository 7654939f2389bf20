#include "common/transport/grpc/grpc_security.h"

#include <fcntl.h>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/trust/tls_probe.h"

namespace capstan {
namespace {

// Metadata of calls.
constexpr char kTokenKey[] = "capstan-token";
constexpr char kProofKey[] = "capstan-proof";

constexpr absl::Duration kLongestProbe = absl::Seconds(2);

// A file in memory that is replaced as a whole. Not thread-safe.
class MemoryFile {
 public:
  MemoryFile() = default;
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Stays the same once there is a text.
  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }
  absl::Status Replace(const std::string& text) {
    const int next = memfd_create("capstan", MFD_CLOEXEC);
    const bool is_written =
        next >= 0 && write(next, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (is_written && fd_ < 0) {
      fd_ = next;
      return absl::OkStatus();
    }
    const bool is_replaced = is_written && dup3(next, fd_, O_CLOEXEC) == fd_;
    const absl::Status status =
        is_replaced ? absl::OkStatus()
                    : absl::UnavailableError(absl::StrCat("expected memory and file descriptors "
                                                          "for keys, got: ",
                                                          std::strerror(errno)));
    if (next >= 0) close(next);
    return status;
  }

 private:
  int fd_ = -1;
};

absl::string_view Metadata(const grpc::ServerContextBase& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return "";
  return {found->second.data(), found->second.size()};
}

}  // namespace

// gRPC reads new keys from files alone. A user's files change one after the other, and may be
// wrong. So gRPC gets files of our own, which hold keys that fit each other.
class GrpcSecurity::PublishedKeys {
 public:
  absl::Status Publish(const TlsKeys& keys) {
    RETURN_IF_ERROR(authorities_.Replace(keys.authorities));
    return identity_.Replace(keys.identity);
  }
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> MakeProvider() const {
    // The file of the identity has both the private key and the certificates.
    return std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
        identity_.path(), identity_.path(), authorities_.path(),
        static_cast<unsigned>(absl::ToInt64Seconds(WatchedKeys::kInterval)));
  }

 private:
  MemoryFile identity_;
  MemoryFile authorities_;
};

absl::StatusOr<std::shared_ptr<const GrpcSecurity>> GrpcSecurity::Open(const Options& options) {
  auto security = std::make_shared<GrpcSecurity>();
  security->is_insecure_ = options.is_insecure;
  security->clock_ = options.clock;
  if (options.keys.empty()) return security;
  WatchedKeys::Options watched;
  watched.dir = options.keys;
  watched.has_tls = !options.is_insecure;
  watched.clock = options.clock;
  watched.role = options.listens ? TlsRole::kServer : TlsRole::kClient;
  if (watched.has_tls) {
    security->published_ = std::make_unique<PublishedKeys>();
    watched.on_tls_keys = [published = security->published_.get()](const TlsKeys& keys) {
      return published->Publish(keys);
    };
  }
  ASSIGN_OR_RETURN(security->keys_, WatchedKeys::Open(std::move(watched)));
  if (security->published_ != nullptr) security->provider_ = security->published_->MakeProvider();
  return security;
}

GrpcSecurity::GrpcSecurity() = default;

GrpcSecurity::~GrpcSecurity() {
  // The thread of the keys uses the published ones.
  keys_ = nullptr;
}

std::shared_ptr<const JobTokens> GrpcSecurity::tokens() const {
  return keys_ == nullptr ? nullptr : keys_->tokens();
}

std::optional<TlsKeys> GrpcSecurity::tls_keys() const {
  return is_tls() ? keys_->tls() : std::nullopt;
}

std::shared_ptr<grpc::ServerCredentials> GrpcSecurity::server_credentials() const {
  if (!is_tls()) return grpc::InsecureServerCredentials();
  grpc::experimental::TlsServerCredentialsOptions options(provider_);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> GrpcSecurity::channel_credentials() const {
  if (!is_tls()) return grpc::InsecureChannelCredentials();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider_);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

void GrpcSecurity::Authorize(absl::string_view audience, absl::string_view call,
                             grpc::ClientContext& context) const {
  const std::shared_ptr<const JobTokens> known = tokens();
  if (known == nullptr) return;
  if (is_tls()) {
    context.AddMetadata(kTokenKey, known->own());
  } else {
    context.AddMetadata(kProofKey, MakeCallProof(known->own(), audience, call, clock_->Now()));
  }
}

absl::StatusOr<JobTokens::Token> GrpcSecurity::TokenOf(const grpc::ServerContextBase& context,
                                                       absl::string_view audience,
                                                       absl::string_view call) const {
  const std::shared_ptr<const JobTokens> known = tokens();
  if (known == nullptr) return JobTokens::Token{"", Right::kOperate};
  const absl::string_view presented = Metadata(context, is_tls() ? kTokenKey : kProofKey);
  if (presented.empty()) {
    return absl::UnauthenticatedError(
        "expected the job's token, got none; give --keys=DIR with the job's keys");
  }
  if (!is_tls()) {
    ASSIGN_OR_RETURN(const JobTokens::Token* token,
                     proofs_.Check(*known, presented, audience, call, clock_->Now()));
    return *token;
  }
  const JobTokens::Token* const token = known->Find(presented);
  if (token != nullptr) return *token;
  return absl::UnauthenticatedError(
      "expected the token of this job, got another one; the file token in the folder of --keys is "
      "that of another job, or an old one");
}

absl::Status GrpcSecurity::Explain(const std::string& address, const absl::Status& status) const {
  const std::optional<TlsKeys> keys = tls_keys();
  absl::Status distrust = ProbeTrust(address, keys.has_value() ? &*keys : nullptr, kLongestProbe);
  return distrust.ok() ? status : distrust;
}

}  // namespace capstan
