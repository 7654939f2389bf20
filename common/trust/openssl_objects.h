#ifndef COMMON_TRUST_OPENSSL_OBJECTS_H_
#define COMMON_TRUST_OPENSSL_OBJECTS_H_

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace capstan {

// Owns an object of OpenSSL, which `free` frees.
template <typename T, void (*free)(T*)>
struct OpensslDeleter {
  void operator()(T* object) const { free(object); }
};
template <typename T, void (*free)(T*)>
using OpensslPointer = std::unique_ptr<T, OpensslDeleter<T, free>>;

using BioPointer = OpensslPointer<BIO, BIO_free_all>;
using CertificatePointer = OpensslPointer<X509, X509_free>;
using PrivateKeyPointer = OpensslPointer<EVP_PKEY, EVP_PKEY_free>;
using StorePointer = OpensslPointer<X509_STORE, X509_STORE_free>;
using VerificationPointer = OpensslPointer<X509_STORE_CTX, X509_STORE_CTX_free>;
using SslContextPointer = OpensslPointer<SSL_CTX, SSL_CTX_free>;
using SslPointer = OpensslPointer<SSL, SSL_free>;

// Reads PEM text, which must outlive it.
inline BioPointer PemReader(const std::string& text) {
  return BioPointer(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// All certificates in PEM text. Leaves no error behind in OpenSSL.
std::vector<CertificatePointer> ParseCertificates(const std::string& pem);

// The private key in PEM text; null if there is none, or if it has a passphrase. Never asks for
// one. Leaves no error behind in OpenSSL.
PrivateKeyPointer ParsePrivateKey(const std::string& pem);

// Whether the private key is the certificate's. Leaves no error behind in OpenSSL.
bool IsKeyOf(X509* certificate, EVP_PKEY* key);

absl::Time TimeOf(const ASN1_TIME* time);

}  // namespace capstan

#endif  // COMMON_TRUST_OPENSSL_OBJECTS_H_
