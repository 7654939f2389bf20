#include "tests/metrics/metrics_job.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/process/tcp_ports.h"

namespace capstan {
namespace {

constexpr char kFlag[] = "--metrics_listen=127.0.0.1:0";
constexpr absl::Duration kPatience = absl::Seconds(60);

std::string NewFolder() {
  std::string folder = testing::TempDir() + "/capstan-XXXXXX";
  return mkdtemp(folder.data());
}

}  // namespace

MetricsJob::MetricsJob() : processes_(NewFolder()) {}

void MetricsJob::Start(std::vector<std::string> job_flags, int num_servers, int num_workers) {
  job_flags.push_back(absl::StrCat("--num_servers=", num_servers));
  job_flags.push_back(absl::StrCat("--num_workers=", num_workers));
  job_flags.push_back(kFlag);
  processes_.StartCoordinator(std::move(job_flags));
  for (int i = 0; i < num_servers; ++i) {
    StartMember(absl::StrCat("server-", i), "server/capstan_server");
  }
  for (int i = 0; i < num_workers; ++i) {
    StartMember(absl::StrCat("worker-", i), "worker/capstan_worker");
  }
}

void MetricsJob::StartMember(const std::string& name, const std::string& program) {
  processes_.Start(
      name, program,
      {"--coordinator=" + processes_.coordinator_address(), "--rpc_deadline_seconds=120", kFlag});
}

std::string MetricsJob::Address(const std::string& name) {
  const std::string before = "serves metrics at ";
  EXPECT_TRUE(processes_.WaitForLog(name, before, kPatience)) << processes_.Log(name);
  const std::string log = processes_.Log(name);
  const size_t begin = log.find(before) + before.size();
  return log.substr(begin, log.find('\n', begin) - begin);
}

std::string MetricsJob::Page(const std::string& name) {
  const std::string address = Address(name);
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
  const std::string answer =
      AskTcpPort(static_cast<uint16_t>(port), "GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n",
                 /*seconds=*/10)
          .value_or("");
  const size_t body = answer.find("\r\n\r\n");
  if (!absl::StartsWith(answer, "HTTP/1.1 200 ") || body == std::string::npos) return "";
  return answer.substr(body + 4);
}

Samples MetricsJob::ScrapeUntil(const std::string& name,
                                const std::function<bool(Samples&)>& is_true) {
  Samples samples;
  EXPECT_TRUE(processes_.WaitUntil(kPatience,
                                   [&] {
                                     samples = Scrape(name);
                                     return is_true(samples);
                                   }))
      << name << "\n"
      << Page(name) << processes_.Log(name);
  return samples;
}

}  // namespace capstan
