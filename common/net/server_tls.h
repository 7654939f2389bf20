#ifndef COMMON_NET_SERVER_TLS_H_
#define COMMON_NET_SERVER_TLS_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/trust/job_keys.h"
#include "common/trust/openssl_objects.h"

namespace capstan {

// What a server needs for TLS of version 1.2 or newer with these keys. Clients are not asked for a
// certificate. INTERNAL has what OpenSSL does not accept.
absl::StatusOr<SslContextPointer> MakeServerContext(const TlsKeys& keys);

// The server's ends of connections, with keys that change while the server runs. Not thread-safe.
class ServerTls {
 public:
  // `keys` gives the keys of now. `flag` is for the log: the one with the address to listen at.
  ServerTls(std::string flag, std::function<std::optional<TlsKeys>()> keys)
      : flag_(std::move(flag)), keys_(std::move(keys)) {}

  // With the keys of now, or with earlier ones if OpenSSL does not accept these. Reading shakes
  // hands. Null: there are no keys.
  SslPointer NewConnection();

 private:
  const std::string flag_;
  const std::function<std::optional<TlsKeys>()> keys_;
  std::optional<TlsKeys> used_;
  SslContextPointer context_;
};

}  // namespace capstan

#endif  // COMMON_NET_SERVER_TLS_H_
