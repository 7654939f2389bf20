#ifndef COMMON_TRUST_TLS_PROBE_H_
#define COMMON_TRUST_TLS_PROBE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/trust/job_keys.h"

namespace capstan {

// Finds out why a connection to `address` (host:port) fails, by a handshake of its own. With `keys`
// as TLS with them; null: as plaintext. Blocks for at most about `timeout`, plus name resolution.
// UNAUTHENTICATED says which side does not trust the other one, and what to do. UNAVAILABLE: the
// peer closes connections without a word, which it also does with too many of them. OK: the reason
// is another one, such as that nobody listens.
absl::Status ProbeTrust(const std::string& address, const TlsKeys* keys, absl::Duration timeout);

}  // namespace capstan

#endif  // COMMON_TRUST_TLS_PROBE_H_
