#include "deploy/cli/keys/keys_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/trust/job_keys.h"
#include "common/trust/make_keys.h"
#include "deploy/cli/keys/member_keys.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);  // 2023-11-14 22:13:20 UTC
constexpr absl::Duration kDay = absl::Hours(24);

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

CertificateSpec CertificateIn(const std::string& dir) {
  return DescribeCertificate(TextOf(dir + "/tls.crt")).value();
}

class KeysCommandTest : public testing::Test {
 protected:
  KeysCommandTest() {
    std::string folder = testing::TempDir() + "/keys-XXXXXX";
    root_ = mkdtemp(folder.data());
    keys_ = root_ + "/keys";
    other_ = root_ + "/other";
  }

  absl::Status Run(const KeysRequest& request, absl::Time now = kNow) {
    out_.str("");
    const absl::Status status = KeysCommand(request, now, out_);
    ExpectNothingSecret(out_.str());
    ExpectNothingSecret(std::string(status.message()));
    return status;
  }
  absl::Status Make(std::vector<std::string> hosts = {}, absl::Time now = kNow, int days = 365) {
    return Run({keys_, "", std::nullopt, std::move(hosts), days}, now);
  }
  absl::Status PassOn(Right right) { return Run({other_, keys_, right, {}}); }
  absl::Status PassOn(std::vector<std::string> hosts) {
    return Run({other_, keys_, std::nullopt, std::move(hosts)});
  }
  // The message of an error that is FAILED_PRECONDITION.
  std::string Refused(const absl::Status& status) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(out_.str(), "");
    return std::string(status.message());
  }

  std::string Text(const std::string& name) const { return TextOf(keys_ + "/" + name); }
  void Write(const std::string& dir, const std::string& name, const std::string& text) {
    fs::create_directories(dir);
    std::ofstream(dir + "/" + name) << text;
  }
  // Whether processes can work with the folder.
  void ExpectRight(const std::string& dir, absl::Time now = kNow) {
    const absl::Status tls = ReadTlsKeys(dir, now).status();
    EXPECT_TRUE(tls.ok()) << tls;
    const absl::Status tokens = ReadTokens(dir).status();
    EXPECT_TRUE(tokens.ok()) << tokens;
  }

  std::string root_, keys_, other_;
  std::ostringstream out_;

 private:
  // Tokens are printed nowhere, also not the derived ones.
  void ExpectNothingSecret(const std::string& text) {
    for (const std::string& dir : {keys_, other_}) {
      const absl::StatusOr<JobTokens> tokens = ReadTokens(dir);
      if (!tokens.ok()) continue;
      for (const JobTokens::Token& token : tokens->accepted()) {
        EXPECT_THAT(text, Not(HasSubstr(token.text)));
      }
    }
    EXPECT_THAT(text, Not(HasSubstr("PRIVATE KEY")));
  }
};

TEST_F(KeysCommandTest, ANewFolderHasAllThatAJobNeeds) {
  ASSERT_TRUE(Make({"node.example.org", "*.pods.example.org", "10.0.0.1"}).ok());
  EXPECT_THAT(NamesIn(keys_), ElementsAre("ca.crt", "ca.key", "tls.crt", "tls.key", "token"));
  ExpectRight(keys_);
  const CertificateSpec spec = CertificateIn(keys_);
  EXPECT_THAT(spec.hosts, ElementsAre("node.example.org", "*.pods.example.org", "10.0.0.1"));
  EXPECT_TRUE(spec.is_server);
  EXPECT_EQ(spec.end, kNow + 365 * kDay);
  EXPECT_LT(spec.begin, kNow - absl::Minutes(30)) << "clocks differ";
  EXPECT_EQ(out_.str(),
            absl::StrCat(keys_, ": a new CA, a new token, a new certificate and private key\n",
                         "  tls.crt is valid until 2024-11-13 for node.example.org, "
                         "*.pods.example.org, 10.0.0.1\n",
                         "  whoever has ca.key or token may do everything; capstan keys --from "
                         "makes keys with fewer rights\n"));
}

TEST_F(KeysCommandTest, WhatIsPrivateIsForTheOwnerAlone) {
  const mode_t earlier = umask(0);
  const absl::Status made = Make();
  umask(earlier);
  ASSERT_TRUE(made.ok()) << made;
  struct stat about = {};
  for (const char* const name : {"ca.key", "tls.key", "token"}) {
    ASSERT_EQ(stat((keys_ + "/" + name).c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 07777, 0600u) << name;
  }
  ASSERT_EQ(stat(keys_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0700u);
}

TEST_F(KeysCommandTest, WithoutHostsTheCertificateIsForThisMachine) {
  ASSERT_TRUE(Make().ok());
  std::vector<std::string> expected = {"localhost", "127.0.0.1", "::1"};
  char name[256] = "";
  ASSERT_EQ(gethostname(name, sizeof(name) - 1), 0);
  if (CheckHost(name).ok()) expected.emplace_back(name);
  EXPECT_THAT(CertificateIn(keys_).hosts, IsSupersetOf(expected));
}

TEST_F(KeysCommandTest, TheCaIsValidForTenYearsOrAsLongAsTheCertificate) {
  ASSERT_TRUE(Make().ok());
  EXPECT_EQ(DescribeCertificate(Text("ca.crt"))->end, kNow + 3650 * kDay);
  fs::remove_all(keys_);
  ASSERT_TRUE(Make({}, kNow, /*days=*/5000).ok());
  EXPECT_EQ(DescribeCertificate(Text("ca.crt"))->end, kNow + 5000 * kDay);
  EXPECT_EQ(CertificateIn(keys_).end, kNow + 5000 * kDay);
}

TEST_F(KeysCommandTest, TheSecondTimeTheCertificateIsRenewedAndTheRestStays) {
  ASSERT_TRUE(Make({"a.example.org", "::1"}).ok());
  const std::string ca_crt = Text("ca.crt"), ca_key = Text("ca.key"), token = Text("token");
  const std::string tls_crt = Text("tls.crt"), tls_key = Text("tls.key");
  const absl::Time later = kNow + 300 * kDay;
  ASSERT_TRUE(Make({}, later, /*days=*/30).ok());
  ExpectRight(keys_, later + 29 * kDay);
  EXPECT_EQ(Text("ca.crt"), ca_crt);
  EXPECT_EQ(Text("ca.key"), ca_key);
  EXPECT_EQ(Text("token"), token);
  EXPECT_NE(Text("tls.crt"), tls_crt);
  EXPECT_NE(Text("tls.key"), tls_key);
  EXPECT_THAT(CertificateIn(keys_).hosts, ElementsAre("a.example.org", "::1"));
  EXPECT_EQ(out_.str(),
            absl::StrCat(keys_,
                         ": the CA stays, the token stays, a new certificate and private key\n"
                         "  tls.crt is valid until 2024-10-09 for a.example.org, ::1\n"
                         "  running processes read the new keys by themselves\n"));
}

TEST_F(KeysCommandTest, HostsReplaceTheEarlierOnes) {
  ASSERT_TRUE(Make({"a.example.org", "b.example.org"}).ok());
  ASSERT_TRUE(Make({"c.example.org"}).ok());
  EXPECT_THAT(CertificateIn(keys_).hosts, ElementsAre("c.example.org"));
}

TEST_F(KeysCommandTest, AnExpiredCertificateIsRenewed) {
  ASSERT_TRUE(Make({}, kNow, /*days=*/1).ok());
  ASSERT_TRUE(Make({}, kNow + 2 * kDay).ok());
  ExpectRight(keys_, kNow + 2 * kDay);
}

TEST_F(KeysCommandTest, NoCertificateOutlivesItsCa) {
  ASSERT_TRUE(Make({"a"}).ok());
  const absl::Time end = kNow + 3650 * kDay;
  ASSERT_TRUE(Make({}, end - kDay).ok());
  EXPECT_EQ(CertificateIn(keys_).end, end);
  EXPECT_THAT(out_.str(), HasSubstr("valid until 2033-11-11, the end of its CA, for a\n"));
  EXPECT_THAT(Refused(Make({}, end)),
              AllOf(StartsWith(keys_ + "/ca.crt: expected a CA that is valid now (2033-11-11), got "
                                       "one from 2023-11-14 to 2033-11-11"),
                    HasSubstr("make keys in another folder and hand them to everybody")));
  EXPECT_THAT(Refused(Make({}, kNow - kDay)), HasSubstr("check this machine's clock"));
}

TEST_F(KeysCommandTest, CertificatesOfAnotherMakerAreNotTouched) {
  for (const char* const name : {"tls.crt", "tls.key", "ca.crt"}) {
    Write(keys_, name, "of another maker");
    EXPECT_EQ(Refused(Make()),
              absl::StrCat(keys_,
                           ": expected an empty folder, or one with the private key of its CA, "
                           "got ",
                           name,
                           " but no ca.key; choose another folder, or renew these keys where they "
                           "come from"));
    EXPECT_THAT(NamesIn(keys_), ElementsAre(name));
    EXPECT_EQ(Text(name), "of another maker");
    fs::remove_all(keys_);
  }
}

TEST_F(KeysCommandTest, ATokenThatIsThereStays) {
  Write(keys_, "token", "first-token-of-the-file\nsecond-token-of-the-file\n");
  ASSERT_TRUE(Make().ok());
  ExpectRight(keys_);
  EXPECT_EQ(Text("token"), "first-token-of-the-file\nsecond-token-of-the-file\n");
  EXPECT_THAT(out_.str(), HasSubstr("a new CA, the token stays"));
}

TEST_F(KeysCommandTest, AWrongTokenIsRefusedBeforeAnythingIsWritten) {
  Write(keys_, "token", "short");
  const absl::Status status = Make();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith(keys_ + "/token: line 1: expected"));
  EXPECT_THAT(NamesIn(keys_), ElementsAre("token"));
}

// Files get their names in this order. After each, the process may have ended.
TEST_F(KeysCommandTest, AHalfMadeFolderIsRepaired) {
  const std::vector<std::string> order = {"ca.key", "ca.crt", "token", "tls.key", "tls.crt"};
  for (size_t made = 0; made < order.size(); ++made) {
    SCOPED_TRACE(made);
    fs::remove_all(keys_);
    ASSERT_TRUE(Make({"a"}).ok());
    for (size_t i = made; i < order.size(); ++i) {
      fs::rename(keys_ + "/" + order[i], keys_ + "/" + order[i] + ".unfinished");
    }
    const std::string ca_crt = Text("ca.crt"), token = Text("token");
    ASSERT_TRUE(Make({"b"}).ok());
    ExpectRight(keys_);
    EXPECT_THAT(NamesIn(keys_), UnorderedElementsAreArray(order));
    EXPECT_EQ(Text("ca.crt") == ca_crt, made >= 2);
    EXPECT_EQ(Text("token") == token, made >= 3);
  }
}

TEST_F(KeysCommandTest, AKeyThatDoesNotFitItsCertificateIsRepaired) {
  ASSERT_TRUE(Make().ok());
  const std::string tls_key = Text("tls.key");
  ASSERT_TRUE(Make().ok());
  Write(keys_, "tls.key", tls_key);
  EXPECT_FALSE(ReadTlsKeys(keys_, kNow).ok());
  ASSERT_TRUE(Make().ok());
  ExpectRight(keys_);
}

TEST_F(KeysCommandTest, ALostCertificateOfTheCaIsNotReplacedByAnother) {
  ASSERT_TRUE(Make().ok());
  fs::remove(keys_ + "/ca.crt");
  EXPECT_EQ(Refused(Make()),
            absl::StrCat(keys_,
                         ": expected ca.crt beside ca.key, got none; copy it from another folder "
                         "of these keys, or choose another folder"));
}

TEST_F(KeysCommandTest, KeysOfACaThatDoNotFitAreNamed) {
  ASSERT_TRUE(Make().ok());
  Write(keys_, "ca.key", Text("tls.key"));
  const absl::Status status = Make();
  EXPECT_THAT(
      std::string(status.message()),
      StartsWith(absl::StrCat(keys_, "/ca.crt and ", keys_,
                              "/ca.key: expected the certificate of the CA's private key")));
}

TEST_F(KeysCommandTest, ABrokenCertificateNeedsHosts) {
  ASSERT_TRUE(Make().ok());
  Write(keys_, "tls.crt", "garbage");
  EXPECT_EQ(
      Refused(Make()),
      keys_ + "/tls.crt: expected a certificate with hosts, got none; name them with --hosts");
  ASSERT_TRUE(Make({"a"}).ok());
  ExpectRight(keys_);
}

TEST_F(KeysCommandTest, FewerRightsAreAWeakerTokenAndAClientsCertificate) {
  ASSERT_TRUE(Make({"a"}).ok());
  const std::string token = ReadTokens(keys_)->own();
  for (const Right right : kWeakerRights) {
    fs::remove_all(other_);
    ASSERT_TRUE(PassOn(right).ok());
    EXPECT_THAT(NamesIn(other_), ElementsAre("ca.crt", "tls.crt", "tls.key", "token"));
    ExpectRight(other_);
    EXPECT_EQ(TextOf(other_ + "/token"), WeakerToken(token, right) + "\n");
    EXPECT_EQ(TextOf(other_ + "/ca.crt"), Text("ca.crt"));
    EXPECT_FALSE(CertificateIn(other_).is_server);
    EXPECT_EQ(CertificateIn(other_).end, kNow + 365 * kDay);
    EXPECT_EQ(out_.str(),
              absl::StrCat(other_, ": keys for the right ", RightName(right), ", from ", keys_,
                           "\n  tls.crt is valid until 2024-11-13 for a client\n"));
  }
}

TEST_F(KeysCommandTest, AnotherMachineGetsAllTokensAndACertificateOfItsOwn) {
  Write(keys_, "token", "first-token-of-the-file\nsecond-token-of-the-file\n");
  ASSERT_TRUE(Make({"a"}).ok());
  ASSERT_TRUE(PassOn({"b.example.org", "10.0.0.2"}).ok());
  EXPECT_THAT(NamesIn(other_), ElementsAre("ca.crt", "tls.crt", "tls.key", "token"));
  ExpectRight(other_);
  EXPECT_EQ(TextOf(other_ + "/token"), Text("token"));
  EXPECT_TRUE(CertificateIn(other_).is_server);
  EXPECT_THAT(CertificateIn(other_).hosts, ElementsAre("b.example.org", "10.0.0.2"));
  EXPECT_NE(TextOf(other_ + "/tls.key"), Text("tls.key"));
  EXPECT_EQ(out_.str(), absl::StrCat(other_, ": keys for all rights, from ", keys_,
                                     "\n  tls.crt is valid until 2024-11-13 for b.example.org, "
                                     "10.0.0.2\n"));
}

TEST_F(KeysCommandTest, OfSeveralTokensTheWeakerOneComesFromTheFirst) {
  Write(keys_, "token", "first-token-of-the-file\nsecond-token-of-the-file\n");
  ASSERT_TRUE(Make().ok());
  ASSERT_TRUE(PassOn(Right::kLook).ok());
  EXPECT_EQ(TextOf(other_ + "/token"), WeakerToken("first-token-of-the-file", Right::kLook) + "\n");
}

// Such as those of cert-manager.
TEST_F(KeysCommandTest, WithoutAPrivateKeyOfTheCaOnlyTheTokenIsPassedOn) {
  ASSERT_TRUE(Make().ok());
  fs::remove(keys_ + "/ca.key");
  ASSERT_TRUE(PassOn(Right::kTakePart).ok());
  EXPECT_THAT(NamesIn(other_), ElementsAre("ca.crt", "token"));
  EXPECT_EQ(TextOf(other_ + "/token"),
            WeakerToken(ReadTokens(keys_)->own(), Right::kTakePart) + "\n");
  EXPECT_THAT(out_.str(),
              EndsWith(absl::StrCat("  ", keys_,
                                    " has no ca.key: add a client's tls.crt and tls.key, made "
                                    "where its own come from\n")));
  EXPECT_THAT(Refused(PassOn({"b"})),
              AllOf(StartsWith(keys_ + ": expected ca.key, which signs certificates, got none"),
                    HasSubstr("copy token and ca.crt by hand")));
}

TEST_F(KeysCommandTest, WithoutTlsOnlyTheTokenIsPassedOn) {
  Write(keys_, "token", "the-token-of-the-file\n");
  ASSERT_TRUE(PassOn(Right::kLook).ok());
  EXPECT_THAT(NamesIn(other_), ElementsAre("token"));
}

TEST_F(KeysCommandTest, KeysThatWerePassedOnAreRenewed) {
  ASSERT_TRUE(Make().ok());
  ASSERT_TRUE(PassOn(Right::kLook).ok());
  const std::string tls_crt = TextOf(other_ + "/tls.crt");
  fs::remove(other_ + "/tls.key");  // as after a crash
  ASSERT_TRUE(PassOn(Right::kLook).ok());
  ExpectRight(other_);
  EXPECT_NE(TextOf(other_ + "/tls.crt"), tls_crt);
}

TEST_F(KeysCommandTest, WhileTheCaIsReplacedKeysThatWerePassedOnAreRenewed) {
  ASSERT_TRUE(Make().ok());
  ASSERT_TRUE(PassOn(Right::kLook).ok());
  const std::string ca_crt = Text("ca.crt");
  const std::string both = MakeAuthority("CA", kNow, kNow + kDay)->certificate + ca_crt;
  Write(keys_, "ca.crt", both);
  ASSERT_TRUE(PassOn(Right::kLook).ok());
  EXPECT_EQ(TextOf(other_ + "/ca.crt"), both);
  ExpectRight(other_);
  Write(keys_, "ca.crt", ca_crt);
  ASSERT_TRUE(PassOn(Right::kLook).ok());
  EXPECT_EQ(TextOf(other_ + "/ca.crt"), ca_crt);
}

TEST_F(KeysCommandTest, KeysOfAnotherCaAreNotReplaced) {
  ASSERT_TRUE(Make().ok());
  ASSERT_TRUE(Run({other_, "", std::nullopt, {"b"}}).ok());
  const auto refused = [&](const std::string& name) {
    EXPECT_EQ(Refused(PassOn(Right::kLook)),
              absl::StrCat(other_,
                           ": expected an empty folder, or one that has keys of the same CA, got ",
                           name, " of other keys; choose another folder for --out"));
  };
  refused("ca.key");
  fs::remove(other_ + "/ca.key");
  refused("ca.crt");
  fs::remove(other_ + "/ca.crt");
  refused("tls.crt");
  fs::remove(other_ + "/tls.crt");
  refused("tls.key");
  fs::remove(other_ + "/tls.key");
  EXPECT_TRUE(PassOn(Right::kLook).ok());
}

TEST_F(KeysCommandTest, TheFolderOfTheCaIsNotReplacedByItsOwnWeakerKeys) {
  ASSERT_TRUE(Make().ok());
  const std::string token = Text("token");
  fs::create_directory_symlink(keys_, root_ + "/link");
  for (const std::string& out : {keys_, keys_ + "/.", root_ + "/link"}) {
    EXPECT_EQ(Refused(Run({out, keys_, Right::kLook, {}})),
              "expected another folder for --out than for --from, got " + out);
  }
  fs::copy(keys_, other_);
  EXPECT_THAT(Refused(PassOn(Right::kLook)), HasSubstr("got ca.key of other keys"));
  EXPECT_EQ(Text("token"), token);
}

TEST_F(KeysCommandTest, AFolderOfAnotherRightIsNotReplaced) {
  ASSERT_TRUE(Make({"a.example"}).ok());
  ASSERT_TRUE(PassOn({"b.example"}).ok());
  EXPECT_THAT(Refused(PassOn(Right::kLook)), HasSubstr("got one with the right operate"));
  fs::remove_all(other_);
  ASSERT_TRUE(PassOn(Right::kLook).ok());
  EXPECT_THAT(Refused(PassOn(Right::kTakePart)), HasSubstr("got one with the right look"));
  EXPECT_TRUE(PassOn(Right::kLook).ok());
}

TEST_F(KeysCommandTest, NothingIsDerivedFromFewerRights) {
  ASSERT_TRUE(Make().ok());
  ASSERT_TRUE(PassOn(Right::kTakePart).ok());
  EXPECT_EQ(Refused(Run({root_ + "/third", other_, Right::kLook, {}})),
            absl::StrCat(other_,
                         ": expected the folder with the full token, got one whose tls.crt is a "
                         "client's, as capstan keys --right makes it"));
  EXPECT_FALSE(fs::exists(root_ + "/third"));
}

TEST_F(KeysCommandTest, AMissingSourceIsNamed) {
  const absl::Status status = PassOn(Right::kLook);
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(keys_ + "/token"));
  EXPECT_FALSE(fs::exists(other_));
}

TEST_F(KeysCommandTest, NamesAreFitForATerminal) {
  keys_ += "\x1b[2J";
  ASSERT_TRUE(Make().ok());
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("keys\\x1b[2J: a new CA"), Not(HasSubstr("\x1b"))));
  ASSERT_TRUE(PassOn(Right::kLook).ok());
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("from "), Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace capstan
