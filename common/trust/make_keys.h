#ifndef COMMON_TRUST_MAKE_KEYS_H_
#define COMMON_TRUST_MAKE_KEYS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace capstan {

// A certificate and its private key, both as PEM text.
struct KeyPair {
  std::string certificate;
  std::string private_key;  // without a passphrase
};

// What a certificate says.
struct CertificateSpec {
  // For people alone; 1 to 64 characters.
  std::string name;
  // The hosts that a server may be: DNS names, such as node.example.org and *.example.org, and IP
  // addresses. A server needs one at least. A client's certificate has none.
  std::vector<std::string> hosts;
  // When it is valid, in whole seconds.
  absl::Time begin;
  absl::Time end;
  // Whether it is for a server, which may also be a client. False: for a client alone.
  bool is_server = true;
};

// A new CA: whoever trusts its certificate trusts what MakeCertificate signs with it. Keys are EC
// P-256, serial numbers random. INVALID_ARGUMENT says what is wrong with an argument; INTERNAL has
// OpenSSL's reason.
absl::StatusOr<KeyPair> MakeAuthority(const std::string& name, absl::Time begin, absl::Time end);

// A new key with a certificate, signed by `authority`. If the authority's text has several
// certificates, the one of its private key counts. The same errors. The authority's own time does
// not limit the certificate's.
absl::StatusOr<KeyPair> MakeCertificate(const KeyPair& authority, const CertificateSpec& spec);

// What the first certificate in PEM text says. INVALID_ARGUMENT: there is none.
absl::StatusOr<CertificateSpec> DescribeCertificate(const std::string& pem);

// The same of the certificate that MakeCertificate signs with. INVALID_ARGUMENT: there is none.
absl::StatusOr<CertificateSpec> DescribeAuthority(const KeyPair& authority);

// OK, or INVALID_ARGUMENT if `host` cannot be in a certificate.
absl::Status CheckHost(const std::string& host);

}  // namespace capstan

#endif  // COMMON_TRUST_MAKE_KEYS_H_
