#include "deploy/cli/text/summary.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::nlohmann::json;

TEST(SummaryTest, EveryKeyHasItsLine) {
  const auto text = FormatSummary(R"json({
    "job": "digits", "consistency": "bsp", "workers": 2, "servers": 3,
    "test_accuracy": 0.9722, "test_loss": 0.10424, "train_loss": 0.0012, "steps": 900,
    "seconds": 3.25, "median_step_seconds": 0.00361, "samples": 28740, "samples_per_s": 8843.07,
    "devices": ["cpu", "cuda:0 (A)", "cpu"], "transport": "grpc", "bytes_pushed": 12300000,
    "bytes_pulled": 1500, "mean_staleness_seen": 0.25, "max_staleness_seen": 1,
    "parameters_xxh3": "0123456789abcdef", "workers_lost": 2,
    "workers_replaced": 1})json");
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
            "  devices            cpu, cuda:0 (A)\n"
            "  transport          grpc\n"
            "  pushed             12.3 MB\n"
            "  pulled             1.5 kB\n"
            "  mean staleness     0.2500\n"
            "  largest staleness  1\n"
            "  workers lost       2\n"
            "  workers replaced   1\n"
            "  parameters' XXH3   0123456789abcdef\n");
}

TEST(SummaryTest, RoundsHaveTheirLocalSteps) {
  EXPECT_EQ(*FormatSummary(R"json({"steps": 80, "local_steps": 16000, "sync_every": 50,
                                   "drift": 0.03125})json"),
            "job is done\n"
            "  steps              80\n"
            "  local steps        16,000\n"
            "  steps of a round   50\n"
            "  drift              0.0312 of the values\n");
  EXPECT_EQ(*FormatSummary(R"json({"steps": 80, "round_seconds": 2.5})json"),
            "job is done\n"
            "  steps              80\n"
            "  time of a round    2.5 s\n");
}

TEST(SummaryTest, WhoWasReplacedInAHeldPlaceIsTheLastLine) {
  EXPECT_EQ(*FormatSummary(R"json({"workers_replaced": 1, "place_replacements": [
                                   {"worker": 1, "step": 7, "seconds": 0.8, "text": "worker 1"}, 3]})json"),
            "job is done\n"
            "  workers replaced   1\n"
            "worker 1\n");
}

TEST(SummaryTest, LostServersHaveALine) {
  EXPECT_EQ(*FormatSummary(R"json({"servers_lost": 1, "warning": "x",
                                   "server_losses": "1 server was lost; nothing was lost"})json"),
            "job is done\n"
            "1 server was lost; nothing was lost\n"
            "warning: x\n");
}

TEST(SummaryTest, WithTwoReplicasItHasTheBytesBetweenServers) {
  EXPECT_EQ(*FormatSummary(R"json({"bytes_pulled": 1500, "push_codec": "int8",
                                   "bytes_between_servers": 2500})json"),
            "job is done\n"
            "  between servers    2.5 kB\n");
}

TEST(SummaryTest, OfClicksHasTheAuc) {
  EXPECT_EQ(*FormatSummary(R"json({"test_loss": 0.45, "test_auc": 0.79568, "best_auc": 0.79744,
                                   "nonzero_weights": 0.0324})json"),
            "job is done\n"
            "  test loss          0.4500\n"
            "  test AUC           0.7957\n"
            "  best possible AUC  0.7974\n"
            "  weights not 0      3.24 %\n");
}

constexpr char kCompressed[] = R"({
    "samples": 300, "bytes_pushed": 12300000, "bytes_pulled": 1500, "push_codec": "int8",
    "pull_codec": "bfloat16", "table_codec": {"fc3.bias": "float32"}, "codec_min_bytes": 16384,
    "bytes_pushed_float32": 48462000, "bytes_pulled_float32": 3000, "push_ratio": 3.94,
    "pull_ratio": 2.0, "residual_ratio": 0.0123, "codec_seconds": 0.42, "residuals_lost": 1,
    "mean_staleness_seen": 0.25})";

TEST(SummaryTest, OfAJobWithCodecsTellsWhatTheyDid) {
  EXPECT_EQ(*FormatSummary(kCompressed),
            "job is done\n"
            "  samples            300\n"
            "  pushed             12.3 MB (3.9x smaller, 48.5 MB as float32)\n"
            "  pulled             1.5 kB (2.0x smaller, 3.0 kB as float32)\n"
            "  codecs             push int8, pull bfloat16 (fc3.bias float32), tables from 16KiB "
            "on\n"
            "  residual           0.0123 of the gradient\n"
            "  time in codecs     0.42 s, all workers together\n"
            "  residuals lost     1\n"
            "  mean staleness     0.2500\n");
}

TEST(SummaryTest, WithoutAResidualNothingIsSaidOfIt) {
  json summary = json::parse(kCompressed);
  summary["residual_ratio"] = nullptr;
  for (const auto& [label, value] : SummaryCodecRows(summary)) EXPECT_NE(label, "residual");
}

TEST(SummaryTest, CodecsThatFitNoTableAreSaidToDoNothing) {
  json summary = json::parse(kCompressed);
  summary["push_ratio"] = summary["pull_ratio"] = 1;
  EXPECT_EQ(SummaryCodecRows(summary)[2].second,
            "push int8, pull bfloat16 (fc3.bias float32), tables from 16KiB on; no table got "
            "smaller: lower --field=codec.min_bytes, or the R of a topk");
}

TEST(SummaryTest, TheChoiceForAutoCodecsHasARow) {
  json summary = json::parse(kCompressed);
  summary["push_ratio"] = summary["pull_ratio"] = 1;
  summary["auto_codecs"] = {{"first_step", 0}, {"text", "float32, because"}};
  const SummaryRows rows = SummaryCodecRows(summary);
  EXPECT_EQ(rows[2].second, "push int8, pull bfloat16 (fc3.bias float32), tables from 16KiB on");
  EXPECT_EQ(rows[3], std::make_pair(std::string("auto codecs"), std::string("float32, because")));
}

TEST(SummaryTest, CodecsOfTheWrongTypesAreShownWithoutHarm) {
  EXPECT_EQ(*FormatSummary(R"({"bytes_pushed": "x", "push_codec": 7, "table_codec": [1]})"),
            "job is done\n"
            "  pushed             0 B (?, 0 B as float32)\n"
            "  pulled             0 B (?, 0 B as float32)\n"
            "  codecs             push , pull  (0 1)\n"
            "  time in codecs     0.00 s, all workers together\n"
            "  residuals lost     0\n");
  EXPECT_TRUE(SummaryCodecRows(json::parse(R"({"bytes_pushed": 5})")).empty());
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

TEST(SummaryTest, LinksAreShownIfTheyWereMeasured) {
  EXPECT_EQ(*FormatSummary(R"({"links": {"text": "1 Gbit/s: slice 64KiB"}})"),
            "job is done\n"
            "  links              1 Gbit/s: slice 64KiB\n");
}

TEST(SummaryTest, TextThatIsNoJsonObjectIsRefused) {
  EXPECT_EQ(FormatSummary("{\"steps\": ").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(FormatSummary("[1]").status().code(), absl::StatusCode::kDataLoss);
}

std::string ConsistencyText(const char* summary) {
  return SummaryConsistencyText(nlohmann::json::parse(summary));
}

TEST(SummaryConsistencyTest, SaysEachPeriodAndWhereItBegins) {
  EXPECT_EQ(ConsistencyText(R"({"consistency_periods": [
                      {"from_step": 0, "consistency": "bsp", "staleness": 0},
                      {"from_step": 120, "consistency": "ssp", "staleness": 4,
                       "table_staleness": {"fc1.weight": 2, "fc2.weight": 0}},
                      {"from_step": 300, "consistency": "async", "staleness": null}]})"),
            "bsp; from step 120 on: ssp, staleness 4 (fc1.weight 2, fc2.weight 0); "
            "from step 300 on: async");
}

TEST(SummaryConsistencyTest, OfAJobThatWasNotChangedSaysWhatItPromised) {
  EXPECT_EQ(ConsistencyText(R"({"consistency_periods": [
                      {"from_step": 0, "consistency": "ssp", "staleness": 1}]})"),
            "ssp, staleness 1");
}

TEST(SummaryConsistencyTest, ASummaryWithoutPeriodsSaysNothing) {
  EXPECT_EQ(ConsistencyText(R"({"consistency": "bsp"})"), "");
  EXPECT_EQ(ConsistencyText(R"({"consistency_periods": 3})"), "");
  EXPECT_EQ(ConsistencyText(R"({"consistency_periods": [3]})"), "");
}

void Set(v1::TuningReport::Point& point, uint64_t partition, uint64_t credit, double seconds) {
  point.set_partition_bytes(partition);
  point.set_credit_bytes(credit);
  point.set_step_seconds(seconds);
}

TEST(TuningTextTest, TellsWhatWasChosenAndWhy) {
  v1::TuningReport tuning;
  Set(*tuning.add_tried(), 1 << 20, 4 << 20, 0.23);
  Set(*tuning.mutable_chosen(), 2 << 20, 8 << 20, 0.212);
  tuning.set_reason("8.0 % faster");
  EXPECT_EQ(TuningText(tuning), "partition 2MiB, credit 8MiB, 212.0 ms a step: 8.0 % faster");
}

TEST(TuningTextTest, TellsHowFarItHasCome) {
  v1::TuningReport tuning;
  EXPECT_EQ(TuningText(tuning), "nothing measured yet");
  Set(*tuning.add_tried(), 1 << 20, 4 << 20, 0.23);
  Set(*tuning.add_tried(), 1 << 18, 1 << 20, 0.2);
  EXPECT_EQ(TuningText(tuning),
            "not finished: 2 measurements, the last one partition 256KiB, credit 1MiB, 200.0 ms "
            "a step");
}

TEST(TuningTextTest, ASummaryTellsTheSame) {
  const json summary = json::parse(R"({"tuning": {
      "chosen": {"partition_bytes": 2097152, "credit_bytes": 8388608, "step_seconds": 0.212},
      "reason": "8.0 % faster",
      "tried": [{"partition_bytes": 1048576, "credit_bytes": 4194304, "step_seconds": 0.23}]}})");
  EXPECT_EQ(SummaryTuningText(summary),
            "partition 2MiB, credit 8MiB, 212.0 ms a step: 8.0 % faster");
  EXPECT_EQ(SummaryTuningText(json::parse(R"({"tuning": {"tried": []}})")), "nothing measured yet");
  EXPECT_EQ(SummaryTuningText(json::parse(R"({"job": "x"})")), "");
}

}  // namespace
}  // namespace capstan
