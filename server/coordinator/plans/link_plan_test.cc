#include "server/coordinator/plans/link_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "server/coordinator/members/example_facts.h"

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

// The plan of a job whose members register.
class Rig {
 public:
  // The server and the workers are on hosts of their own, or on one.
  explicit Rig(const v1::JobSpec& job, uint32_t num_workers = 1,
               const std::vector<uint64_t>& table_elements = kLarge, bool is_one_host = false,
               const v1::CheckpointManifest& restored = {})
      : example_(/*num_servers=*/1, num_workers), plan(job, restored, output_) {
    example_.facts.view.set_phase(v1::REGISTERING);
    example_.TakeTables(table_elements);
    for (uint32_t id = 0; is_one_host && id < num_workers; ++id) {
      example_.Worker(id).host = example_.Server(0).host;
    }
  }

  bool Settle() { return plan.Settle(example_.facts, example_.events); }
  // All members have registered. True if workers have to measure.
  bool Begin() {
    EXPECT_FALSE(plan.has_settled());
    const bool has_news = Settle();
    v1::JobView view;
    plan.WriteToView(view);
    EXPECT_EQ(has_news, view.measures_links());
    EXPECT_EQ(has_news, !plan.has_settled());
    return has_news;
  }
  void Report(uint32_t worker, const v1::LinkMeasurement& links) {
    v1::HeartbeatRequest heartbeat = HeartbeatOf({v1::HeartbeatRequest::WORKER, worker});
    *heartbeat.mutable_links() = links;
    EXPECT_TRUE(plan.Report(heartbeat).ok());
  }

 private:
  const OutputPlan output_{v1::JobSpec()};
  ExampleFacts example_;

 public:
  LinkPlan plan;
};

// The schedule after one worker has measured this.
v1::SchedulerSpec Chosen(const v1::JobSpec& job, const v1::LinkMeasurement& links) {
  Rig rig(job);
  EXPECT_TRUE(rig.Begin());
  rig.Report(0, links);
  EXPECT_TRUE(rig.Settle());
  EXPECT_TRUE(rig.plan.has_settled());
  return rig.plan.scheduler();
}

bool Measures(const v1::JobSpec& job, const std::vector<uint64_t>& table_elements,
              bool is_one_host = false) {
  return Rig(job, 1, table_elements, is_one_host).Begin();
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
  EXPECT_TRUE(Measures({}, kLarge));
  v1::JobSpec compressed;
  compressed.mutable_codec()->set_push("auto");
  EXPECT_TRUE(Measures(compressed, {1000})) << "for the codec";
  EXPECT_FALSE(Measures({}, kLarge, /*is_one_host=*/true)) << "no network";
  EXPECT_FALSE(Measures({}, {2'000'000, 500'000})) << "10 MB";
  v1::JobSpec job;
  job.mutable_scheduler()->set_policy(v1::SchedulerSpec::TENSOR_FIFO);
  EXPECT_FALSE(Measures(job, kLarge)) << "tensors stay whole";
  job.mutable_scheduler()->set_policy(v1::SchedulerSpec::PRIORITY);
  job.mutable_scheduler()->set_slice_bytes(64);
  job.mutable_scheduler()->set_partition_bytes(0);
  EXPECT_TRUE(Measures(job, kLarge));
  job.mutable_scheduler()->set_credit_bytes(1);
  EXPECT_FALSE(Measures(job, kLarge)) << "nothing is left to choose";
}

TEST(LinkPlanTest, TheSlowestWorkerCounts) {
  Rig rig({}, /*num_workers=*/2);
  ASSERT_TRUE(rig.Begin());
  EXPECT_FALSE(rig.Settle());
  rig.Report(0, Links(2, 0.001));
  rig.Report(0, Links(1, 0.001));
  EXPECT_FALSE(rig.Settle()) << "worker 0 only";
  rig.Report(1, Links(4, 0.003));
  ASSERT_TRUE(rig.Settle());
  EXPECT_FALSE(rig.Settle());
  EXPECT_EQ(rig.plan.report().slowest().bytes_per_second(), 0.25e9);
  EXPECT_EQ(rig.plan.report().slowest().round_trip_seconds(), 0.003);
  EXPECT_EQ(rig.plan.report().text(),
            "2 Gbit/s both ways, round trip 3 ms, measured in 0.50 s: slice 256KiB, partition "
            "256KiB, credit 3MiB");
}

TEST(LinkPlanTest, WithoutAMeasurementTheDefaultsStay) {
  for (const double rate : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity()}) {
    Rig rig({}, /*num_workers=*/2);
    ASSERT_TRUE(rig.Begin());
    rig.Report(0, Links(1, 0.001));
    rig.Report(1, Links(rate, 0.001));
    ASSERT_TRUE(rig.Settle());
    EXPECT_FALSE(rig.plan.scheduler().has_slice_bytes()) << rate;
    EXPECT_EQ(rig.plan.report().text(), "not measured: worker 1 got no answer");
  }
  Rig rig{v1::JobSpec()};
  ASSERT_TRUE(rig.Begin());
  rig.Report(0, v1::LinkMeasurement());
  ASSERT_TRUE(rig.Settle());
  EXPECT_EQ(rig.plan.report().text(), "not measured: too few steps");
}

TEST(LinkPlanTest, ARestoredJobKeepsTheChoiceOfItsCheckpoint) {
  v1::CheckpointManifest manifest;
  v1::SchedulerSpec& before = *manifest.mutable_job()->mutable_scheduler();
  before.set_slice_bytes(128 << 10);
  before.set_partition_bytes(256 << 10);
  before.set_credit_bytes(1 << 20);
  v1::JobSpec job;
  job.mutable_scheduler()->set_credit_bytes(2 << 20);
  Rig rig(job, 1, kLarge, /*is_one_host=*/false, manifest);
  EXPECT_EQ(rig.plan.scheduler().slice_bytes(), 128u << 10);
  EXPECT_EQ(rig.plan.scheduler().partition_bytes(), 256u << 10);
  EXPECT_EQ(rig.plan.scheduler().credit_bytes(), 2u << 20) << "the job's own";
  EXPECT_FALSE(rig.Begin());
}

TEST(LinkPlanTest, ARestoredJobChoosesWhatItsCheckpointLeavesOpen) {
  v1::CheckpointManifest manifest;
  manifest.mutable_job()->mutable_scheduler();
  Rig rig({}, 1, kLarge, /*is_one_host=*/false, manifest);
  EXPECT_TRUE(rig.Begin()) << "it began on one machine";
  rig.Report(0, Links(0.1, 0));
  EXPECT_TRUE(rig.Settle());
  EXPECT_EQ(rig.plan.scheduler().credit_bytes(), 4u << 20) << "four slices";
  EXPECT_FALSE(rig.plan.scheduler().has_slice_bytes()) << "the checkpoint has slices";
}

}  // namespace
}  // namespace capstan
