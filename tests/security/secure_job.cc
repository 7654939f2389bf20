#include "tests/security/secure_job.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace capstan {
namespace {

constexpr absl::Duration kLongestWait = absl::Seconds(120);

std::string NewFolder() {
  std::string dir = testing::TempDir() + "/job-XXXXXX";
  EXPECT_NE(mkdtemp(&dir[0]), nullptr);
  return dir;
}

// What follows `before` in the text, up to a blank or a quote.
std::string After(const std::string& text, const std::string& before) {
  const size_t at = text.find(before);
  if (at == text.npos) return "";
  const size_t begin = at + before.size();
  return text.substr(begin, text.find_first_of(" \n\"", begin) - begin);
}

}  // namespace

SecureJob::SecureJob(const std::string& keys, int steps, const std::vector<std::string>& job_flags)
    : keys_flag_(keys.empty() ? std::vector<std::string>()
                              : std::vector<std::string>{absl::StrCat("--keys=", keys)}),
      processes_(NewFolder()) {
  std::vector<std::string> flags = {"--num_servers=1", "--num_workers=2",
                                    absl::StrCat("--steps=", steps)};
  flags.insert(flags.end(), keys_flag_.begin(), keys_flag_.end());
  flags.insert(flags.end(), job_flags.begin(), job_flags.end());
  processes_.StartCoordinator(flags);
  flags = {absl::StrCat("--coordinator=", coordinator())};
  flags.insert(flags.end(), keys_flag_.begin(), keys_flag_.end());
  if (!keys.empty()) {
    flags.insert(flags.end(), {"--listen=0.0.0.0:0", "--advertise_host=127.0.0.1"});
  }
  processes_.Start("server-0", "server/capstan_server", flags);
  const std::string registered = "registered as server 0 at ";
  EXPECT_TRUE(processes_.WaitForLog("server-0", registered, kLongestWait));
  server_ = After(processes_.Log("server-0"), registered);
  StartWorker("worker-0");
}

void SecureJob::StartWorker(const std::string& name) {
  std::vector<std::string> flags = {absl::StrCat("--coordinator=", coordinator())};
  flags.insert(flags.end(), keys_flag_.begin(), keys_flag_.end());
  processes_.Start(name, "worker/capstan_worker", flags);
  EXPECT_TRUE(processes_.WaitForLog(name, "registered as worker", kLongestWait))
      << processes_.Log(name);
}

std::string SecureJob::AwaitHash() {
  for (const std::string name : {"worker-0", "worker-1", "server-0", "coordinator"}) {
    const ChildExit exit = processes_.WaitForExit(name, kLongestWait);
    EXPECT_TRUE(exit.ok()) << name << ": " << exit.ToString() << "\n" << processes_.Log(name);
  }
  return After(processes_.Log("coordinator"), "\"parameters_xxh3\": \"");
}

int64_t SecureJob::PeakBytes() {
  int64_t sum = 0;
  for (const std::string name : {"server-0", "coordinator"}) {
    const std::string status = ReadFile(absl::StrCat("/proc/", processes_.pid(name), "/status"));
    constexpr absl::string_view kPeak = "VmHWM:";
    if (const size_t at = status.find(kPeak.data()); at != status.npos) {
      int64_t kilobytes = 0;
      std::istringstream(status.substr(at + kPeak.size())) >> kilobytes;
      peak_bytes_[name] = kilobytes << 10;
    }
    EXPECT_GT(peak_bytes_[name], 0) << name;
    sum += peak_bytes_[name];
  }
  return sum;
}

}  // namespace capstan
