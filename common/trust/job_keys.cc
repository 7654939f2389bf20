#include "common/trust/job_keys.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/input_file.h"
#include "common/base/status_macros.h"
#include "common/trust/openssl_objects.h"

namespace capstan {
namespace {

constexpr int64_t kLongestFile = 256 << 10;  // in bytes

constexpr char kRemedy[] = "; capstan keys makes a folder of keys";

absl::StatusOr<std::vector<CertificatePointer>> CertificatesOf(const std::string& path,
                                                               const std::string& pem) {
  std::vector<CertificatePointer> certificates = ParseCertificates(pem);
  if (!certificates.empty()) return certificates;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected certificates in PEM, got none", kRemedy));
}

absl::Status CheckPrivateKey(const std::string& path, const std::string& pem, X509* certificate) {
  const PrivateKeyPointer key = ParsePrivateKey(pem);
  if (key == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": expected a private key in PEM without a passphrase, got none", kRemedy));
  }
  if (IsKeyOf(certificate, key.get())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected the private key of the certificate in ", kCertificateFile,
                   ", got another one's", kRemedy));
}

// Whether the certificate is valid at `now`.
absl::Status CheckValidity(const std::string& path, X509* certificate, absl::Time now) {
  const absl::Time begin = TimeOf(X509_get0_notBefore(certificate));
  const absl::Time end = TimeOf(X509_get0_notAfter(certificate));
  if (begin <= now && now < end) return absl::OkStatus();
  const auto text = [](absl::Time time) {
    return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
  };
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": expected a certificate that is valid now, got one that ",
      now < begin ? "becomes valid at " : "expired at ", text(now < begin ? begin : end),
      now < begin ? "; check the clock of this machine" : "; make a new one, as by capstan keys"));
}

// Whether one of `authorities` has signed the first of `chain`, by way of the others.
absl::Status CheckChain(const std::string& dir, const std::vector<CertificatePointer>& chain,
                        const std::vector<CertificatePointer>& authorities, absl::Time now) {
  const StorePointer store(X509_STORE_new());
  // As gRPC does: a trusted CA need not be a root.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN);
  for (const CertificatePointer& authority : authorities) {
    X509_STORE_add_cert(store.get(), authority.get());
  }
  const std::unique_ptr<STACK_OF(X509), void (*)(STACK_OF(X509)*)> others(
      sk_X509_new_null(), [](STACK_OF(X509) * stack) { sk_X509_free(stack); });
  for (const CertificatePointer& certificate : chain) {
    sk_X509_push(others.get(), certificate.get());
  }
  const VerificationPointer verification(X509_STORE_CTX_new());
  X509_STORE_CTX_init(verification.get(), store.get(), chain.front().get(), others.get());
  X509_STORE_CTX_set_time(verification.get(), 0, absl::ToTimeT(now));
  const bool is_signed = X509_verify_cert(verification.get()) == 1;
  ERR_clear_error();
  if (is_signed) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      dir, "/", kCertificateFile, ": expected a certificate signed by a CA in ", kAuthorityFile,
      ", got: ", X509_verify_cert_error_string(X509_STORE_CTX_get_error(verification.get())),
      "; capstan keys makes both"));
}

absl::Status CheckIsServers(const std::string& path, X509& certificate) {
  if (X509_check_purpose(&certificate, X509_PURPOSE_SSL_SERVER, /*ca=*/0) == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected a certificate for a server, got one for clients alone, as ",
                   "capstan keys --right makes them; take a folder made without --right"));
}

}  // namespace

absl::StatusOr<TlsKeys> ReadTlsKeys(const std::string& dir, absl::Time now, TlsRole role) {
  const std::string certificate_path = absl::StrCat(dir, "/", kCertificateFile);
  const std::string key_path = absl::StrCat(dir, "/", kPrivateKeyFile);
  const std::string authority_path = absl::StrCat(dir, "/", kAuthorityFile);
  ASSIGN_OR_RETURN(const std::string certificate_pem, ReadKeyFile(dir, kCertificateFile));
  ASSIGN_OR_RETURN(const std::string key_pem, ReadKeyFile(dir, kPrivateKeyFile));
  ASSIGN_OR_RETURN(std::string authority_pem, ReadKeyFile(dir, kAuthorityFile));
  ASSIGN_OR_RETURN(const auto chain, CertificatesOf(certificate_path, certificate_pem));
  ASSIGN_OR_RETURN(const auto authorities, CertificatesOf(authority_path, authority_pem));
  RETURN_IF_ERROR(CheckPrivateKey(key_path, key_pem, chain.front().get()));
  RETURN_IF_ERROR(CheckValidity(certificate_path, chain.front().get(), now));
  RETURN_IF_ERROR(CheckChain(dir, chain, authorities, now));
  if (role == TlsRole::kServer) RETURN_IF_ERROR(CheckIsServers(certificate_path, *chain.front()));
  return TlsKeys{absl::StrCat(key_pem, "\n", certificate_pem), std::move(authority_pem)};
}

absl::StatusOr<JobTokens> ReadTokens(const std::string& dir) {
  ASSIGN_OR_RETURN(const std::string text, ReadKeyFile(dir, kTokenFile));
  absl::StatusOr<JobTokens> tokens = JobTokens::Parse(text);
  if (tokens.ok()) return tokens;
  return absl::InvalidArgumentError(
      absl::StrCat(dir, "/", kTokenFile, ": ", tokens.status().message(), kRemedy));
}

absl::StatusOr<std::string> ReadKeyFile(const std::string& dir, const std::string& name) {
  const std::string path = absl::StrCat(dir, "/", name);
  absl::StatusOr<std::string> text = ReadInputText(path, kLongestFile);
  if (text.ok()) return text;
  const absl::string_view why = text.status().message();
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat("expected the file ", path, ": ", why, kRemedy));
  }
  if (absl::IsUnavailable(text.status())) {
    return absl::UnavailableError(
        absl::StrCat("cannot read ", path, ": ", why, "; expected a file that this user may read"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected a file of at most ", kLongestFile, " bytes, but ", why));
}

std::string WarningOfOpenKeys(const std::string& dir) {
  const auto lets_others = [](const std::string& path, mode_t right) {
    struct stat about;
    return stat(path.c_str(), &about) == 0 && (about.st_mode & right) != 0;
  };
  std::vector<std::string> open;
  for (const char* name : {kTokenFile, kPrivateKeyFile}) {
    std::string path = absl::StrCat(dir, "/", name);
    if (lets_others(path, S_IROTH)) open.push_back(std::move(path));
  }
  // Nobody gets to the files of a folder that is closed.
  if (open.empty() || !lets_others(dir, S_IXOTH)) return "";
  const std::string paths = absl::StrJoin(open, " ");
  return absl::StrCat("every user of this machine can read ", absl::StrJoin(open, " and "),
                      ", and so do in the job what this program may do. Call chmod o-r ", paths,
                      ". If others may have read them, make a new folder of keys: capstan keys");
}

}  // namespace capstan
