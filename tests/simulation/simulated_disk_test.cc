#include "tests/simulation/simulated_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/simulated_clock.h"
#include "common/history/history.h"
#include "tests/simulation/restored_updates.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kWorkers = 2;
constexpr int64_t kSteps = 4;

using Updates = std::vector<std::pair<uint32_t, int64_t>>;  // worker and step

Payload Owned(std::vector<float> values) {
  const auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  return Payload(absl::MakeConstSpan(*owner), owner);
}

// A shard of one slice with these updates. Worker 0's step vector claims everything.
ShardSnapshot ShardWith(const Updates& updates) {
  ShardSnapshot shard;
  shard.shard = ShardId(1);
  SliceSnapshot& slice = shard.slices.emplace_back();
  slice.key = {TableId(3), SliceIndex(5)};
  slice.schedule = {{Step(0), ConsistencyMode::kBsp}};
  slice.workers = {{WorkerId(0), Step(kSteps), true}};
  std::vector<float> values(kWorkers * kSteps);
  for (const auto& [worker, step] : updates) {
    values[TestElement(WorkerId(worker), Step(step), kSteps)] += kTestUpdate / 2;
  }
  slice.values = Owned(values);
  return shard;
}

class SimulatedDiskTest : public testing::Test {
 protected:
  // Runs `body` on a thread of the server's process until it ends.
  void RunOnServer(std::function<void()> body) {
    server_.Spawn(std::move(body));
    world_.RunUntil(absl::InfiniteFuture());
  }
  // Writes and finishes shard 1.
  absl::Status Write(SimulatedDisk& disk, const std::string& name, bool finish = true) {
    absl::Status status;
    RunOnServer([&] {
      const auto storage = disk.OpenForServer(&server_);
      const auto file = storage->Write(name, ShardWith({{0, 0}}));
      status = file.status();
      if (status.ok() && finish) status = storage->Finish(name, {*file});
    });
    return status;
  }
  absl::Status Read(SimulatedDisk& disk, const std::string& name) {
    absl::Status status;
    v1::ShardFile file;
    file.set_shard(1);
    RunOnServer([&] { status = disk.OpenForServer(&server_)->Read(name, file).status(); });
    return status;
  }

  SimulatedClock world_;
  SimulatedProcess server_{&world_};
};

TEST_F(SimulatedDiskTest, ACheckpointIsCompleteWithItsManifestAndOnlyThen) {
  SimulatedDisk disk({absl::Milliseconds(5)}, /*seed=*/1);
  const auto coordinator = disk.OpenForCoordinator();
  const std::string name = coordinator->Create().value();
  const absl::Time before = world_.Now();
  ASSERT_TRUE(Write(disk, name).ok());
  EXPECT_GT(world_.Now(), before) << "writing takes time";
  EXPECT_LE(world_.Now(), before + absl::Milliseconds(10));
  EXPECT_EQ(disk.Newest(), "");
  ASSERT_TRUE(coordinator->Publish(name, {}).ok());
  EXPECT_EQ(disk.Newest(), name);
  EXPECT_TRUE(Read(disk, name).ok());
}

TEST_F(SimulatedDiskTest, AFileWithoutItsOwnNameCannotBeRead) {
  SimulatedDisk disk({}, /*seed=*/1);
  const auto coordinator = disk.OpenForCoordinator();
  const std::string name = coordinator->Create().value();
  ASSERT_TRUE(Write(disk, name, /*finish=*/false).ok());
  ASSERT_TRUE(coordinator->Publish(name, {}).ok());
  EXPECT_TRUE(absl::IsNotFound(Read(disk, name)));
}

TEST_F(SimulatedDiskTest, OldOnesAreRemovedUpToTheNumberToKeep) {
  SimulatedDisk disk({}, /*seed=*/1);
  const auto coordinator = disk.OpenForCoordinator();
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) {
    names.push_back(coordinator->Create().value());
    ASSERT_TRUE(coordinator->Publish(names.back(), {}).ok());
  }
  names.push_back(coordinator->Create().value());
  ASSERT_TRUE(coordinator->RemoveOld(2).ok());
  EXPECT_EQ(disk.Newest(), names[2]);
  EXPECT_TRUE(absl::IsNotFound(Write(disk, names[0])));
  EXPECT_TRUE(Write(disk, names[1]).ok());
  EXPECT_TRUE(Write(disk, names[3]).ok()) << "it may become complete";
}

TEST_F(SimulatedDiskTest, AnIncompleteOneIsRemovedWhenItIsDiscardedOrAnotherOneBegins) {
  SimulatedDisk disk({}, /*seed=*/1);
  const auto coordinator = disk.OpenForCoordinator();
  const std::string complete = coordinator->Create().value();
  ASSERT_TRUE(coordinator->Publish(complete, {}).ok());
  const std::string discarded = coordinator->Create().value();
  ASSERT_TRUE(Write(disk, discarded).ok());
  coordinator->Discard(discarded);
  EXPECT_TRUE(absl::IsNotFound(Write(disk, discarded)));
  const std::string forgotten = coordinator->Create().value();
  ASSERT_TRUE(Write(disk, forgotten).ok());
  const std::string next = coordinator->Create().value();
  EXPECT_TRUE(absl::IsNotFound(Write(disk, forgotten)));
  EXPECT_TRUE(Write(disk, next).ok());
  EXPECT_TRUE(Write(disk, complete).ok());
}

TEST_F(SimulatedDiskTest, AfterTheEndOfALifeItsProcessesChangeNothing) {
  SimulatedDisk disk({}, /*seed=*/1);
  const auto coordinator = disk.OpenForCoordinator();
  const std::string name = coordinator->Create().value();
  absl::Status written;
  RunOnServer([&] {
    const auto storage = disk.OpenForServer(&server_);
    disk.EndLife();
    written = storage->Write(name, ShardWith({})).status();
  });
  EXPECT_FALSE(written.ok());
  EXPECT_FALSE(coordinator->Create().ok());
  EXPECT_FALSE(coordinator->Publish(name, {}).ok());
  EXPECT_EQ(disk.Newest(), "");
  EXPECT_TRUE(disk.OpenForCoordinator()->Publish(name, {}).ok()) << "the next life goes on";
}

TEST_F(SimulatedDiskTest, WritingFailsAsOftenAsTold) {
  SimulatedDisk disk({absl::ZeroDuration(), /*failures=*/0.25}, /*seed=*/1);
  const std::string name = disk.OpenForCoordinator()->Create().value();
  int failures = 0;
  RunOnServer([&] {
    const auto storage = disk.OpenForServer(&server_);
    for (int i = 0; i < 400; ++i) failures += !storage->Write(name, ShardWith({})).ok();
  });
  EXPECT_GT(failures, 60);
  EXPECT_LT(failures, 140);
}

Scenario Life() {
  Scenario life;
  life.job.mutable_cluster()->set_num_workers(kWorkers);
  life.steps = kSteps;
  life.tables.resize(4);
  return life;
}

TEST(RestoredUpdatesTest, PushesWithoutAGradientAreAmongTheCompletedSteps) {
  Scenario life = Life();
  life.program.emplace().idle = 1;
  SliceSnapshot slice = ShardWith({}).slices[0];
  slice.workers = {{WorkerId(1), Step(2), true}};
  const v1::RestoredSlice restored = UpdatesOf(slice, life);
  ASSERT_EQ(restored.updates_size(), 2);
  EXPECT_EQ(restored.updates(1).worker(), 1u);
  EXPECT_EQ(restored.updates(1).step(), 1);
  EXPECT_TRUE(restored.updates(1).is_empty_push());
}

TEST(RestoredUpdatesTest, UpdatesAreReadFromTheValuesAndTheKeptPushes) {
  SliceSnapshot slice = ShardWith({{1, 2}, {0, 0}}).slices[0];
  slice.kept.push_back({Step(3), WorkerId(1), std::nullopt, Rates(), false, Payload(), nullptr});
  const v1::RestoredSlice restored = UpdatesOf(slice, Life());
  EXPECT_EQ(restored.table(), 3u);
  EXPECT_EQ(restored.slice(), 5u);
  ASSERT_EQ(restored.updates_size(), 3) << "the step vector's claims do not count";
  EXPECT_EQ(restored.updates(0).worker(), 0u);
  EXPECT_EQ(restored.updates(0).step(), 0);
  EXPECT_EQ(restored.updates(0).learning_rate_divisor(), 2u);
  EXPECT_EQ(restored.updates(1).worker(), 1u);
  EXPECT_EQ(restored.updates(1).step(), 2);
  EXPECT_EQ(restored.updates(2).step(), 3);
  EXPECT_EQ(restored.updates(2).learning_rate_divisor(), 0u) << "not applied yet";
}

TEST(RestoredUpdatesTest, EachUpdateBeforeAWorkersFirstStepMustBeThere) {
  SimulatedDisk::Checkpoint checkpoint;
  v1::CheckpointManifest& manifest = checkpoint.manifest.emplace();
  manifest.add_workers()->set_first_step(2);
  manifest.add_workers()->set_first_step(1);
  checkpoint.files[1].snapshot = ShardWith({{0, 0}, {0, 1}, {1, 0}, {1, 2}});
  EXPECT_EQ(MissingUpdates(checkpoint, Life()), "") << "more than that does no harm";
  manifest.mutable_workers(1)->set_first_step(3);
  EXPECT_THAT(MissingUpdates(checkpoint, Life()),
              HasSubstr("slice 5 of table 3 lacks the update of worker 1 at step 1, but the worker "
                        "goes on at step 3"));
}

}  // namespace
}  // namespace capstan
