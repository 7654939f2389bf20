#include "server/coordinator/plans/job_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "server/coordinator/members/example_facts.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using Parts = std::map<uint32_t, v1::CheckpointPart>;

// Writes a field.
class NotingPlan : public JobPlan {
 public:
  bool Settle(const JobFacts&, JobEvents&) override { return false; }
  void WriteToManifest(v1::CheckpointManifest& manifest) const override {
    manifest.mutable_job()->set_name("noted");
  }
};

void AddSteps(v1::CheckpointPart& part, uint32_t worker, int64_t least, int64_t most,
              bool is_live = true) {
  v1::WorkerSteps& steps = *part.add_workers();
  steps.set_worker(worker);
  steps.set_least(least);
  steps.set_most(most);
  steps.set_is_live(is_live);
}

TEST(JobManifestTest, HasTheFactsAndWhatPlansWrite) {
  RestorePoint restored;
  restored.manifest.set_workers_lost(3);
  restored.manifest.add_replaced_workers()->set_samples(5);
  restored.manifest.set_training_seconds(100);
  ExampleFacts example(/*num_servers=*/1, /*num_workers=*/1, {}, restored);
  example.TakeTables(std::vector<uint64_t>{64});
  ASSERT_TRUE(example.facts.training.ReportSteps(0, 50).ok());
  example.facts.training.Begin(example.clock.Now());
  example.clock.Advance(absl::Seconds(7));
  example.facts.has_other_bits = true;
  example.facts.view.add_consistency()->set_first_step(6);
  example.Worker(0).end = "it is gone";
  example.Worker(0).progress.set_samples(8);
  ASSERT_TRUE(example.facts.members.TakePlaceOfDeadWorker(Incarnation(7)).ok());
  NotingPlan plan;
  const v1::CheckpointManifest manifest = ManifestOfJob(example.facts, {&plan});
  EXPECT_EQ(manifest.job().name(), "noted");
  EXPECT_EQ(manifest.steps_total(), 50);
  EXPECT_EQ(manifest.tables_size(), 1);
  EXPECT_EQ(manifest.consistency(0).first_step(), 6);
  EXPECT_EQ(manifest.training_seconds(), 107);
  EXPECT_EQ(manifest.workers_lost(), 4u);
  ASSERT_EQ(manifest.replaced_workers_size(), 2);
  EXPECT_EQ(manifest.replaced_workers(0).samples(), 5u);
  EXPECT_EQ(manifest.replaced_workers(1).samples(), 8u);
  EXPECT_TRUE(manifest.has_other_bits());
}

TEST(JobManifestTest, AWorkerGoesOnAtTheFirstStepThatSomeSliceLacks) {
  ExampleFacts example(/*num_servers=*/2, /*num_workers=*/2);
  example.Worker(0).progress.set_steps_done(20);
  example.Worker(0).progress.set_samples(200);
  Parts parts;
  AddSteps(parts[0], 0, /*least=*/10, /*most=*/12);
  AddSteps(parts[1], 0, /*least=*/11, /*most=*/13);
  AddSteps(parts[0], 1, /*least=*/14, /*most=*/14);
  AddSteps(parts[1], 1, /*least=*/14, /*most=*/15);
  parts[1].set_end_step(16);
  v1::CheckpointManifest manifest;
  ASSERT_TRUE(AddParts(parts, example.facts, manifest).ok());
  EXPECT_EQ(manifest.workers(0).first_step(), 10);
  EXPECT_EQ(manifest.workers(0).progress().samples(), 100u) << "until then";
  EXPECT_EQ(manifest.workers(1).first_step(), 14);
  EXPECT_EQ(manifest.step(), 10) << "of the slowest";
  EXPECT_EQ(manifest.end_step(), 16);
}

TEST(JobManifestTest, InThePlaceOfALostWorkerOneBeginsWhereNoSliceHasItsSteps) {
  ExampleFacts example(/*num_servers=*/1, /*num_workers=*/2);
  Parts parts;
  AddSteps(parts[0], 0, /*least=*/5, /*most=*/8, /*is_live=*/false);
  AddSteps(parts[0], 1, /*least=*/10, /*most=*/10);
  v1::CheckpointManifest manifest;
  ASSERT_TRUE(AddParts(parts, example.facts, manifest).ok());
  EXPECT_EQ(manifest.workers(0).first_step(), 8);
  EXPECT_EQ(manifest.step(), 10) << "of the slowest live worker";
}

TEST(JobManifestTest, AWorkerThatEnteredBetweenTwoCutsGoesOnNoEarlier) {
  ExampleFacts example;
  example.facts.members.BeginAt(0, Step(7));
  Parts parts;
  AddSteps(parts[0], 0, /*least=*/3, /*most=*/9);
  v1::CheckpointManifest manifest;
  ASSERT_TRUE(AddParts(parts, example.facts, manifest).ok());
  EXPECT_EQ(manifest.workers(0).first_step(), 7);
}

TEST(JobManifestTest, FilesAreInTheOrderOfShardsAndOnlyOfAServersOwn) {
  ExampleFacts example(/*num_servers=*/2);
  for (const uint32_t server : {1, 0, 1}) example.facts.view.add_server_of_shard(server);
  Parts parts;
  parts[0].add_files()->set_shard(1);
  parts[1].add_files()->set_shard(2);
  parts[1].add_files()->set_shard(0);
  v1::CheckpointManifest manifest;
  ASSERT_TRUE(AddParts(parts, example.facts, manifest).ok());
  ASSERT_EQ(manifest.files_size(), 3);
  for (int shard = 0; shard < 3; ++shard) EXPECT_EQ(manifest.files(shard).shard(), shard);
  for (const uint32_t shard : {0, 3}) {
    parts[0].mutable_files(0)->set_shard(shard);
    const absl::Status status = AddParts(parts, example.facts, manifest);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("server 0: expected the files of its own shards"));
  }
}

TEST(JobManifestTest, AServersErrorIsThatOfTheCheckpoint) {
  ExampleFacts example;
  Parts parts;
  parts[0].set_error("the disk is full");
  v1::CheckpointManifest manifest;
  const absl::Status status = AddParts(parts, example.facts, manifest);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(status.message(), "server 0: the disk is full");
}

}  // namespace
}  // namespace capstan
