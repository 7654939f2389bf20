#include "common/trust/watched_keys.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <fstream>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/fake_clock.h"
#include "common/base/mutex.h"
#include "common/trust/make_keys.h"

namespace capstan {
namespace {

constexpr char kToken[] = "0123456789abcdef-one";
constexpr char kOtherToken[] = "0123456789abcdef-two";

// Counts the waits of the thread that reads keys: one after each look at the folder.
class LookCountingClock : public FakeClock {
 public:
  int looks() const { return looks_; }

  bool WaitUntil(Mutex& mutex, CondVar& condition, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (deadline != last_deadline_) ++looks_;
    last_deadline_ = deadline;
    return FakeClock::WaitUntil(mutex, condition, deadline);
  }

 private:
  absl::Time last_deadline_;  // used by the thread alone
  std::atomic<int> looks_ = 0;
};

class WatchedKeysTest : public testing::Test {
 protected:
  WatchedKeysTest() {
    EXPECT_NE(mkdtemp(&dir_[0]), nullptr);
    Write(kAuthorityFile, authority_.certificate);
    Write(kTokenFile, kToken);
    WritePair(MakePair(/*is_server=*/true));
  }

  KeyPair MakePair(bool is_server) {
    CertificateSpec spec;
    spec.name = "member";
    if (is_server) spec.hosts = {"localhost"};
    spec.begin = clock_.Now() - absl::Hours(1);
    spec.end = clock_.Now() + absl::Hours(90);  // Await takes hours if a thread gets no time
    spec.is_server = is_server;
    return MakeCertificate(authority_, spec).value();
  }
  void WritePair(const KeyPair& pair) {
    Write(kCertificateFile, pair.certificate);
    Write(kPrivateKeyFile, pair.private_key);
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name) << text;
  }
  std::unique_ptr<WatchedKeys> Open() {
    WatchedKeys::Options options;
    options.dir = dir_;
    options.role = TlsRole::kServer;
    options.clock = &clock_;
    options.on_tls_keys = [this](const TlsKeys&) {
      ++published_;
      return fails_ ? absl::UnavailableError("no memory") : absl::OkStatus();
    };
    return WatchedKeys::Open(std::move(options)).value();
  }
  // Time passes until it is true. It never is: the test runs into its time limit.
  template <typename Claim>
  void Await(Claim claim) {
    while (!claim()) {
      clock_.Advance(WatchedKeys::kInterval);
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  // Returns after a look at the folder as it is now.
  void AwaitLook() {
    // The next look to end may have begun before.
    const int end = clock_.looks() + 2;
    Await([this, end] { return clock_.looks() >= end; });
  }

  LookCountingClock clock_;
  const KeyPair authority_ =
      MakeAuthority("test", clock_.Now() - absl::Hours(1), clock_.Now() + absl::Hours(100)).value();
  std::string dir_ = testing::TempDir() + "/keys-XXXXXX";
  std::atomic<int> published_ = 0;
  std::atomic<bool> fails_ = false;
};

TEST_F(WatchedKeysTest, NewKeysAreTakenOnceTheyFitEachOther) {
  const auto keys = Open();
  const TlsKeys first = *keys->tls();
  const KeyPair next = MakePair(/*is_server=*/true);
  Write(kCertificateFile, next.certificate);  // of another private key than tls.key
  Write(kTokenFile, kOtherToken);
  AwaitLook();
  EXPECT_EQ(*keys->tls(), first);
  EXPECT_EQ(keys->tokens()->own(), kToken) << "a folder is taken as a whole";
  Write(kPrivateKeyFile, next.private_key);
  Await([&] { return keys->tls() != first; });
  EXPECT_EQ(keys->tokens()->own(), kOtherToken);
  EXPECT_EQ(published_, 2);
}

TEST_F(WatchedKeysTest, KeysThatCouldNotBePublishedAreTriedAgain) {
  const auto keys = Open();
  const TlsKeys first = *keys->tls();
  fails_ = true;
  WritePair(MakePair(/*is_server=*/true));
  Await([&] { return published_ >= 3; });
  EXPECT_EQ(*keys->tls(), first);
  fails_ = false;
  Await([&] { return keys->tls() != first; });
}

TEST_F(WatchedKeysTest, ACertificateForClientsIsNotTakenByAServer) {
  const auto keys = Open();
  const TlsKeys first = *keys->tls();
  const KeyPair of_client = MakePair(/*is_server=*/false);
  WritePair(of_client);
  const absl::Status refused = ReadTlsKeys(dir_, clock_.Now(), TlsRole::kServer).status();
  EXPECT_NE(refused.message().find("expected a certificate for a server"), std::string::npos)
      << refused;
  EXPECT_TRUE(ReadTlsKeys(dir_, clock_.Now(), TlsRole::kClient).ok());
  AwaitLook();
  EXPECT_EQ(*keys->tls(), first);
  EXPECT_EQ(published_, 1);
  WritePair(MakePair(/*is_server=*/true));
  Await([&] { return keys->tls() != first; });
  EXPECT_EQ(keys->tls()->identity.find(of_client.certificate), std::string::npos);
}

}  // namespace
}  // namespace capstan
