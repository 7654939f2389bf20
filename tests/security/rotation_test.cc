#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "absl/time/time.h"
#include "common/trust/job_keys.h"
#include "common/trust/tls_probe.h"
#include "tests/security/secure_job.h"
#include "tests/transport/test_keys.h"

namespace capstan {
namespace {

constexpr int kSteps = 2500;

// What somebody knows who trusts `authority` alone, with a certificate of `keys`.
TlsKeys Observer(const TestKeys& keys, const KeyPair& authority) {
  TlsKeys observer = ReadTlsKeys(WriteTestKeys(keys), absl::Now()).value();
  observer.authorities = authority.certificate;
  return observer;
}

TEST(RotationTest, CertificatesAndCaChangeWhileAJobTrainsAndItsBitsStay) {
  SecureJob undisturbed(/*keys=*/"", kSteps);
  undisturbed.StartLastWorker();
  const std::string hash = undisturbed.AwaitHash();
  ASSERT_FALSE(hash.empty());

  TestKeys keys;
  keys.authority = MakeTestAuthority();
  keys.token = MakeToken();
  const std::string dir = WriteTestKeys(keys);
  SecureJob job(dir, kSteps, {"--lease_seconds=120", "--rpc_deadline_seconds=120"});

  // From the old CA to the new one: first both are trusted, and later the new one alone.
  TestKeys both = keys;
  both.authority = MakeTestAuthority();
  const KeyPair new_authority = both.authority;
  both.authority.certificate += keys.authority.certificate;
  const TlsKeys observer = Observer(both, new_authority);
  const auto shows_new_keys = [&](const std::string& address) {
    return ProbeTrust(address, &observer, absl::Seconds(2)).ok();
  };
  EXPECT_FALSE(shows_new_keys(job.server()));
  ReplaceTestKeys(both, dir);
  for (const std::string& address : {job.coordinator(), job.server()}) {
    EXPECT_TRUE(job.processes().WaitUntil(absl::Seconds(30), [&] {
      return shows_new_keys(address);
    })) << address;
  }
  job.processes().Start("status", "deploy/cli/capstan",
                        {"status", "--keys=" + dir, "--coordinator=" + job.coordinator()});
  EXPECT_TRUE(job.processes().WaitForExit("status", absl::Seconds(30)).ok());
  EXPECT_NE(job.processes().Log("status").find("servers 1:"), std::string::npos)
      << job.processes().Log("status");
  job.StartLastWorker();
  EXPECT_TRUE(job.processes().WaitForLog("worker-0", "training ", absl::Seconds(30)));
  // The other worker waits for it, so the job does not end.
  job.processes().Signal("worker-1", SIGSTOP);

  // Wrong files change nothing; then come right ones again, while the job trains.
  ReplaceTestKeys({new_authority,
                   keys.token,
                   {"127.0.0.1"},
                   absl::Now() - absl::Hours(2),
                   absl::Now() - absl::Hours(1)},
                  dir);
  EXPECT_TRUE(
      job.processes().WaitForLog("server-0", "the earlier keys stay in use", absl::Seconds(30)));
  EXPECT_TRUE(shows_new_keys(job.server()));
  ReplaceTestKeys({new_authority, keys.token}, dir);
  const TlsKeys of_old_authority = Observer(keys, new_authority);
  EXPECT_TRUE(job.processes().WaitUntil(absl::Seconds(30), [&] {
    return !ProbeTrust(job.server(), &of_old_authority, absl::Seconds(2)).ok();
  })) << "its certificate is still accepted";
  const TlsKeys of_new_authority = Observer({new_authority, keys.token}, new_authority);
  EXPECT_TRUE(ProbeTrust(job.server(), &of_new_authority, absl::Seconds(2)).ok());
  job.processes().Signal("worker-1", SIGCONT);
  EXPECT_EQ(job.AwaitHash(), hash);
}

}  // namespace
}  // namespace capstan
