#include "tests/transport/test_keys.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "common/trust/job_keys.h"

namespace capstan {
namespace {

void WriteFile(const std::string& dir, const std::string& name, const std::string& text) {
  std::ofstream(dir + "/" + name) << text;
}

}  // namespace

KeyPair MakeTestAuthority() {
  return MakeAuthority("test", absl::Now() - absl::Hours(1), absl::Now() + absl::Hours(1)).value();
}

std::string WriteTestKeys(const TestKeys& keys) {
  std::string dir = testing::TempDir() + "/keys-XXXXXX";
  EXPECT_NE(mkdtemp(&dir[0]), nullptr);
  ReplaceTestKeys(keys, dir);
  return dir;
}

void ReplaceTestKeys(const TestKeys& keys, const std::string& dir) {
  CertificateSpec spec;
  spec.name = "member";
  spec.hosts = keys.hosts;
  spec.begin = keys.begin;
  spec.end = keys.end;
  const KeyPair own = MakeCertificate(keys.authority, spec).value();
  WriteFile(dir, kAuthorityFile, keys.authority.certificate);
  WriteFile(dir, kTokenFile, keys.token + "\n");
  WriteFile(dir, kCertificateFile, own.certificate);
  WriteFile(dir, kPrivateKeyFile, own.private_key);
}

}  // namespace capstan
