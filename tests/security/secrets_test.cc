// What deploy/guide/security.md promises: keys and tokens are never in a log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/security/secure_job.h"
#include "tests/transport/test_keys.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kSteps = 300;
constexpr absl::Duration kPatience = absl::Seconds(100);

// The token, and the lines of the private key.
std::vector<std::string> SecretsIn(const std::string& keys) {
  std::vector<std::string> secrets;
  for (const char* const file : {"/token", "/tls.key"}) {
    const std::string text = ReadFile(keys + file);
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      if (line[0] != '-') secrets.emplace_back(line);
    }
  }
  return secrets;
}

// Asks the job for its status, with the keys in this folder. The log has the caller's name.
ChildExit AskForStatus(const std::string& caller, const std::string& keys, SecureJob& job) {
  job.processes().Start(caller, "deploy/cli/capstan",
                        {"status", "--keys=" + keys, "--coordinator=" + job.coordinator()});
  return job.processes().WaitForExit(caller, kPatience);
}

TEST(SecretsTest, NoLogOfAJobHasATokenOrAPrivateKeyHoweverMuchIsLogged) {
  setenv("GLOG_v", "9", /*overwrite=*/1);
  setenv("GRPC_VERBOSITY", "debug", /*overwrite=*/1);
  TestKeys keys, of_other_job;
  keys.authority = MakeTestAuthority();
  of_other_job.authority = keys.authority;
  keys.token = MakeToken();
  of_other_job.token = MakeToken();
  const std::string dir = WriteTestKeys(keys), other_dir = WriteTestKeys(of_other_job);
  std::vector<std::string> secrets = SecretsIn(dir);
  const auto add = [&secrets](const std::string& folder) {
    for (const std::string& secret : SecretsIn(folder)) secrets.push_back(secret);
  };
  add(other_dir);

  SecureJob job(dir, kSteps);
  EXPECT_TRUE(AskForStatus("member", dir, job).ok()) << job.processes().Log("member");
  EXPECT_FALSE(AskForStatus("stranger", other_dir, job).ok());
  EXPECT_THAT(job.processes().Log("coordinator"), HasSubstr("expected the token of this job"));
  TestKeys expired = keys;
  expired.begin = absl::Now() - absl::Hours(2);
  expired.end = absl::Now() - absl::Hours(1);
  ReplaceTestKeys(expired, dir);
  add(dir);
  EXPECT_TRUE(job.processes().WaitForLog("server-0", "the earlier keys stay in use", kPatience));
  ReplaceTestKeys(keys, dir);
  add(dir);
  EXPECT_TRUE(job.processes().WaitForLog("server-0", "are in use", kPatience));
  job.StartLastWorker();
  EXPECT_FALSE(job.AwaitHash().empty());

  EXPECT_GE(secrets.size(), 4 * 3u);
  for (const char* const name :
       {"coordinator", "server-0", "worker-0", "worker-1", "member", "stranger"}) {
    const std::string log = job.processes().Log(name);
    for (const std::string& secret : secrets) EXPECT_THAT(log, Not(HasSubstr(secret))) << name;
  }
  EXPECT_THAT(job.processes().Log("coordinator"), HasSubstr("gRPC: ")) << "little was logged";
}

}  // namespace
}  // namespace capstan
