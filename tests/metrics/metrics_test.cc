// The metrics of a real job: all are there, and they agree with each other and with the summary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>

#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/metrics/metric_list.h"
#include "tests/metrics/metrics_job.h"
#include "tests/metrics/samples.h"
#include "tests/process/tcp_ports.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

// What `promtool check metrics` says to the page; nothing if all is well.
std::string ComplaintsOfPromtool(const std::string& page) {
  const std::string path = testing::TempDir() + "/page";
  std::ofstream(path, std::ios::trunc) << page;
  FILE* const promtool = popen(("promtool check metrics <" + path + " 2>&1").c_str(), "r");
  std::string complaints;
  char bytes[1000];
  while (const size_t size = fread(bytes, 1, sizeof(bytes), promtool)) {
    complaints.append(bytes, size);
  }
  const int exit_code = pclose(promtool);
  return exit_code == 0 ? complaints : absl::StrCat(complaints, " exit code ", exit_code);
}

void ExpectGoodPage(const std::string& page) {
  ASSERT_NE(page, "");
  EXPECT_EQ(ComplaintsOfPromtool(page), "") << page;
}

// Expects all metrics of the program on the page.
void ExpectAllMetrics(const Samples& samples, int program) {
  for (const Metric& metric : MetricList()) {
    const bool is_expected = (metric.programs & program) != 0 && !metric.needs_gpu;
    EXPECT_EQ(HasMetric(samples, metric.name), is_expected) << metric.name;
  }
}

// The sum of a metric over pages.
double Sum(const std::vector<Samples>& pages, absl::string_view metric) {
  double sum = 0;
  for (const Samples& page : pages) sum += SumOf(page, metric);
  return sum;
}

TEST(MetricsTest, ServersWorkersAndSummaryAgree) {
  constexpr int kSteps = 3000;  // There must be some left when the first ones have been seen.
  MetricsJob job;
  job.Start({absl::StrCat("--steps=", kSteps), "--push_codec=int8", "--field=codec.min_bytes=0",
             "--heartbeat_seconds=0.05", "--lease_seconds=120", "--rpc_deadline_seconds=120"},
            /*num_servers=*/2, /*num_workers=*/2);
  ASSERT_FALSE(HasFailure());
  const Samples coordinator = job.ScrapeUntil("coordinator", [](Samples& samples) {
    return samples["capstan_worker_steps_total{worker=\"0\"}"] > 0 &&
           samples["capstan_worker_steps_total{worker=\"1\"}"] > 0;
  });
  ASSERT_FALSE(HasFailure());
  // While it is stopped, workers do all their steps, but nobody begins the test at the end.
  job.processes().Signal("coordinator", SIGSTOP);
  std::vector<Samples> workers;
  for (const char* const name : {"worker-0", "worker-1"}) {
    workers.push_back(job.ScrapeUntil(
        name, [](Samples& samples) { return samples["capstan_steps_total"] == kSteps; }));
    ASSERT_FALSE(HasFailure());
    ExpectAllMetrics(workers.back(), kOfWorker);
    ExpectGoodPage(job.Page(name));
  }
  std::vector<Samples> servers;
  for (const char* const name : {"server-0", "server-1"}) {
    servers.push_back(job.Scrape(name));
    ExpectAllMetrics(servers.back(), kOfServer);
    ExpectGoodPage(job.Page(name));
  }
  job.processes().Signal("coordinator", SIGCONT);

  ExpectAllMetrics(coordinator, kOfCoordinator);
  EXPECT_EQ(coordinator.at("capstan_job_phase{phase=\"training\"}"), 1);
  EXPECT_EQ(coordinator.at("capstan_members{role=\"worker\",state=\"live\"}"), 2);
  EXPECT_EQ(coordinator.at("capstan_staleness_bound_steps"), 0);

  EXPECT_EQ(Sum(workers, "capstan_retries_total"), 0);
  EXPECT_GT(Sum(workers, "capstan_exchanges_total"), 0);
  EXPECT_EQ(Sum(servers, "capstan_server_exchanges_total"),
            Sum(workers, "capstan_exchanges_total"));
  EXPECT_EQ(Sum(servers, "capstan_server_received_bytes_total"),
            Sum(workers, "capstan_pushed_bytes_total"));
  EXPECT_EQ(Sum(servers, "capstan_server_sent_bytes_total"),
            Sum(workers, "capstan_pulled_bytes_total"));
  EXPECT_EQ(Sum(servers, "capstan_server_parked_replies"), 0);
  EXPECT_EQ(Sum(servers, "capstan_server_duplicate_pushes_total"), 0);
  for (const Samples& worker : workers) {
    EXPECT_GT(worker.at("capstan_pushed_bytes_total{codec=\"int8\"}"), 0);
    EXPECT_GT(worker.at("capstan_pulled_bytes_total{codec=\"float32\"}"), 0);
    EXPECT_GT(worker.at("capstan_step_seconds_total{part=\"compute\"}"), 0);
    EXPECT_GT(worker.at("capstan_codec_seconds_total"), 0);
    EXPECT_EQ(worker.at("capstan_staleness_steps_count"), worker.at("capstan_exchanges_total"));
  }
  for (const Samples& server : servers) {
    EXPECT_GT(server.at("capstan_server_apply_seconds_total"), 0);
    EXPECT_GT(server.at("capstan_server_memory_bytes{use=\"parameters\"}"), 0);
    EXPECT_GT(server.at("capstan_connections{state=\"proved\"}"), 0);
  }

  EXPECT_EQ(job.processes().WaitForExit("coordinator", kPatience).code, 0)
      << job.processes().Log("coordinator");
  const auto summary = nlohmann::json::parse(ReadFile(job.processes().path("summary.json")));
  EXPECT_EQ(summary["steps"], kSteps);
  EXPECT_EQ(summary["samples"], Sum(workers, "capstan_samples_total"));
  EXPECT_EQ(summary["bytes_pushed"], Sum(workers, "capstan_pushed_bytes_total"));
  EXPECT_EQ(summary["bytes_pulled"], Sum(workers, "capstan_pulled_bytes_total"));
}

TEST(MetricsTest, TheCoordinatorsPageIsGoodAtEachTime) {
  MetricsJob job;
  job.Start({"--steps=1000000", "--consistency=async", "--heartbeat_seconds=0.1"},
            /*num_servers=*/1, /*num_workers=*/1);
  ExpectGoodPage(job.Page("coordinator"));
  const Samples samples = job.ScrapeUntil("coordinator", [](Samples& now) {
    return now["capstan_worker_steps_total{worker=\"0\"}"] > 0;
  });
  EXPECT_EQ(samples.at("capstan_staleness_bound_steps"), INFINITY);
  ExpectGoodPage(job.Page("coordinator"));
}

TEST(MetricsTest, ALossThatIsNotANumberBreaksNoPage) {
  MetricsJob job;
  job.Start({"--steps=1000000", "--learning_rate=1e9", "--field=consistency.check_finite=false",
             "--heartbeat_seconds=0.1"},
            /*num_servers=*/1, /*num_workers=*/1);
  job.ScrapeUntil("worker-0", [](Samples& samples) { return std::isnan(samples["capstan_loss"]); });
  job.ScrapeUntil("coordinator", [](Samples& samples) {
    return std::isnan(samples["capstan_worker_loss{worker=\"0\"}"]);
  });
  for (const char* const name : {"coordinator", "server-0", "worker-0"}) {
    ExpectGoodPage(job.Page(name));
  }
}

TEST(MetricsTest, AStrangersConnectionIsCounted) {
  MetricsJob job;
  job.Start({"--steps=1000000"}, /*num_servers=*/1, /*num_workers=*/1);
  const std::string address = job.processes().coordinator_address();
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  AskTcpPort(static_cast<uint16_t>(port), "no HTTP/2\r\n\r\n", /*seconds=*/2);
  job.ScrapeUntil("coordinator", [](Samples& samples) {
    return samples["capstan_closed_connections_total{reason=\"ended\"}"] == 1;
  });
}

TEST(MetricsTest, AMemberThatCannotListenEndsTheJobWithTheReason) {
  for (const std::string name : {"server", "worker"}) {
    MetricsJob job;
    job.Start({"--steps=1000000"}, /*num_servers=*/1, /*num_workers=*/1);
    const std::string taken = job.Address("coordinator");
    job.processes().Start(
        "late", name + "/capstan_" + name,
        {"--coordinator=" + job.processes().coordinator_address(), "--metrics_listen=" + taken});
    EXPECT_EQ(job.processes().WaitForExit("late", kPatience).code, 1);
    EXPECT_THAT(job.processes().LastLine("late"),
                HasSubstr("cannot listen on " + taken + ": the port is in use"));
    EXPECT_THAT(job.processes().LastLine("late"), HasSubstr("--metrics_listen"));
  }
}

}  // namespace
}  // namespace capstan
