#include "common/trust/job_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/trust/make_keys.h"
#include "common/trust/openssl_objects.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);  // 2023-11-14 22:13:20 UTC
constexpr char kRemedy[] = "; capstan keys makes a folder of keys";

// A folder of right keys, whose files a test may replace.
class JobKeysTest : public testing::Test {
 protected:
  JobKeysTest() {
    std::string folder = testing::TempDir() + "/keys-XXXXXX";
    dir_ = mkdtemp(folder.data());
    Write(kAuthorityFile, authority_.certificate);
    WriteKeys(MakeKeys(authority_, kNow - absl::Hours(1), kNow + absl::Hours(1)));
  }

  static KeyPair MakeKeys(const KeyPair& authority, absl::Time begin, absl::Time end) {
    return MakeCertificate(authority, {"a server", {"localhost"}, begin, end}).value();
  }
  static KeyPair NewAuthority() {
    return MakeAuthority("CA", kNow - absl::Hours(1), kNow + absl::Hours(1)).value();
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name), std::ios::binary) << text;
  }
  void WriteKeys(const KeyPair& keys) {
    Write(kCertificateFile, keys.certificate);
    Write(kPrivateKeyFile, keys.private_key);
  }
  std::string Path(const std::string& name) const { return absl::StrCat(dir_, "/", name); }

  // The message of the error, which must have `code`.
  std::string Error(absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    const absl::StatusOr<TlsKeys> keys = ReadTlsKeys(dir_, kNow);
    EXPECT_EQ(keys.status().code(), code) << keys.status();
    return std::string(keys.status().message());
  }
  std::string TokenError(absl::StatusCode code) {
    const absl::StatusOr<JobTokens> tokens = ReadTokens(dir_);
    EXPECT_EQ(tokens.status().code(), code) << tokens.status();
    return std::string(tokens.status().message());
  }

  const KeyPair authority_ = NewAuthority();
  std::string dir_;
};

TEST_F(JobKeysTest, RightKeysAreRead) {
  const KeyPair keys = MakeKeys(authority_, kNow - absl::Hours(1), kNow + absl::Hours(1));
  WriteKeys(keys);
  const absl::StatusOr<TlsKeys> read = ReadTlsKeys(dir_, kNow);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->identity, AllOf(HasSubstr(keys.private_key), HasSubstr(keys.certificate)));
  EXPECT_EQ(read->authorities, authority_.certificate);
}

TEST_F(JobKeysTest, ACertificateIsValidFromItsBeginUntilItsEnd) {
  EXPECT_TRUE(ReadTlsKeys(dir_, kNow - absl::Hours(1)).ok());
  EXPECT_TRUE(ReadTlsKeys(dir_, kNow + absl::Hours(1) - absl::Seconds(1)).ok());
  EXPECT_THAT(std::string(ReadTlsKeys(dir_, kNow + absl::Hours(1)).status().message()),
              HasSubstr("got one that expired at"));
}

TEST_F(JobKeysTest, AnyOfSeveralAuthoritiesMayHaveSigned) {
  Write(kAuthorityFile, NewAuthority().certificate + authority_.certificate);
  EXPECT_TRUE(ReadTlsKeys(dir_, kNow).ok());
}

TEST_F(JobKeysTest, AMissingFileIsNamedWithTheRemedy) {
  for (const char* const name : {kCertificateFile, kPrivateKeyFile, kAuthorityFile}) {
    const std::string kept = Path(name) + ".kept";
    fs::rename(Path(name), kept);
    EXPECT_EQ(
        Error(absl::StatusCode::kNotFound),
        absl::StrCat("expected the file ", Path(name), ": No such file or directory", kRemedy));
    fs::rename(kept, Path(name));
  }
}

TEST_F(JobKeysTest, AMissingFolderIsNamedWithTheRemedy) {
  dir_ += "/none";
  EXPECT_THAT(Error(absl::StatusCode::kNotFound), AllOf(HasSubstr(dir_), EndsWith(kRemedy)));
  EXPECT_THAT(TokenError(absl::StatusCode::kNotFound), AllOf(HasSubstr(dir_), EndsWith(kRemedy)));
}

TEST_F(JobKeysTest, AFolderInPlaceOfAFileIsRefused) {
  fs::remove(Path(kPrivateKeyFile));
  fs::create_directory(Path(kPrivateKeyFile));
  EXPECT_EQ(Error(), absl::StrCat(Path(kPrivateKeyFile),
                                  ": expected a file of at most 262144 bytes, but it "
                                  "is a folder: give the file in it"));
}

// A pipe must not block the process.
TEST_F(JobKeysTest, APipeInPlaceOfAFileIsRefused) {
  ASSERT_EQ(mkfifo(Path(kTokenFile).c_str(), 0600), 0);
  EXPECT_THAT(TokenError(absl::StatusCode::kInvalidArgument), HasSubstr("but it is a pipe, "));
}

TEST_F(JobKeysTest, AFileInPlaceOfTheFolderIsRefused) {
  dir_ = Path(kAuthorityFile);
  EXPECT_THAT(Error(absl::StatusCode::kUnavailable), HasSubstr("Not a directory"));
}

// Editors of Windows put them there.
TEST_F(JobKeysTest, ByteOrderMarksAreNoPartOfTheKeys) {
  const std::string mark = "\xEF\xBB\xBF";
  const KeyPair keys = MakeKeys(authority_, kNow - absl::Hours(1), kNow + absl::Hours(1));
  WriteKeys({mark + keys.certificate, mark + keys.private_key});
  Write(kAuthorityFile, mark + authority_.certificate);
  Write(kTokenFile, mark + std::string(64, 'a') + "\r\n");
  const absl::StatusOr<TlsKeys> read = ReadTlsKeys(dir_, kNow);
  EXPECT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(ReadTokens(dir_).ok()) << ReadTokens(dir_).status();
}

TEST_F(JobKeysTest, SecretsThatEveryUserCanReadAreNamed) {
  Write(kTokenFile, "secret");
  fs::permissions(dir_, fs::perms(0755));
  fs::permissions(Path(kTokenFile), fs::perms(0640));
  fs::permissions(Path(kPrivateKeyFile), fs::perms(0600));
  EXPECT_EQ(WarningOfOpenKeys(dir_), "");
  fs::permissions(Path(kTokenFile), fs::perms(0644));
  EXPECT_THAT(
      WarningOfOpenKeys(dir_),
      AllOf(HasSubstr("can read " + Path(kTokenFile) + ", and so"),
            HasSubstr("Call chmod o-r " + Path(kTokenFile) + ". If"), HasSubstr("capstan keys")));
  fs::permissions(Path(kPrivateKeyFile), fs::perms(0604));
  EXPECT_THAT(WarningOfOpenKeys(dir_),
              HasSubstr(Path(kTokenFile) + " and " + Path(kPrivateKeyFile)));
  fs::permissions(dir_, fs::perms(0700));
  EXPECT_EQ(WarningOfOpenKeys(dir_), "") << "nobody else gets there";
}

TEST_F(JobKeysTest, ALinkToAFileIsFollowed) {
  fs::rename(Path(kCertificateFile), Path("linked"));
  fs::create_symlink("linked", Path(kCertificateFile));
  EXPECT_TRUE(ReadTlsKeys(dir_, kNow).ok());
}

TEST_F(JobKeysTest, AHugeFileIsRefused) {
  Write(kAuthorityFile, authority_.certificate + std::string(256 << 10, '\n'));
  EXPECT_EQ(Error(),
            absl::StrCat(Path(kAuthorityFile),
                         ": expected a file of at most 262144 bytes, but it has more than 262144 "
                         "bytes: is it the right one?"));
}

TEST_F(JobKeysTest, AFileThatThisUserMayNotReadIsNamed) {
  fs::permissions(Path(kPrivateKeyFile), fs::perms::none);
  if (access(Path(kPrivateKeyFile).c_str(), R_OK) == 0) {
    EXPECT_TRUE(ReadTlsKeys(dir_, kNow).ok()) << "root may read everything";
    return;
  }
  EXPECT_EQ(Error(absl::StatusCode::kUnavailable),
            absl::StrCat("cannot read ", Path(kPrivateKeyFile),
                         ": Permission denied; expected a file that this user may read"));
}

TEST_F(JobKeysTest, GarbageIsNoCertificate) {
  for (const char* const name : {kCertificateFile, kAuthorityFile}) {
    std::ifstream file(Path(name));
    const std::string kept{std::istreambuf_iterator<char>(file), {}};
    for (const std::string& garbage :
         {std::string(), std::string("garbage\0\xff", 9), kept.substr(0, kept.size() / 2),
          std::string("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")}) {
      Write(name, garbage);
      EXPECT_EQ(Error(),
                absl::StrCat(Path(name), ": expected certificates in PEM, got none", kRemedy));
    }
    Write(name, kept);
  }
  EXPECT_TRUE(ReadTlsKeys(dir_, kNow).ok());
}

TEST_F(JobKeysTest, GarbageIsNoPrivateKeyAndItsTextIsNotRepeated) {
  Write(kPrivateKeyFile, "some-secret");
  EXPECT_EQ(Error(), absl::StrCat(Path(kPrivateKeyFile),
                                  ": expected a private key in PEM without a passphrase, got none",
                                  kRemedy));
}

TEST_F(JobKeysTest, AKeyWithAPassphraseIsRefusedWithoutAQuestion) {
  const PrivateKeyPointer key = ParsePrivateKey(authority_.private_key);
  const BioPointer pem(BIO_new(BIO_s_mem()));
  ASSERT_EQ(PEM_write_bio_PKCS8PrivateKey(pem.get(), key.get(), EVP_aes_256_cbc(), "passphrase", 10,
                                          nullptr, nullptr),
            1);
  char* begin = nullptr;
  const int64_t size = BIO_get_mem_data(pem.get(), &begin);
  const std::string text(begin, static_cast<size_t>(size));
  ASSERT_THAT(text, HasSubstr("BEGIN ENCRYPTED PRIVATE KEY"));
  Write(kPrivateKeyFile, text);
  // OpenSSL asks at the terminal. Without one, it asks standard input: here it would get the
  // answer.
  int answers[2];
  ASSERT_EQ(pipe(answers), 0);
  ASSERT_EQ(write(answers[1], "passphrase\n", 11), 11);
  close(answers[1]);
  const int standard_input = dup(STDIN_FILENO);
  ASSERT_EQ(dup2(answers[0], STDIN_FILENO), STDIN_FILENO);
  const std::string error = Error();
  char unread[32];
  EXPECT_EQ(read(answers[0], unread, sizeof(unread)), 11);
  dup2(standard_input, STDIN_FILENO);
  EXPECT_THAT(error, HasSubstr("expected a private key in PEM without a passphrase, got none"));
}

TEST_F(JobKeysTest, AnotherCertificatesKeyIsRefused) {
  Write(kPrivateKeyFile, authority_.private_key);
  EXPECT_EQ(Error(), absl::StrCat(Path(kPrivateKeyFile),
                                  ": expected the private key of the certificate in tls.crt, got "
                                  "another one's",
                                  kRemedy));
}

TEST_F(JobKeysTest, AnExpiredCertificateIsRefusedWithTheRemedy) {
  WriteKeys(MakeKeys(authority_, kNow - absl::Hours(2), kNow));
  EXPECT_EQ(Error(), absl::StrCat(Path(kCertificateFile),
                                  ": expected a certificate that is valid now, got one that "
                                  "expired at 2023-11-14 22:13:20 UTC; make a "
                                  "new one, as by capstan keys"));
}

TEST_F(JobKeysTest, ACertificateOfTheFutureIsRefusedWithTheRemedy) {
  WriteKeys(MakeKeys(authority_, kNow + absl::Seconds(1), kNow + absl::Hours(2)));
  EXPECT_EQ(Error(), absl::StrCat(Path(kCertificateFile),
                                  ": expected a certificate that is valid now, got one that "
                                  "becomes valid at 2023-11-14 22:13:21 UTC; "
                                  "check the clock of this machine"));
}

TEST_F(JobKeysTest, ACertificateOfAnotherAuthorityIsRefused) {
  WriteKeys(MakeKeys(NewAuthority(), kNow - absl::Hours(1), kNow + absl::Hours(1)));
  EXPECT_THAT(Error(), AllOf(StartsWith(absl::StrCat(Path(kCertificateFile),
                                                     ": expected a certificate signed by a CA in "
                                                     "ca.crt, got: ")),
                             EndsWith("; capstan keys makes both")));
}

TEST_F(JobKeysTest, AnExpiredAuthorityIsRefused) {
  const KeyPair expired = MakeAuthority("CA", kNow - absl::Hours(2), kNow - absl::Hours(1)).value();
  Write(kAuthorityFile, expired.certificate);
  WriteKeys(MakeKeys(expired, kNow - absl::Hours(2), kNow + absl::Hours(1)));
  EXPECT_THAT(Error(), AllOf(HasSubstr("expected a certificate signed by a CA in ca.crt"),
                             HasSubstr("certificate has expired")));
}

TEST_F(JobKeysTest, TokensAreRead) {
  const std::string token(16, 't');
  Write(kTokenFile, absl::StrCat(token, "\nthe-second-token-of-this-file\n"));
  const absl::StatusOr<JobTokens> tokens = ReadTokens(dir_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->own(), token);
  EXPECT_NE(tokens->Find("the-second-token-of-this-file"), nullptr);
}

TEST_F(JobKeysTest, AMissingTokenIsNamedWithTheRemedy) {
  EXPECT_EQ(
      TokenError(absl::StatusCode::kNotFound),
      absl::StrCat("expected the file ", Path(kTokenFile), ": No such file or directory", kRemedy));
}

TEST_F(JobKeysTest, AWrongTokenIsRefusedAndNotRepeated) {
  Write(kTokenFile, "some-secret");
  EXPECT_THAT(TokenError(absl::StatusCode::kInvalidArgument),
              AllOf(StartsWith(absl::StrCat(Path(kTokenFile), ": line 1: expected a token of 16")),
                    EndsWith(kRemedy), Not(HasSubstr("secret"))));
}

}  // namespace
}  // namespace capstan
