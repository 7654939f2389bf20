#include "common/trust/make_keys.h"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/trust/job_token.h"
#include "common/trust/openssl_objects.h"

namespace capstan {
namespace {

using SerialPointer = OpensslPointer<BIGNUM, BN_free>;
using HostNamesPointer = OpensslPointer<GENERAL_NAMES, GENERAL_NAMES_free>;
using HostNamePointer = OpensslPointer<GENERAL_NAME, GENERAL_NAME_free>;

constexpr size_t kSerialBytes = 16;
constexpr size_t kLongestName = 64;  // in characters, as X.509 has it

// An extension of a certificate, and its value as OpenSSL's configuration files have it.
struct Extension {
  int id;
  const char* value;
};
constexpr Extension kOfAuthorities[] = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                        {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                        {NID_subject_key_identifier, "hash"}};
constexpr Extension kOfMembers[] = {{NID_basic_constraints, "critical,CA:FALSE"},
                                    {NID_key_usage, "critical,digitalSignature"},
                                    {NID_subject_key_identifier, "hash"},
                                    {NID_authority_key_identifier, "keyid:always"}};
constexpr Extension kOfServers[] = {{NID_ext_key_usage, "serverAuth,clientAuth"}};
constexpr Extension kOfClients[] = {{NID_ext_key_usage, "clientAuth"}};

// The error when OpenSSL cannot do `what`.
absl::Status Failure(absl::string_view what) {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return absl::InternalError(absl::StrCat("OpenSSL cannot make ", what, ": ",
                                          reason == nullptr ? "it gives no reason" : reason));
}

// The bytes of an IP address; empty: `host` is none.
std::string AddressBytes(const std::string& host) {
  if (host.find('\0') != host.npos) return "";  // inet_pton would read only what is before it
  for (const auto& [family, size] : {std::pair(AF_INET, 4), std::pair(AF_INET6, 16)}) {
    std::string bytes(size, '\0');
    if (inet_pton(family, host.c_str(), &bytes[0]) == 1) return bytes;
  }
  return "";
}

// Empty: the bytes are no IP address.
std::string AddressText(absl::string_view bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  if (bytes.size() == 4) inet_ntop(AF_INET, bytes.data(), text, sizeof(text));
  if (bytes.size() == 16) inet_ntop(AF_INET6, bytes.data(), text, sizeof(text));
  return text;
}

bool IsLabel(absl::string_view label) {
  constexpr size_t kLongestLabel = 63;
  return !label.empty() && label.size() <= kLongestLabel && label.front() != '-' &&
         label.back() != '-' && std::all_of(label.begin(), label.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_';
         });
}

bool IsDnsName(absl::string_view host) {
  constexpr size_t kLongestHost = 253;
  const bool is_wildcard = absl::ConsumePrefix(&host, "*.");
  const std::vector<absl::string_view> labels = absl::StrSplit(host, '.');
  if (host.size() > kLongestHost) return false;
  // OpenSSL matches no host with *.org, and none with a_b.org behind the star.
  if (is_wildcard && (labels.size() < 2 || absl::StrContains(host, "_"))) return false;
  // A mistyped IP address is no name.
  const absl::string_view last = labels.back();
  if (std::all_of(last.begin(), last.end(), absl::ascii_isdigit)) return false;
  return std::all_of(labels.begin(), labels.end(), IsLabel);
}

absl::Status AddExtensions(absl::Span<const Extension> extensions, X509* issuer,
                           X509* certificate) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  for (const Extension& extension : extensions) {
    const OpensslPointer<X509_EXTENSION, X509_EXTENSION_free> made(
        X509V3_EXT_conf_nid(nullptr, &context, extension.id, extension.value));
    if (made == nullptr || X509_add_ext(certificate, made.get(), -1) != 1) {
      return Failure(absl::StrCat("the extension ", extension.value));
    }
  }
  return absl::OkStatus();
}

absl::Status AddHost(const std::string& host, GENERAL_NAMES* names) {
  const std::string address = AddressBytes(host);
  const std::string& bytes = address.empty() ? host : address;
  ASN1_STRING* const value =
      ASN1_STRING_type_new(address.empty() ? V_ASN1_IA5STRING : V_ASN1_OCTET_STRING);
  HostNamePointer name(GENERAL_NAME_new());
  if (value == nullptr || name == nullptr) return Failure("a host's name");
  GENERAL_NAME_set0_value(name.get(), address.empty() ? GEN_DNS : GEN_IPADD, value);
  if (ASN1_STRING_set(value, bytes.data(), static_cast<int>(bytes.size())) != 1 ||
      sk_GENERAL_NAME_push(names, name.get()) == 0) {
    return Failure("a host's name");
  }
  static_cast<void>(name.release());  // `names` owns it now
  return absl::OkStatus();
}

absl::Status AddHosts(const std::vector<std::string>& hosts, X509* certificate) {
  const HostNamesPointer names(GENERAL_NAMES_new());
  for (const std::string& host : hosts) {
    RETURN_IF_ERROR(CheckHost(host));
    RETURN_IF_ERROR(AddHost(host, names.get()));
  }
  const int added = X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(),
                                      /*crit=*/0, X509V3_ADD_DEFAULT);
  return added == 1 ? absl::OkStatus() : Failure("a list of hosts");
}

bool SetSerial(X509* certificate) {
  std::string bytes = RandomBytes(kSerialBytes);
  bytes[0] = static_cast<char>((bytes[0] & 0x3f) | 0x40);  // positive, and always of one length
  const SerialPointer serial(
      BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()), kSerialBytes, nullptr));
  return serial != nullptr &&
         BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) != nullptr;
}

absl::Status CheckSpec(const CertificateSpec& spec) {
  if (spec.name.empty() || spec.name.size() > kLongestName) {
    return absl::InvalidArgumentError(absl::StrCat("expected a certificate's name of 1 to ",
                                                   kLongestName, " characters, got ",
                                                   spec.name.size()));
  }
  if (spec.begin >= spec.end) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a certificate that ends after its begin, ",
                     absl::FormatTime(spec.begin), ", got the end ", absl::FormatTime(spec.end)));
  }
  // X.509 has four digits for a year.
  const auto year = [](absl::Time time) { return absl::ToCivilYear(time, absl::UTCTimeZone()); };
  if (year(spec.begin) < absl::CivilYear(1970) || year(spec.end) > absl::CivilYear(9999)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a certificate of the years 1970 to 9999, got one from ",
                     absl::FormatTime(spec.begin), " to ", absl::FormatTime(spec.end)));
  }
  return absl::OkStatus();
}

// A certificate of `key` that has no issuer and no extensions yet.
absl::StatusOr<CertificatePointer> BeginCertificate(const CertificateSpec& spec, EVP_PKEY* key) {
  RETURN_IF_ERROR(CheckSpec(spec));
  CertificatePointer made(X509_new());
  X509* const certificate = made.get();
  const auto* const name = reinterpret_cast<const unsigned char*>(spec.name.data());
  if (certificate == nullptr || X509_set_version(certificate, X509_VERSION_3) != 1 ||
      !SetSerial(certificate) || X509_set_pubkey(certificate, key) != 1 ||
      ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(spec.begin)) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(spec.end)) == nullptr ||
      X509_NAME_add_entry_by_NID(X509_get_subject_name(certificate), NID_commonName, MBSTRING_UTF8,
                                 name, static_cast<int>(spec.name.size()), -1, 0) != 1) {
    return Failure("a certificate");
  }
  return made;
}

absl::StatusOr<PrivateKeyPointer> MakePrivateKey() {
  PrivateKeyPointer key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failure("a private key");
  return key;
}

// Signs the certificate and returns it with its key.
absl::StatusOr<KeyPair> Sign(X509* certificate, EVP_PKEY* key, X509* issuer, EVP_PKEY* signer) {
  const BioPointer certificate_pem(BIO_new(BIO_s_mem()));
  const BioPointer key_pem(BIO_new(BIO_s_mem()));
  if (X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) != 1 ||
      X509_sign(certificate, signer, EVP_sha256()) == 0 ||
      PEM_write_bio_X509(certificate_pem.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_pem.get(), key, nullptr, nullptr, 0, nullptr, nullptr) !=
          1) {
    return Failure("a signed certificate");
  }
  const auto text = [](BIO* pem) {
    char* begin = nullptr;
    const int64_t size = BIO_get_mem_data(pem, &begin);
    return std::string(begin, static_cast<size_t>(size));
  };
  return KeyPair{text(certificate_pem.get()), text(key_pem.get())};
}

// The certificate of `key` among those of `authority`.
absl::StatusOr<CertificatePointer> AuthorityOf(const KeyPair& authority, EVP_PKEY* key) {
  for (CertificatePointer& candidate : ParseCertificates(authority.certificate)) {
    if (key == nullptr || !IsKeyOf(candidate.get(), key)) continue;
    if (X509_check_ca(candidate.get()) == 1) return std::move(candidate);
    return absl::InvalidArgumentError("expected the certificate of a CA, got one of a member");
  }
  return absl::InvalidArgumentError(
      key == nullptr ? "expected a CA's private key in PEM without a passphrase, got none"
                     : "expected the certificate of the CA's private key, got none");
}

std::vector<std::string> HostsOf(X509* certificate) {
  std::vector<std::string> hosts;
  const HostNamesPointer names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int type = 0;
    const auto* const value = static_cast<const ASN1_STRING*>(
        GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &type));
    if (type != GEN_DNS && type != GEN_IPADD) continue;
    const std::string bytes(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                            static_cast<size_t>(ASN1_STRING_length(value)));
    hosts.push_back(type == GEN_DNS ? bytes : AddressText(bytes));
  }
  return hosts;
}

CertificateSpec Describe(X509* certificate) {
  CertificateSpec spec;
  char name[4 * kLongestName + 1] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof(name));
  spec.name = name;
  spec.begin = TimeOf(X509_get0_notBefore(certificate));
  spec.end = TimeOf(X509_get0_notAfter(certificate));
  spec.is_server = (X509_get_extended_key_usage(certificate) & XKU_SSL_SERVER) != 0;
  spec.hosts = HostsOf(certificate);
  ERR_clear_error();
  return spec;
}

}  // namespace

absl::StatusOr<KeyPair> MakeAuthority(const std::string& name, absl::Time begin, absl::Time end) {
  ASSIGN_OR_RETURN(const PrivateKeyPointer key, MakePrivateKey());
  ASSIGN_OR_RETURN(const CertificatePointer certificate,
                   BeginCertificate({name, {}, begin, end, false}, key.get()));
  RETURN_IF_ERROR(AddExtensions(kOfAuthorities, certificate.get(), certificate.get()));
  return Sign(certificate.get(), key.get(), certificate.get(), key.get());
}

absl::StatusOr<KeyPair> MakeCertificate(const KeyPair& authority, const CertificateSpec& spec) {
  if (spec.is_server == spec.hosts.empty()) {
    return absl::InvalidArgumentError(spec.is_server ? "expected a server's hosts, got none"
                                                     : "expected a client without hosts, got some");
  }
  const PrivateKeyPointer signer = ParsePrivateKey(authority.private_key);
  ASSIGN_OR_RETURN(const CertificatePointer issuer, AuthorityOf(authority, signer.get()));
  ASSIGN_OR_RETURN(const PrivateKeyPointer key, MakePrivateKey());
  ASSIGN_OR_RETURN(const CertificatePointer certificate, BeginCertificate(spec, key.get()));
  RETURN_IF_ERROR(AddExtensions(kOfMembers, issuer.get(), certificate.get()));
  RETURN_IF_ERROR(AddExtensions(spec.is_server ? absl::MakeSpan(kOfServers) : kOfClients,
                                issuer.get(), certificate.get()));
  if (spec.is_server) RETURN_IF_ERROR(AddHosts(spec.hosts, certificate.get()));
  return Sign(certificate.get(), key.get(), issuer.get(), signer.get());
}

absl::StatusOr<CertificateSpec> DescribeCertificate(const std::string& pem) {
  const std::vector<CertificatePointer> certificates = ParseCertificates(pem);
  if (!certificates.empty()) return Describe(certificates.front().get());
  return absl::InvalidArgumentError("expected a certificate in PEM, got none");
}

absl::StatusOr<CertificateSpec> DescribeAuthority(const KeyPair& authority) {
  const PrivateKeyPointer key = ParsePrivateKey(authority.private_key);
  ASSIGN_OR_RETURN(const CertificatePointer certificate, AuthorityOf(authority, key.get()));
  return Describe(certificate.get());
}

absl::Status CheckHost(const std::string& host) {
  if (!AddressBytes(host).empty() || IsDnsName(host)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected a host such as node.example.org, *.example.org, 10.0.0.1 or ::1, got ",
                   "\"", ShortPrintableText(host), "\""));
}

}  // namespace capstan
