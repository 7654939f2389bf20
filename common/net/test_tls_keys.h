#ifndef COMMON_NET_TEST_TLS_KEYS_H_
#define COMMON_NET_TEST_TLS_KEYS_H_

#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/trust/job_keys.h"
#include "common/trust/make_keys.h"

namespace capstan {

// Keys of a server for "localhost", valid now. `name` is the common name of the certificate.
inline TlsKeys MakeTlsKeys(const std::string& name) {
  const absl::Time now = absl::Now();
  const KeyPair authority =
      MakeAuthority("test", now - absl::Hours(1), now + absl::Hours(1)).value();
  CertificateSpec spec;
  spec.name = name;
  spec.hosts = {"localhost"};
  spec.begin = now - absl::Hours(1);
  spec.end = now + absl::Hours(1);
  const KeyPair own = MakeCertificate(authority, spec).value();
  return {own.private_key + own.certificate + authority.certificate, authority.certificate};
}

}  // namespace capstan

#endif  // COMMON_NET_TEST_TLS_KEYS_H_
