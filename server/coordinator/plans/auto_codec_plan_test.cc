#include "server/coordinator/plans/auto_codec_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "server/coordinator/members/example_facts.h"

namespace capstan {
namespace {

constexpr uint64_t kSliceBytes = 1 << 20;

v1::JobSpec Job(const std::string& push = "auto", const std::string& pull = "auto") {
  v1::JobSpec job;
  job.mutable_cluster()->set_num_workers(2);
  job.mutable_cluster()->set_num_servers(2);
  job.mutable_codec()->set_push(push);
  job.mutable_codec()->set_pull(pull);
  return job;
}

// 40 MB and 4 kB.
std::vector<v1::TableSpec> Tables() {
  std::vector<v1::TableSpec> tables(2);
  tables[0].set_name("large");
  tables[0].add_shape(10'000'000);
  tables[1].set_name("small");
  tables[1].add_shape(1000);
  return tables;
}

// int8 encodes 2 GB/s and decodes 4 GB/s.
v1::LinkReport Links(double bytes_per_second) {
  v1::LinkReport report;
  report.mutable_slowest()->set_bytes_per_second(bytes_per_second);
  report.mutable_slowest()->set_encode_bytes_per_second(2e9);
  report.mutable_slowest()->set_decode_bytes_per_second(4e9);
  return report;
}

v1::Progress Steps(int64_t steps, double seconds, double waiting) {
  v1::Progress progress;
  progress.set_steps_done(steps);
  progress.set_median_step_seconds(seconds);
  progress.set_seconds(seconds * static_cast<double>(steps));
  progress.set_seconds_waiting(waiting * static_cast<double>(steps));
  return progress;
}

void Place(AutoCodecPlan& plan, const std::vector<v1::TableSpec>& tables = Tables()) {
  ExampleFacts example;
  example.TakeTables(tables, kSliceBytes);
  example.facts.view.mutable_scheduler()->set_slice_bytes(kSliceBytes);
  plan.OnPlacement(example.facts);
}

bool Settle(AutoCodecPlan& plan, const std::vector<v1::Progress>& computing,
            bool has_rounds = false) {
  ExampleFacts example(/*num_servers=*/2, static_cast<uint32_t>(computing.size()));
  if (has_rounds) example.facts.view.mutable_local_steps()->set_sync_every(50);
  for (uint32_t id = 0; id < computing.size(); ++id) example.Worker(id).progress = computing[id];
  return plan.Settle(example.facts, example.events);
}

// The choice after 10 steps of both workers.
v1::AutoCodecs ChoiceOf(const v1::JobSpec& job, const v1::LinkReport& links, double seconds,
                        double waiting) {
  AutoCodecPlan plan(job, {}, links);
  Place(plan);
  const v1::Progress progress = Steps(10, seconds, waiting);
  EXPECT_TRUE(Settle(plan, {progress, progress}));
  EXPECT_TRUE(plan.has_chosen());
  return plan.choice();
}

// 40 MB take 3.2 s on 0.1 Gbit/s; encoded 3.94 times less. Coding takes
//   (40 + 40 / 2) / 2000 + (40 + 40 * 2 / 2) / 4000 = 0.05 s.
TEST(AutoCodecPlanTest, AThinLinkIsWorthTheCoding) {
  const v1::AutoCodecs choice = ChoiceOf(Job(), Links(12.5e6), /*seconds=*/3.5, /*waiting=*/3.1);
  EXPECT_EQ(choice.first_step(), 10 + 1 + 1);
  EXPECT_EQ(choice.text(),
            "int8 from step 12 on for all tables that have it, because a step of 3.5 s waits 3.1 s "
            "for the network; on links of 0.1 Gbit/s int8 saves 2.39 s, and coding takes 0.05 s");
}

TEST(AutoCodecPlanTest, AFastLinkIsNot) {
  const v1::AutoCodecs choice = ChoiceOf(Job(), Links(2.5e9), 0.1, 0.05);
  EXPECT_EQ(choice.first_step(), 0);
  EXPECT_EQ(choice.text(),
            "float32, because a step of 0.1 s waits 0.05 s for the network; on links of 20 Gbit/s "
            "int8 saves 0.0119 s, and coding takes 0.05 s");
}

TEST(AutoCodecPlanTest, ANetworkThatIsHiddenByComputingIsNot) {
  EXPECT_GT(ChoiceOf(Job(), Links(125e6), 1, 0.06).first_step(), 0);
  EXPECT_EQ(ChoiceOf(Job(), Links(125e6), 1, 0.04).first_step(), 0) << "less than the coding";
}

// Links carry both ways at once, so the other way takes as long as before.
TEST(AutoCodecPlanTest, OneWayAloneGainsNothing) {
  EXPECT_EQ(ChoiceOf(Job("auto", "float32"), Links(12.5e6), 3.5, 3.1).first_step(), 0);
  EXPECT_GT(ChoiceOf(Job("auto", "int8"), Links(12.5e6), 3.5, 3.1).first_step(), 0);
}

TEST(AutoCodecPlanTest, WithoutLinksOrTablesNothingIsEncoded) {
  EXPECT_EQ(ChoiceOf(Job(), v1::LinkReport(), 1, 1).text(),
            "float32, because there are no links that were measured");
  v1::JobSpec job = Job();
  job.mutable_codec()->set_min_bytes(1 << 30);
  EXPECT_EQ(ChoiceOf(job, Links(1e6), 1, 1).text(),
            "float32, because no table is large enough (--field=codec.min_bytes)");
  v1::TableCodec& own = *job.mutable_codec()->add_table_codec();
  own.set_table("small");
  own.set_codec("auto");
  EXPECT_GT(ChoiceOf(job, Links(1e4), 1, 1).first_step(), 0) << "a codec of its own";
}

// The larger table saves the 0.2 s for which a step waits. Nothing is left for the other.
TEST(AutoCodecPlanTest, EachTableIsWeighedAgainstWhatIsLeftOfTheWait) {
  const v1::LinkReport links = Links(125e6);
  std::vector<v1::TableSpec> tables = Tables();
  tables[1].set_shape(0, 20'000'000);
  AutoCodecPlan plan(Job(), {}, links);
  Place(plan, tables);
  const v1::Progress progress = Steps(10, 1, 0.2);
  ASSERT_TRUE(Settle(plan, {progress}));
  ASSERT_EQ(plan.choice().tables_size(), 1);
  EXPECT_EQ(plan.choice().tables(0), 1u);
  EXPECT_EQ(plan.choice().text().rfind("int8 from step 12 on for the tables small, because", 0), 0u)
      << plan.choice().text();
}

// The first worker waits for the second one, which computes.
TEST(AutoCodecPlanTest, WaitingForASlowWorkerIsNoWaitForTheNetwork) {
  const v1::LinkReport links = Links(12.5e6);
  AutoCodecPlan plan(Job(), {}, links);
  Place(plan);
  const v1::Progress fast = Steps(10, 1, 0.9), slow = Steps(10, 1, 0.02);
  ASSERT_TRUE(Settle(plan, {fast, slow}));
  EXPECT_EQ(plan.choice().first_step(), 0);
}

TEST(AutoCodecPlanTest, EveryComputingWorkerHasDoneTenSteps) {
  const v1::LinkReport links = Links(12.5e6);
  AutoCodecPlan plan(Job(), {}, links);
  Place(plan);
  const v1::Progress ten = Steps(10, 3.5, 3.1), nine = Steps(9, 3.5, 3.1);
  EXPECT_FALSE(Settle(plan, {}));
  EXPECT_FALSE(Settle(plan, {ten, nine}));
  EXPECT_FALSE(plan.has_chosen());
  EXPECT_TRUE(Settle(plan, {ten}));
  EXPECT_FALSE(Settle(plan, {ten})) << "once";
}

TEST(AutoCodecPlanTest, FiveRoundsOfLocalStepsAreEnough) {
  const v1::LinkReport links = Links(12.5e6);
  AutoCodecPlan plan(Job(), {}, links);
  Place(plan);
  const v1::Progress four = Steps(4, 100, 3.1), five = Steps(5, 100, 3.1);
  EXPECT_FALSE(Settle(plan, {four, five}, /*has_rounds=*/true));
  EXPECT_FALSE(Settle(plan, {five, five}));
  EXPECT_TRUE(Settle(plan, {five, five}, /*has_rounds=*/true));
  EXPECT_EQ(plan.choice().text().find("int8 from round 7 on for all tables that have it, because a "
                                      "round of 100 s waits 3.1 s"),
            0u);
}

TEST(AutoCodecPlanTest, FiguresThatAreNoneChooseFloat32) {
  const double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(ChoiceOf(Job(), Links(kNan), 1, 1).first_step(), 0);
  EXPECT_EQ(ChoiceOf(Job(), Links(1e6), kNan, 1).first_step(), 0);
  EXPECT_EQ(ChoiceOf(Job(), Links(1e6), 1, kNan).first_step(), 0);
  EXPECT_EQ(ChoiceOf(Job(), Links(1e6), 1, -1).first_step(), 0);
}

TEST(AutoCodecPlanTest, AJobWithoutAutoCodecsHasNoChoice) {
  const v1::LinkReport links = Links(1e6);
  AutoCodecPlan plan(Job("int8", "bfloat16"), {}, links);
  Place(plan);
  const v1::Progress progress = Steps(10, 1, 1);
  EXPECT_FALSE(Settle(plan, {progress}));
  EXPECT_FALSE(plan.is_wanted());
}

TEST(AutoCodecPlanTest, ARestoredJobKeepsTheChoiceAndElseMakesItAfterTenSteps) {
  const v1::LinkReport links = Links(12.5e6);
  v1::CheckpointManifest manifest;
  manifest.set_step(100);
  AutoCodecPlan undecided(Job(), manifest, links);
  Place(undecided);
  const v1::Progress few = Steps(109, 3.5, 3.1), enough = Steps(110, 3.5, 3.1);
  EXPECT_FALSE(Settle(undecided, {few}));
  EXPECT_TRUE(Settle(undecided, {enough}));
  EXPECT_TRUE(undecided.is_lasting());
  const v1::LinkReport none;
  AutoCodecPlan unmeasured(Job(), manifest, none);
  Place(unmeasured);
  EXPECT_TRUE(Settle(unmeasured, {enough}));
  EXPECT_FALSE(unmeasured.is_lasting()) << "another machine may have links";
  manifest.mutable_auto_codecs()->set_first_step(40);
  manifest.mutable_auto_codecs()->set_text("because");
  AutoCodecPlan decided(Job(), manifest, links);
  EXPECT_TRUE(decided.has_chosen());
  EXPECT_EQ(decided.choice().first_step(), 40);
}

TEST(AutoCodecPlanTest, NothingIsChosenOnceTheTrainingHasEnded) {
  const v1::LinkReport links = Links(12.5e6);
  AutoCodecPlan plan(Job(), {}, links);
  Place(plan);
  ExampleFacts example;
  example.Worker(0).progress = Steps(10, 3.5, 3.1);
  example.facts.view.set_phase(v1::EVALUATING);
  EXPECT_FALSE(plan.Settle(example.facts, example.events));
  example.facts.view.set_phase(v1::TRAINING);
  EXPECT_TRUE(plan.Settle(example.facts, example.events));
  EXPECT_EQ(example.events.size(), 1u);
}

TEST(AutoCodecPlanTest, WhatWasMeasuredBeforeAServerWasLostIsVoid) {
  const v1::LinkReport links = Links(12.5e6);
  AutoCodecPlan plan(Job(), {}, links);
  Place(plan);
  ExampleFacts example(/*num_servers=*/2, /*num_workers=*/2);
  const auto report = [&](int64_t steps, double seconds, double waiting, uint64_t view_version) {
    for (const uint32_t id : {0, 1}) {
      Member& worker = example.Worker(id);
      worker.progress = Steps(steps, 1, 0);
      worker.progress.set_seconds(seconds);
      worker.progress.set_seconds_waiting(waiting);
      worker.view_version = view_version;
    }
    return plan.Settle(example.facts, example.events);
  };
  example.facts.view.set_version(4);
  EXPECT_FALSE(report(/*steps=*/9, /*seconds=*/9, /*waiting=*/0, /*view_version=*/4));
  plan.OnServerLost({0, /*moves_shards=*/true}, example.facts);
  EXPECT_FALSE(report(12, 12, 0, /*view_version=*/4)) << "they have not heard of it";
  EXPECT_FALSE(report(14, 14, 0, 5)) << "a step is under way";
  EXPECT_FALSE(report(15, 1000, 980, 5)) << "it has waited";
  EXPECT_FALSE(report(24, 1009, 980, 5));
  EXPECT_TRUE(report(25, 1010, 980, 5));
  EXPECT_EQ(plan.choice().first_step(), 0) << "nobody has waited since: " << plan.choice().text();
}

}  // namespace
}  // namespace capstan
