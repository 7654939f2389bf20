// Debian's Prometheus scrapes the real programs of a job that loses a worker. Its numbers are those
// of the job, every query of the dashboard has data, and the alert rules work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/json_fields.h"
#include "common/base/real_clock.h"
#include "deploy/cli/grpc_status_client.h"
#include "proto/coordinator_service.pb.h"
#include "tests/integration/job_processes.h"
#include "tests/metrics/metrics_job.h"
#include "tests/metrics/prometheus_process.h"

namespace capstan {
namespace {

using ::nlohmann::json;

constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr char kDashboard[] = "deploy/grafana/capstan.json";

// Metrics without data in this test: it has no GPU.
constexpr const char* kWithoutData[] = {"capstan_gpu_copied_bytes_total"};

// The expressions of the dashboard's panels.
std::vector<std::string> DashboardQueries() {
  const json dashboard = ParseJson(ReadFile(kDashboard));
  EXPECT_TRUE(dashboard.is_object()) << kDashboard;
  std::vector<std::string> queries;
  for (const json& panel : dashboard["panels"]) {
    if (!panel.contains("targets")) continue;
    for (const json& target : panel["targets"]) queries.push_back(TextIn(target, "expr"));
  }
  return queries;
}

// What Grafana would send.
std::string WithVariables(const std::string& query) {
  return absl::StrReplaceAll(query, {{"$job", "capstan"}, {"$__rate_interval", "4s"}});
}

bool MayBeEmpty(const std::string& query) {
  for (const char* const metric : kWithoutData) {
    if (absl::StrContains(query, metric)) return true;
  }
  return false;
}

// A BSP job with two servers, two workers and checkpoints, and a Prometheus that scrapes it.
class PrometheusTest : public testing::Test {
 protected:
  PrometheusTest() : prometheus_(&job_.processes()) {}

  // The workers train until they are killed.
  void StartJob() {
    job_.Start(
        {"--steps=100000000", "--lease_seconds=8", "--heartbeat_seconds=0.1", "--push_codec=int8",
         "--pull_codec=bfloat16", "--field=codec.min_bytes=0", "--checkpoint_seconds=1",
         "--checkpoint_dir=" + job_.processes().path("checkpoints")},
        /*num_servers=*/2, /*num_workers=*/2);
    for (const char* const name : {"coordinator", "server-0", "server-1", "worker-0", "worker-1"}) {
      prometheus_.AddTarget(job_.Address(name));
    }
    prometheus_.Start();
    ASSERT_TRUE(prometheus_.WaitFor("sum(up) == 5", kPatience));
    ASSERT_TRUE(prometheus_.WaitFor("min(capstan_worker_steps_total) > 50", kPatience))
        << job_.processes().Log("worker-0");
    ASSERT_TRUE(
        prometheus_.WaitFor("min(count_over_time(capstan_steps_total[4s])) >= 8", kPatience));
  }
  // A selector of the metrics that `name` itself serves.
  std::string Of(const std::string& name) {
    return absl::StrCat("{instance=\"", job_.Address(name), "\"}");
  }
  // Workers register in any order.
  int IdOf(const std::string& worker) {
    const std::string before = "registered as worker ";
    const std::string log = job_.processes().Log(worker);
    return log[log.find(before) + before.size()] - '0';
  }
  v1::GetStatusReply Status() {
    RealClock clock;
    const auto status =
        GrpcStatusClient(job_.processes().coordinator_address(), &clock).GetStatus();
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? *status : v1::GetStatusReply();
  }
  // Stops worker 1, and waits until the job stands still: worker 0 waits for its values.
  v1::GetStatusReply StandStill() {
    job_.processes().Signal("worker-1", SIGSTOP);
    std::string last;
    int same = 0;
    job_.processes().WaitUntil(kPatience, [&] {
      job_.processes().WaitUntil(absl::Milliseconds(200), [] { return false; });
      const v1::Progress live = Status().progress(IdOf("worker-0"));
      const std::string now =
          absl::StrCat(live.steps_done(), " ", live.bytes_pushed(), " ", live.bytes_pulled());
      same = now == last ? same + 1 : 0;
      last = now;
      return same == 3;
    });
    return Status();
  }
  // The rate of a metric of worker-0, divided by that of its steps.
  double RateOfEachStep(const std::string& metric) {
    const std::string range = Of("worker-0") + "[4s]";
    return prometheus_
        .Value(absl::StrCat("sum(rate(", metric, range, ")) / sum(rate(capstan_steps_total", range,
                            "))"))
        .value_or(-1);
  }
  void ExpectRates();
  void ExpectNumbersOf(const v1::GetStatusReply& status);
  void ReplaceWorker();
  void ExpectDataOfTheDashboard();
  void ExpectRules();

  MetricsJob job_;
  PrometheusProcess prometheus_;
};

// Each step has about as many samples and bytes as the status says. The job trains.
void PrometheusTest::ExpectRates() {
  const v1::Progress progress = Status().progress(IdOf("worker-0"));
  const double steps = static_cast<double>(progress.steps_done());
  const auto expect_rate = [&](const std::string& metric, uint64_t total) {
    const double expected = static_cast<double>(total) / steps;
    EXPECT_NEAR(RateOfEachStep(metric), expected, expected / 20) << metric;
  };
  expect_rate("capstan_samples_total", progress.samples());
  expect_rate("capstan_pushed_bytes_total", progress.bytes_pushed());
  expect_rate("capstan_pulled_bytes_total", progress.bytes_pulled());
  // The parts of the training thread's time are all of it.
  EXPECT_NEAR(prometheus_.Value("sum(rate(capstan_step_seconds_total" + Of("worker-0") + "[4s]))")
                  .value_or(-1),
              1, 0.2);
}

// The job stands still.
void PrometheusTest::ExpectNumbersOf(const v1::GetStatusReply& status) {
  for (int worker = 0; worker < 2; ++worker) {
    const v1::Progress& progress = status.progress(worker);
    const std::string of_worker = absl::StrCat("{worker=\"", worker, "\"}");
    EXPECT_EQ(prometheus_.Value("capstan_worker_steps_total" + of_worker), progress.steps_done());
    EXPECT_EQ(prometheus_.Value("capstan_worker_samples_total" + of_worker), progress.samples());
    // Metrics have 16 digits.
    EXPECT_DOUBLE_EQ(prometheus_.Value("capstan_worker_loss" + of_worker).value_or(-1),
                     progress.loss());
  }
  const v1::Progress& live = status.progress(IdOf("worker-0"));
  const std::string of_live = Of("worker-0");
  EXPECT_EQ(prometheus_.Value("capstan_steps_total" + of_live), live.steps_done());
  EXPECT_EQ(prometheus_.Value("capstan_samples_total" + of_live), live.samples());
  EXPECT_DOUBLE_EQ(prometheus_.Value("capstan_loss" + of_live).value_or(-1), live.loss());
  EXPECT_EQ(prometheus_.Value("sum(capstan_pushed_bytes_total" + of_live + ")"),
            live.bytes_pushed());
  EXPECT_EQ(prometheus_.Value("sum(capstan_pulled_bytes_total" + of_live + ")"),
            live.bytes_pulled());
}

void PrometheusTest::ReplaceWorker() {
  job_.processes().Signal("worker-1", SIGKILL);
  ASSERT_TRUE(prometheus_.WaitFor("capstan_workers_lost_total == 1", kPatience));
  job_.StartMember("worker-2", "worker/capstan_worker");
  prometheus_.AddTarget(job_.Address("worker-2"));
  ASSERT_TRUE(prometheus_.WaitFor("capstan_workers_replaced_total == 1", kPatience));
  ASSERT_TRUE(
      prometheus_.WaitFor("rate(capstan_steps_total" + Of("worker-2") + "[4s]) > 0", kPatience));
}

void PrometheusTest::ExpectDataOfTheDashboard() {
  const std::vector<std::string> queries = DashboardQueries();
  EXPECT_GE(queries.size(), 40u);
  for (const std::string& query : queries) {
    SCOPED_TRACE(query);
    const json history = prometheus_.History(WithVariables(query));
    ASSERT_TRUE(history.is_array());
    EXPECT_EQ(history.empty(), MayBeEmpty(query));
  }
}

void PrometheusTest::ExpectRules() {
  const json groups = prometheus_.RuleGroups();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0]["rules"].size(), 16u);
  std::set<std::string> firing;
  for (const json& rule : groups[0]["rules"]) {
    EXPECT_EQ(rule["health"], "ok") << rule;
    if (rule["state"] == "firing") firing.insert(TextIn(rule, "name"));
  }
  EXPECT_EQ(firing, std::set<std::string>{"CapstanWorkerLost"});
}

TEST_F(PrometheusTest, ItsNumbersAreThoseOfTheJobAndEveryQueryOfTheDashboardHasData) {
  StartJob();
  ExpectRates();
  const v1::GetStatusReply status = StandStill();
  // Everything has been scraped since.
  ASSERT_TRUE(prometheus_.WaitFor("sum(up) == 4", kPatience));
  job_.processes().WaitUntil(absl::Seconds(1), [] { return false; });
  ExpectNumbersOf(status);
  ReplaceWorker();
  ExpectDataOfTheDashboard();
  ExpectRules();
}

// Runs promtool, which must end well.
void ExpectPromtool(const std::vector<std::string>& args) {
  std::string folder = testing::TempDir() + "/promtool-XXXXXX";
  JobProcesses processes(mkdtemp(folder.data()));
  processes.Start("promtool", "/usr/bin/promtool", args);
  EXPECT_TRUE(processes.WaitForExit("promtool", kPatience).ok()) << processes.Log("promtool");
  EXPECT_THAT(processes.Log("promtool"), testing::HasSubstr("SUCCESS"));
}

TEST(PromtoolTest, TheExampleConfigurationAndTheRulesAreRight) {
  ExpectPromtool({"check", "config", "deploy/prometheus/prometheus.yaml"});
  ExpectPromtool({"check", "rules", "deploy/prometheus/rules.yaml"});
}

TEST(PromtoolTest, EachRuleFiresWhereItShouldAndIsSilentElsewhere) {
  ExpectPromtool({"test", "rules", "deploy/prometheus/rules_test.yaml"});
}

TEST(DashboardTest, APanelHasATitleAnIdOfItsOwnAndAPlaceOfItsOwn) {
  const json dashboard = ParseJson(ReadFile(kDashboard));
  ASSERT_TRUE(dashboard.is_object());
  EXPECT_FALSE(dashboard.contains("id")) << "Grafana gives it an id of its own";
  EXPECT_EQ(dashboard["templating"]["list"][0]["type"], "datasource");
  std::set<int> ids;
  std::set<std::pair<int, int>> places;
  for (const json& panel : dashboard["panels"]) {
    EXPECT_FALSE(TextIn(panel, "title").empty()) << panel;
    EXPECT_TRUE(ids.insert(panel["id"].get<int>()).second) << panel;
    const json& place = panel["gridPos"];
    EXPECT_LE(place["x"].get<int>() + place["w"].get<int>(), 24) << panel;
    EXPECT_TRUE(places.emplace(place["x"], place["y"]).second) << panel;
    if (TextIn(panel, "type") != "row") {
      EXPECT_EQ(panel["datasource"]["uid"], "${datasource}");
    }
  }
}

}  // namespace
}  // namespace capstan
