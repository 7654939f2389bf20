#include "deploy/cli/summary.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(SummaryTest, EveryKeyHasItsLine) {
  const auto text = FormatSummary(R"({
    "job": "digits", "consistency": "bsp", "workers": 2, "servers": 3,
    "test_accuracy": 0.9722, "test_loss": 0.10424, "train_loss": 0.0012, "steps": 900,
    "seconds": 3.25, "median_step_seconds": 0.00361, "samples": 28740, "samples_per_s": 8843.07, "bytes_pushed": 12300000,
    "bytes_pulled": 1500, "mean_staleness_seen": 0.25, "max_staleness_seen": 1,
    "parameters_xxh3": "0123456789abcdef", "workers_lost": 2,
    "workers_replaced": 1})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text,
            "job digits is done: bsp, 2 workers, 3 servers\n"
            "  test accuracy      97.22 %\n"
            "  test loss          0.1042\n"
            "  train loss         0.0012\n"
            "  steps              900\n"
            "  time               3.2 s\n"
            "  median step        3.61 ms\n"
            "  samples            28,740\n"
            "  speed              8,843 samples/s\n"
            "  pushed             12.3 MB\n"
            "  pulled             1.5 kB\n"
            "  mean staleness     0.2500\n"
            "  largest staleness  1\n"
            "  workers lost       2\n"
            "  workers replaced   1\n"
            "  parameters' XXH3   0123456789abcdef\n");
}

TEST(SummaryTest, AConsistencyThatWasChangedIsShown) {
  EXPECT_EQ(*FormatSummary(R"({"consistency": "bsp", "consistency_periods": [
                                {"from_step": 0, "consistency": "bsp", "staleness": 0},
                                {"from_step": 7, "consistency": "ssp", "staleness": 4}]})"),
            "job is done: bsp\n"
            "  consistency        bsp; from step 7 on: ssp, staleness 4\n");
  EXPECT_EQ(*FormatSummary(R"({"consistency": "bsp", "consistency_periods": [
                                {"from_step": 0, "consistency": "bsp", "staleness": 0}]})"),
            "job is done: bsp\n");
}

TEST(SummaryTest, AWarningIsTheLastLine) {
  EXPECT_EQ(*FormatSummary(R"({"warning": "training has failed: it did", "steps": 5})"),
            "job is done\n"
            "  steps              5\n"
            "warning: training has failed: it did\n");
}

TEST(SummaryTest, WhatIsMissingIsLeftOut) {
  EXPECT_EQ(*FormatSummary("{\"steps\": 5}"), "job is done\n  steps              5\n");
}

TEST(SummaryTest, ValueThatIsNoNumberIsShownAsItIs) {
  EXPECT_EQ(*FormatSummary("{\"test_loss\": null}"), "job is done\n  test loss          null\n");
}

TEST(SummaryTest, ValuesThatNoJobHasAreShownWithoutHarm) {
  EXPECT_EQ(*FormatSummary(R"({"workers": 1e300, "steps": -1, "samples_per_s": 1e300})"),
            "job is done, 1e+300 workers\n"
            "  steps              -1\n"
            "  speed              ? samples/s\n");
  EXPECT_EQ(*FormatSummary(R"({"tuning": {"chosen": {"partition_bytes": "x"}, "reason": 7}})"),
            "job is done\n"
            "  tuned              partition 0, credit 0: \n");
}

TEST(SummaryTest, TextThatIsNoJsonObjectIsRefused) {
  EXPECT_EQ(FormatSummary("{\"steps\": ").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FormatSummary("[1]").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace capstan
