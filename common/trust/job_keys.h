#ifndef COMMON_TRUST_JOB_KEYS_H_
#define COMMON_TRUST_JOB_KEYS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/trust/job_token.h"

namespace capstan {

// The files in a folder of keys, named as cert-manager names them.
inline constexpr char kCertificateFile[] = "tls.crt";  // PEM: certificate, then its chain
inline constexpr char kPrivateKeyFile[] = "tls.key";   // PEM, without a passphrase
inline constexpr char kAuthorityFile[] = "ca.crt";     // PEM: certificates of the trusted CAs
inline constexpr char kTokenFile[] = "token";          // see JobTokens::Parse

// What proves who a process is: its certificate and private key. And whom it trusts.
struct TlsKeys {
  std::string identity;     // PEM: private key, certificate, chain
  std::string authorities;  // PEM: certificates of CAs

  friend bool operator==(const TlsKeys& a, const TlsKeys& b) {
    return a.identity == b.identity && a.authorities == b.authorities;
  }
  friend bool operator!=(const TlsKeys& a, const TlsKeys& b) { return !(a == b); }
};

// Whom a certificate has to serve.
enum class TlsRole { kClient, kServer };  // a server is a client of others, too

// The keys in the folder `dir`, for a process in this role. They fit each other: the private key is
// the certificate's, a CA of the folder has signed it, and it is valid at `now`. INVALID_ARGUMENT,
// NOT_FOUND or UNAVAILABLE name the file, what is wrong with it and what to do; they contain
// nothing secret.
absl::StatusOr<TlsKeys> ReadTlsKeys(const std::string& dir, absl::Time now,
                                    TlsRole role = TlsRole::kClient);

// The tokens in the folder `dir`. The same errors.
absl::StatusOr<JobTokens> ReadTokens(const std::string& dir);

// The text of one file in the folder `dir`. The same errors.
absl::StatusOr<std::string> ReadKeyFile(const std::string& dir, const std::string& name);

// A line that names the secret files in the folder `dir` that every user can read, and says what
// to do; empty if there are none.
std::string WarningOfOpenKeys(const std::string& dir);

}  // namespace capstan

#endif  // COMMON_TRUST_JOB_KEYS_H_
