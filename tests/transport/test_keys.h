#ifndef TESTS_TRANSPORT_TEST_KEYS_H_
#define TESTS_TRANSPORT_TEST_KEYS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/trust/job_token.h"
#include "common/trust/make_keys.h"

namespace capstan {

// What a folder of keys for a test has.
struct TestKeys {
  KeyPair authority;  // Required.
  std::string token;  // Required.
  std::vector<std::string> hosts = {"127.0.0.1", "localhost"};
  absl::Time begin = absl::Now() - absl::Hours(1);
  absl::Time end = absl::Now() + absl::Hours(1);
};

KeyPair MakeTestAuthority();

// Writes tls.crt, tls.key, ca.crt and token into a new folder. Each call makes a new certificate.
// Returns the folder.
std::string WriteTestKeys(const TestKeys& keys);
// The same, into the folder `dir`, which may have keys. Its files change one after the other.
void ReplaceTestKeys(const TestKeys& keys, const std::string& dir);

}  // namespace capstan

#endif  // TESTS_TRANSPORT_TEST_KEYS_H_
