#include "common/trust/make_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "common/trust/job_token.h"
#include "common/trust/openssl_objects.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const absl::Time kBegin = absl::FromUnixSeconds(1'700'000'000);
// After 2049 a certificate has its times in another format.
const absl::Time kEnd = absl::FromUnixSeconds(2'700'000'000);

KeyPair Authority(const std::string& name = "CA of a test") {
  return MakeAuthority(name, kBegin, kEnd).value();
}

CertificateSpec ServerSpec() {
  return {"a server", {"node_1.example.org", "*.b.example.org", "10.0.0.1", "::1"}, kBegin, kEnd};
}

CertificateSpec ClientSpec() { return {"a client", {}, kBegin, kEnd, /*is_server=*/false}; }

CertificatePointer Parse(const KeyPair& keys) {
  return std::move(ParseCertificates(keys.certificate).at(0));
}

// 0 if a process that trusts `authority` takes the certificate for a server's, or for a client's;
// else OpenSSL's code. `purpose` is X509_PURPOSE_SSL_SERVER or X509_PURPOSE_SSL_CLIENT.
int Verify(const KeyPair& authority, const KeyPair& keys, int purpose) {
  const StorePointer store(X509_STORE_new());
  X509_STORE_add_cert(store.get(), Parse(authority).get());
  const CertificatePointer certificate = Parse(keys);
  const VerificationPointer verification(X509_STORE_CTX_new());
  X509_STORE_CTX_init(verification.get(), store.get(), certificate.get(), nullptr);
  X509_STORE_CTX_set_time(verification.get(), 0, absl::ToTimeT(kBegin + absl::Hours(1)));
  X509_STORE_CTX_set_purpose(verification.get(), purpose);
  const int error = X509_verify_cert(verification.get()) == 1
                        ? X509_V_OK
                        : X509_STORE_CTX_get_error(verification.get());
  ERR_clear_error();
  return error;
}

std::string ErrorOf(const absl::StatusOr<KeyPair>& made) {
  EXPECT_TRUE(absl::IsInvalidArgument(made.status())) << made.status();
  return std::string(made.status().message());
}

TEST(MakeKeysTest, AnAuthorityMaySignCertificatesOfMembersAndNothingElse) {
  const CertificatePointer authority = Parse(Authority());
  EXPECT_EQ(X509_check_ca(authority.get()), 1);
  EXPECT_EQ(X509_get_key_usage(authority.get()),
            static_cast<uint32_t>(X509v3_KU_KEY_CERT_SIGN | X509v3_KU_CRL_SIGN));
  EXPECT_EQ(X509_get_pathlen(authority.get()), 0);
  for (const int id : {NID_basic_constraints, NID_key_usage}) {
    const int index = X509_get_ext_by_NID(authority.get(), id, -1);
    ASSERT_GE(index, 0);
    EXPECT_EQ(X509_EXTENSION_get_critical(X509_get_ext(authority.get(), index)), 1);
  }
}

TEST(MakeKeysTest, KeysAreOfTheCurveP256AndFitTheirCertificates) {
  const KeyPair authority = Authority();
  const KeyPair server = MakeCertificate(authority, ServerSpec()).value();
  for (const KeyPair& keys : {authority, server}) {
    const PrivateKeyPointer key = ParsePrivateKey(keys.private_key);
    ASSERT_NE(key, nullptr);
    char group[32] = "";
    EXPECT_EQ(EVP_PKEY_get_group_name(key.get(), group, sizeof(group), nullptr), 1);
    EXPECT_STREQ(group, "prime256v1");
    EXPECT_TRUE(IsKeyOf(Parse(keys).get(), key.get()));
    EXPECT_THAT(keys.private_key, HasSubstr("-----BEGIN PRIVATE KEY-----"));
    EXPECT_THAT(keys.certificate, Not(HasSubstr("PRIVATE")));
  }
  EXPECT_NE(authority.private_key, server.private_key);
}

TEST(MakeKeysTest, AServersCertificateServesBothSides) {
  const KeyPair authority = Authority();
  const KeyPair server = MakeCertificate(authority, ServerSpec()).value();
  EXPECT_EQ(Verify(authority, server, X509_PURPOSE_SSL_SERVER), X509_V_OK);
  EXPECT_EQ(Verify(authority, server, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
}

TEST(MakeKeysTest, AClientCannotPoseAsAServer) {
  const KeyPair authority = Authority();
  const KeyPair client = MakeCertificate(authority, ClientSpec()).value();
  EXPECT_EQ(Verify(authority, client, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
  EXPECT_EQ(Verify(authority, client, X509_PURPOSE_SSL_SERVER), X509_V_ERR_INVALID_PURPOSE);
  EXPECT_LT(X509_get_ext_by_NID(Parse(client).get(), NID_subject_alt_name, -1), 0);
}

TEST(MakeKeysTest, AMemberIsNoAuthority) {
  const KeyPair server = MakeCertificate(Authority(), ServerSpec()).value();
  EXPECT_EQ(X509_check_ca(Parse(server).get()), 0);
  EXPECT_THAT(ErrorOf(MakeCertificate(server, ClientSpec())),
              HasSubstr("expected the certificate of a CA"));
}

TEST(MakeKeysTest, AnotherAuthorityOfTheSameNameIsNotTrusted) {
  const KeyPair server = MakeCertificate(Authority(), ServerSpec()).value();
  EXPECT_NE(Verify(Authority(), server, X509_PURPOSE_SSL_SERVER), X509_V_OK);
}

TEST(MakeKeysTest, ACertificateIsForItsHostsAlone) {
  const KeyPair server = MakeCertificate(Authority(), ServerSpec()).value();
  const CertificatePointer certificate = Parse(server);
  const auto is_host = [&](const char* host) {
    return X509_check_host(certificate.get(), host, 0, 0, nullptr) == 1;
  };
  const auto is_address = [&](const char* address) {
    return X509_check_ip_asc(certificate.get(), address, 0) == 1;
  };
  EXPECT_TRUE(is_host("node_1.example.org"));
  EXPECT_TRUE(is_host("any.b.example.org"));
  EXPECT_FALSE(is_host("a.any.b.example.org"));
  EXPECT_FALSE(is_host("other.example.org"));
  EXPECT_FALSE(is_host("10.0.0.1"));
  EXPECT_TRUE(is_address("10.0.0.1"));
  EXPECT_TRUE(is_address("0:0:0:0:0:0:0:1"));
  EXPECT_FALSE(is_address("10.0.0.2"));
}

TEST(MakeKeysTest, ADescriptionSaysWhatTheCertificateWasMadeFor) {
  const KeyPair authority = Authority();
  for (const CertificateSpec& spec : {ServerSpec(), ClientSpec()}) {
    const KeyPair keys = MakeCertificate(authority, spec).value();
    const CertificateSpec described = DescribeCertificate(keys.certificate).value();
    EXPECT_EQ(described.name, spec.name);
    EXPECT_EQ(described.hosts, spec.hosts);
    EXPECT_EQ(described.begin, kBegin);
    EXPECT_EQ(described.end, kEnd);
    EXPECT_EQ(described.is_server, spec.is_server);
  }
}

TEST(MakeKeysTest, TheAuthorityDescribedIsTheOneThatSigns) {
  const KeyPair authority = MakeAuthority("the signer", kBegin, kEnd - absl::Hours(1)).value();
  const KeyPair both = {Authority("another").certificate + authority.certificate,
                        authority.private_key};
  const CertificateSpec described = DescribeAuthority(both).value();
  EXPECT_EQ(described.name, "the signer");
  EXPECT_EQ(described.end, kEnd - absl::Hours(1));
  EXPECT_THAT(described.hosts, IsEmpty());
  EXPECT_TRUE(absl::IsInvalidArgument(
      DescribeAuthority({Authority().certificate, authority.private_key}).status()));
}

TEST(MakeKeysTest, WithoutACertificateThereIsNoDescription) {
  for (const std::string& text : {std::string(), std::string("garbage"), Authority().private_key}) {
    EXPECT_EQ(DescribeCertificate(text).status(),
              absl::InvalidArgumentError("expected a certificate in PEM, got none"));
  }
}

TEST(MakeKeysTest, SerialNumbersAreRandomPositiveAndOfOneLength) {
  const KeyPair authority = Authority();
  std::set<std::string> serials;
  for (int i = 0; i < 20; ++i) {
    const CertificatePointer certificate = Parse(MakeCertificate(authority, ClientSpec()).value());
    const ASN1_INTEGER* const serial = X509_get0_serialNumber(certificate.get());
    EXPECT_EQ(ASN1_STRING_type(serial), V_ASN1_INTEGER);  // not V_ASN1_NEG_INTEGER
    ASSERT_EQ(ASN1_STRING_length(serial), 16);
    serials.emplace(reinterpret_cast<const char*>(ASN1_STRING_get0_data(serial)), 16);
  }
  EXPECT_EQ(serials.size(), 20u);
}

TEST(MakeKeysTest, OfSeveralAuthoritiesTheOneOfThePrivateKeySigns) {
  const KeyPair authority = Authority();
  const KeyPair both = {Authority("another").certificate + authority.certificate,
                        authority.private_key};
  const KeyPair client = MakeCertificate(both, ClientSpec()).value();
  EXPECT_EQ(Verify(authority, client, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
}

TEST(MakeKeysTest, WithoutAnAuthoritysKeysThereIsNoCertificate) {
  const KeyPair authority = Authority();
  EXPECT_THAT(ErrorOf(MakeCertificate({authority.certificate, "garbage"}, ServerSpec())),
              HasSubstr("expected a CA's private key in PEM without a passphrase"));
  for (const std::string& certificate : {std::string("garbage"), Authority().certificate}) {
    EXPECT_THAT(ErrorOf(MakeCertificate({certificate, authority.private_key}, ServerSpec())),
                HasSubstr("expected the certificate of the CA's private key"));
  }
}

TEST(MakeKeysTest, AServerHasHostsAndAClientHasNone) {
  const KeyPair authority = Authority();
  CertificateSpec server = ServerSpec();
  server.hosts.clear();
  EXPECT_THAT(ErrorOf(MakeCertificate(authority, server)), HasSubstr("a server's hosts, got none"));
  CertificateSpec client = ClientSpec();
  client.hosts = {"node.example.org"};
  EXPECT_THAT(ErrorOf(MakeCertificate(authority, client)), HasSubstr("a client without hosts"));
}

TEST(MakeKeysTest, WrongNamesAndTimesAreRefused) {
  EXPECT_THAT(ErrorOf(MakeAuthority("", kBegin, kEnd)), HasSubstr("1 to 64 characters, got 0"));
  EXPECT_THAT(ErrorOf(MakeAuthority(std::string(65, 'x'), kBegin, kEnd)), HasSubstr("got 65"));
  EXPECT_TRUE(MakeAuthority(std::string(64, 'x'), kBegin, kEnd).ok());
  EXPECT_THAT(ErrorOf(MakeAuthority("CA", kBegin, kBegin)), HasSubstr("ends after its begin"));
  EXPECT_THAT(ErrorOf(MakeAuthority("CA", kBegin, absl::InfiniteFuture())),
              HasSubstr("expected a certificate of the years 1970 to 9999"));
  EXPECT_THAT(ErrorOf(MakeAuthority("CA", absl::UnixEpoch() - absl::Seconds(1), kEnd)),
              HasSubstr("the years 1970 to 9999"));
}

TEST(MakeKeysTest, WhatIsNoHostIsRefused) {
  for (const char* const host : {"localhost", "a", "node-1.b_c.example.org", "*.example.org", "1a",
                                 "4.example.org", "10.0.0.1", "::1", "fe80::1"}) {
    EXPECT_TRUE(CheckHost(host).ok()) << host;
  }
  for (const std::string& host :
       {std::string(), std::string("a b"), std::string("a."), std::string(".a"), std::string("*"),
        std::string("*.org"), std::string("*.a_b.org"), std::string("a.*.org"),
        std::string("a*.b.org"), std::string("-a"), std::string("a-"), std::string("a:4000"),
        std::string("[::1]"), std::string("10.0.0.256"), std::string("10.0.0"),
        std::string("ä.org"), std::string(64, 'a') + ".org", std::string("a\0b", 3),
        absl::StrCat("10.0.0.1", std::string(1, '\0'))}) {
    EXPECT_THAT(std::string(CheckHost(host).message()),
                HasSubstr("expected a host such as node.example.org"))
        << host;
    CertificateSpec spec = ServerSpec();
    spec.hosts.push_back(host);
    EXPECT_FALSE(MakeCertificate(Authority(), spec).ok()) << host;
  }
  EXPECT_EQ(CheckHost("a\x1b"),
            absl::InvalidArgumentError("expected a host such as node.example.org, *.example.org, "
                                       "10.0.0.1 or ::1, got \"a\\x1b\""));
}

}  // namespace
}  // namespace capstan
