#include "common/net/server_tls.h"

#include <glog/logging.h>
#include <openssl/err.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace capstan {
namespace {

bool UseCertificates(SSL_CTX* context, const std::vector<CertificatePointer>& certificates) {
  for (size_t i = 0; i < certificates.size(); ++i) {
    X509* const certificate = certificates[i].get();
    // SSL_CTX_add1_chain_cert is a macro around this call.
    const bool is_used = i == 0 ? SSL_CTX_use_certificate(context, certificate) == 1
                                : SSL_CTX_add1_chain_cert(context, certificate) == 1;
    if (!is_used) return false;
  }
  return !certificates.empty();
}

}  // namespace

absl::StatusOr<SslContextPointer> MakeServerContext(const TlsKeys& keys) {
  SslContextPointer context(SSL_CTX_new(TLS_server_method()));
  const PrivateKeyPointer key = ParsePrivateKey(keys.identity);
  const bool is_made = context != nullptr && key != nullptr &&
                       SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1 &&
                       UseCertificates(context.get(), ParseCertificates(keys.identity)) &&
                       SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1 &&
                       SSL_CTX_check_private_key(context.get()) == 1;
  ERR_clear_error();
  if (!is_made) {
    return absl::InternalError("expected keys for a TLS server, got some that OpenSSL refuses");
  }
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  // Each connection is closed soon; nothing is worth keeping in memory.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  // One call then takes one record without bytes at most (HttpConnection::Read counts them).
  SSL_CTX_clear_mode(context.get(), SSL_MODE_AUTO_RETRY);
  return context;
}

SslPointer ServerTls::NewConnection() {
  std::optional<TlsKeys> keys = keys_();
  if (keys.has_value() && keys != used_) {
    absl::StatusOr<SslContextPointer> made = MakeServerContext(*keys);
    if (made.ok()) {
      context_ = *std::move(made);
    } else {
      LOG(WARNING) << flag_ << ": " << made.status().message();
    }
    used_ = std::move(keys);
  }
  if (context_ == nullptr) return nullptr;
  SslPointer connection(SSL_new(context_.get()));
  if (connection != nullptr) SSL_set_accept_state(connection.get());
  return connection;
}

}  // namespace capstan
