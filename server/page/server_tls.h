#ifndef SERVER_PAGE_SERVER_TLS_H_
#define SERVER_PAGE_SERVER_TLS_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/transport/trust/job_keys.h"
#include "common/transport/trust/openssl_objects.h"

namespace capstan {

// What a server needs for TLS of version 1.2 or newer with these keys. Clients are not asked for a
// certificate. INTERNAL has what OpenSSL does not accept.
absl::StatusOr<SslContextPointer> MakeServerContext(const TlsKeys& keys);

// The same for keys that change while the server runs. Thread-safe.
class ServerTls {
 public:
  // `keys` gives the keys of now.
  explicit ServerTls(std::function<std::optional<TlsKeys>()> keys) : keys_(std::move(keys)) {}

  // Made anew when the keys have changed. The earlier one stays if OpenSSL does not accept the new
  // keys. Null: there is none.
  std::shared_ptr<SSL_CTX> Context();

 private:
  const std::function<std::optional<TlsKeys>()> keys_;

  Mutex mu_;
  std::optional<TlsKeys> used_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<SSL_CTX> context_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // SERVER_PAGE_SERVER_TLS_H_
