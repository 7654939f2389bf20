#include "common/metrics/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsPageTest, SamplesComeWithTypeAndHelp) {
  MetricsPage page;
  page.Add("process_open_fds", 7);
  page.Add("capstan_refused_calls_total", {{"reason", "token"}}, 1);
  page.Add("capstan_refused_calls_total", {{"reason", "right"}}, 2);
  EXPECT_EQ(page.Text(),
            "# HELP process_open_fds Open file descriptors.\n"
            "# TYPE process_open_fds gauge\n"
            "process_open_fds 7\n"
            "# HELP capstan_refused_calls_total Calls refused. Reasons: token (none, or a wrong "
            "one), right (the token lacks it), too_often (registrations), "
            "too_many_connections, other.\n"
            "# TYPE capstan_refused_calls_total counter\n"
            "capstan_refused_calls_total{reason=\"token\"} 1\n"
            "capstan_refused_calls_total{reason=\"right\"} 2\n");
}

TEST(MetricsPageTest, LargeCountsKeepAllTheirDigits) {
  MetricsPage page;
  page.Add("capstan_samples_total", 1234567890123456);
  EXPECT_THAT(page.Text(), HasSubstr("\ncapstan_samples_total 1234567890123456\n"));
}

TEST(MetricsPageTest, ValuesNeedNotBeFinite) {
  MetricsPage page;
  page.Add("capstan_loss", std::nan(""));
  page.Add("capstan_staleness_bound_steps", std::numeric_limits<double>::infinity());
  EXPECT_THAT(page.Text(), HasSubstr("\ncapstan_loss Nan\n"));
  EXPECT_THAT(page.Text(), HasSubstr("\ncapstan_staleness_bound_steps +Inf\n"));
}

TEST(MetricsPageTest, HostileLabelsStayLabels) {
  MetricsPage page;
  page.Add("capstan_worker_loss", {{"worker", "\"} 1\nfake 2\x1b\xff\\"}}, 3);
  EXPECT_THAT(page.Text(), HasSubstr("{worker=\"\\\"} 1\\\\x0afake 2\\\\x1b\\\\xff\\\\\"} 3\n"));
  EXPECT_THAT(page.Text(), Not(HasSubstr("\nfake")));
}

TEST(MetricsPageTest, ALongLabelIsCut) {
  MetricsPage page;
  page.Add("capstan_worker_loss", {{"worker", std::string(10'000, 'x')}}, 3);
  EXPECT_LT(page.Text().size(), 1000);
}

TEST(MetricsPageTest, BucketsAreCumulative) {
  MetricsPage page;
  page.AddHistogram("capstan_staleness_steps", {0, 1}, {5, 3, 2}, /*sum=*/13);
  const std::string text = page.Text();
  EXPECT_THAT(text, HasSubstr("# TYPE capstan_staleness_steps histogram\n"));
  EXPECT_THAT(text, HasSubstr("\ncapstan_staleness_steps_bucket{le=\"0\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("\ncapstan_staleness_steps_bucket{le=\"1\"} 8\n"));
  EXPECT_THAT(text, HasSubstr("\ncapstan_staleness_steps_bucket{le=\"+Inf\"} 10\n"));
  EXPECT_THAT(text, HasSubstr("\ncapstan_staleness_steps_count 10\n"));
  EXPECT_THAT(text, HasSubstr("\ncapstan_staleness_steps_sum 13\n"));
}

TEST(MetricsPageDeathTest, WhatIsNotInTheListIsABug) {
  MetricsPage page;
  EXPECT_DEATH(page.Add("capstan_unknown", 1), "no metric capstan_unknown in metric_list.cc");
  EXPECT_DEATH(page.Add("capstan_refused_calls_total", 1), "capstan_refused_calls_total");
  EXPECT_DEATH(page.Add("capstan_loss", {{"worker", "1"}}, 1), "capstan_loss");
}

}  // namespace
}  // namespace capstan
