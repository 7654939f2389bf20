#include "common/trust/openssl_objects.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <ctime>

namespace capstan {
namespace {

// OpenSSL asks for passphrases at the terminal unless it gets a function that does not.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*is_new*/, void* /*unused*/) { return -1; }

}  // namespace

std::vector<CertificatePointer> ParseCertificates(const std::string& pem) {
  const BioPointer reader = PemReader(pem);
  std::vector<CertificatePointer> certificates;
  while (X509* next = PEM_read_bio_X509(reader.get(), nullptr, NoPassphrase, nullptr)) {
    certificates.emplace_back(next);
  }
  ERR_clear_error();  // the end of the text is an error to OpenSSL
  return certificates;
}

PrivateKeyPointer ParsePrivateKey(const std::string& pem) {
  const BioPointer reader = PemReader(pem);
  PrivateKeyPointer key(PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  return key;
}

bool IsKeyOf(X509* certificate, EVP_PKEY* key) {
  const bool is_key = X509_check_private_key(certificate, key) == 1;
  ERR_clear_error();
  return is_key;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  ASN1_TIME_to_tm(time, &parts);
  return absl::FromTM(parts, absl::UTCTimeZone());
}

}  // namespace capstan
