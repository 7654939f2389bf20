#include "server/coordinator/link_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace capstan {
namespace {

const std::vector<uint64_t> kLarge = {3'000'000};  // 12 MB

v1::LinkMeasurement Links(double gbit, double round_trip_seconds) {
  v1::LinkMeasurement links;
  links.set_bytes_per_second(gbit * 1e9 / 8);
  links.set_round_trip_seconds(round_trip_seconds);
  links.set_seconds(0.5);
  return links;
}

// The schedule after one worker has measured this.
v1::SchedulerSpec Chosen(const v1::JobSpec& job, const v1::LinkMeasurement& links) {
  LinkPlan plan(job);
  plan.Begin({"a", "b"}, kLarge);
  EXPECT_TRUE(plan.is_measuring());
  plan.Report(0, links);
  EXPECT_TRUE(plan.Settle(1));
  EXPECT_FALSE(plan.is_measuring());
  return plan.scheduler();
}

bool Measures(const v1::JobSpec& job, const std::set<std::string>& hosts,
              const std::vector<uint64_t>& table_elements) {
  LinkPlan plan(job);
  plan.Begin(hosts, table_elements);
  return plan.is_measuring();
}

TEST(LinkPlanTest, AUnitTakesOneMillisecondAndAHalfAndTheCreditTwelve) {
  const struct {
    double gbit;
    uint64_t unit;
    uint64_t units_of_credit;
  } cases[] = {{0.01, 64 << 10, 8},  {0.1, 64 << 10, 8},   {0.6, 64 << 10, 14},
               {0.9, 128 << 10, 11}, {4.5, 512 << 10, 13}, {100, 1 << 20, 8}};
  for (const auto& [gbit, unit, units_of_credit] : cases) {
    const v1::SchedulerSpec chosen = Chosen({}, Links(gbit, 0.0001));
    EXPECT_EQ(chosen.slice_bytes(), unit) << gbit;
    EXPECT_EQ(chosen.partition_bytes(), unit) << gbit;
    EXPECT_EQ(chosen.credit_bytes(), units_of_credit * unit) << gbit;
  }
}

TEST(LinkPlanTest, ALongWayHoldsManyUnits) {
  // 2 x 125 MB/s x 50 ms, in units of 128 KiB.
  EXPECT_EQ(Chosen({}, Links(0.999, 0.05)).credit_bytes(), 96u * (128 << 10));
  EXPECT_EQ(Chosen({}, Links(100, 1000)).credit_bytes(), 256u << 20) << "bounded";
}

TEST(LinkPlanTest, WhatTheJobSaysStays) {
  v1::JobSpec job;
  job.mutable_scheduler()->set_slice_bytes(4096);
  job.mutable_scheduler()->set_credit_bytes(1 << 22);
  const v1::SchedulerSpec chosen = Chosen(job, Links(0.1, 0));
  EXPECT_EQ(chosen.slice_bytes(), 4096u);
  EXPECT_EQ(chosen.partition_bytes(), 64u << 10) << "16 slices";
  EXPECT_EQ(chosen.credit_bytes(), 4u << 20);
}

TEST(LinkPlanTest, EncodedSlicesAreAboutAUnitAsSent) {
  const auto chosen = [](const char* push, const char* pull, double gbit) {
    v1::JobSpec job;
    job.mutable_codec()->set_push(push);
    job.mutable_codec()->set_pull(pull);
    return Chosen(job, Links(gbit, 0)).slice_bytes();
  };
  EXPECT_EQ(chosen("int8", "int8", 0.1), 256u << 10);
  EXPECT_EQ(chosen("int8", "bfloat16", 0.1), 128u << 10);
  EXPECT_EQ(chosen("int8", "float32", 0.1), 64u << 10);
  EXPECT_EQ(chosen("auto", "auto", 0.1), 256u << 10) << "as int8, which it becomes";
  EXPECT_EQ(chosen("int8", "int8", 2.5), 1u << 20);
  EXPECT_EQ(chosen("int8", "int8", 100), 1u << 20) << "the largest unit";
}

TEST(LinkPlanTest, WithATopkSlicesKeepTheirSize) {
  v1::JobSpec job;
  job.mutable_codec()->set_pull("topk:0.01");
  const v1::SchedulerSpec chosen = Chosen(job, Links(0.1, 0));
  EXPECT_FALSE(chosen.has_slice_bytes());
  EXPECT_EQ(chosen.credit_bytes(), 4u << 20) << "four slices of gradients";
  job.mutable_codec()->set_push("topk:0.01");
  EXPECT_EQ(Chosen(job, Links(0.1, 0)).credit_bytes(), 512u << 10);
  job.mutable_codec()->set_pull("int8");
  EXPECT_EQ(Chosen(job, Links(0.1, 0)).credit_bytes(), 1088u << 10) << "four slices of values";
}

TEST(LinkPlanTest, OnlySlowLinksAndManyBytesAreWorthAMeasurement) {
  EXPECT_TRUE(Measures({}, {"a", "b"}, kLarge));
  v1::JobSpec compressed;
  compressed.mutable_codec()->set_push("auto");
  EXPECT_TRUE(Measures(compressed, {"a", "b"}, {1000})) << "for the codec";
  EXPECT_FALSE(Measures({}, {"a"}, kLarge)) << "no network";
  EXPECT_FALSE(Measures({}, {"a", "b"}, {2'000'000, 500'000})) << "10 MB";
  v1::JobSpec job;
  job.mutable_scheduler()->set_policy(v1::SchedulerSpec::TENSOR_FIFO);
  EXPECT_FALSE(Measures(job, {"a", "b"}, kLarge)) << "tensors stay whole";
  job.mutable_scheduler()->set_policy(v1::SchedulerSpec::PRIORITY);
  job.mutable_scheduler()->set_slice_bytes(64);
  job.mutable_scheduler()->set_partition_bytes(0);
  EXPECT_TRUE(Measures(job, {"a", "b"}, kLarge));
  job.mutable_scheduler()->set_credit_bytes(1);
  EXPECT_FALSE(Measures(job, {"a", "b"}, kLarge)) << "nothing is left to choose";
}

TEST(LinkPlanTest, TheSlowestWorkerCounts) {
  LinkPlan plan{v1::JobSpec()};
  plan.Begin({"a", "b"}, kLarge);
  EXPECT_FALSE(plan.Settle(2));
  plan.Report(0, Links(2, 0.001));
  plan.Report(0, Links(1, 0.001));
  EXPECT_FALSE(plan.Settle(2)) << "worker 0 only";
  plan.Report(1, Links(4, 0.003));
  ASSERT_TRUE(plan.Settle(2));
  EXPECT_FALSE(plan.Settle(2));
  EXPECT_EQ(plan.report().slowest().bytes_per_second(), 0.25e9);
  EXPECT_EQ(plan.report().slowest().round_trip_seconds(), 0.003);
  EXPECT_EQ(plan.report().text(),
            "2 Gbit/s both ways, round trip 3 ms, measured in 0.50 s: slice 256KiB, partition "
            "256KiB, credit 3MiB");
}

TEST(LinkPlanTest, WithoutAMeasurementTheDefaultsStay) {
  for (const double rate : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity()}) {
    LinkPlan plan{v1::JobSpec()};
    plan.Begin({"a", "b"}, kLarge);
    plan.Report(0, Links(1, 0.001));
    plan.Report(1, Links(rate, 0.001));
    ASSERT_TRUE(plan.Settle(2));
    EXPECT_FALSE(plan.scheduler().has_slice_bytes()) << rate;
    EXPECT_EQ(plan.report().text(), "not measured: worker 1 got no answer");
  }
  LinkPlan plan{v1::JobSpec()};
  plan.Begin({"a", "b"}, kLarge);
  plan.Report(0, v1::LinkMeasurement());
  ASSERT_TRUE(plan.Settle(1));
  EXPECT_EQ(plan.report().text(), "not measured: too few steps");
}

TEST(LinkPlanTest, ARestoredJobKeepsTheChoiceOfItsCheckpoint) {
  v1::CheckpointManifest manifest;
  v1::SchedulerSpec& before = *manifest.mutable_job()->mutable_scheduler();
  before.set_slice_bytes(128 << 10);
  before.set_partition_bytes(256 << 10);
  before.set_credit_bytes(1 << 20);
  v1::JobSpec job;
  job.mutable_scheduler()->set_credit_bytes(2 << 20);
  LinkPlan plan(job, manifest);
  EXPECT_EQ(plan.scheduler().slice_bytes(), 128u << 10);
  EXPECT_EQ(plan.scheduler().partition_bytes(), 256u << 10);
  EXPECT_EQ(plan.scheduler().credit_bytes(), 2u << 20) << "the job's own";
  plan.Begin({"a", "b"}, kLarge);
  EXPECT_FALSE(plan.is_measuring());
}

TEST(LinkPlanTest, ARestoredJobChoosesWhatItsCheckpointLeavesOpen) {
  v1::CheckpointManifest manifest;
  manifest.mutable_job()->mutable_scheduler();
  LinkPlan plan(v1::JobSpec(), manifest);
  plan.Begin({"a", "b"}, kLarge);
  EXPECT_TRUE(plan.is_measuring()) << "it began on one machine";
  plan.Report(0, Links(0.1, 0));
  EXPECT_TRUE(plan.Settle(1));
  EXPECT_EQ(plan.scheduler().credit_bytes(), 4u << 20) << "four slices";
  EXPECT_FALSE(plan.scheduler().has_slice_bytes()) << "the checkpoint has slices";
}

}  // namespace
}  // namespace capstan
