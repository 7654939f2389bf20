#include "server/coordinator/plans/device_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/coordinator/members/example_facts.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

v1::CheckpointManifest Restored(const std::vector<std::string>& devices) {
  v1::CheckpointManifest manifest;
  manifest.set_step(40);
  for (const std::string& device : devices) {
    manifest.add_workers()->mutable_progress()->set_device(device);
  }
  return manifest;
}

// The kinds of a job with one period of consistency.
struct Rig {
  explicit Rig(const v1::CheckpointManifest& restored = {}, bool is_bsp = true)
      : consistency(Consistency(is_bsp)), kinds(restored, consistency) {}

  static v1::ConsistencySpec Consistency(bool is_bsp) {
    v1::ConsistencySpec spec;
    spec.set_mode(is_bsp ? v1::ConsistencySpec::BSP : v1::ConsistencySpec::ASYNC);
    return spec;
  }
  // What is noted when the worker reports its device; empty: nothing.
  std::string Report(uint32_t worker, const std::string& device) {
    v1::HeartbeatRequest heartbeat = HeartbeatOf({v1::HeartbeatRequest::WORKER, worker});
    heartbeat.mutable_progress()->set_device(device);
    EXPECT_TRUE(kinds.Report(heartbeat).ok());
    ExampleFacts example;
    EXPECT_FALSE(kinds.Settle(example.facts, example.events)) << "members need not hear of it";
    return example.events.empty() ? "" : example.events[0].text;
  }

  ConsistencyPlan consistency;
  DeviceKinds kinds;
};

TEST(DeviceKindsTest, ABspJobWhoseWorkersDifferSaysSoOnce) {
  Rig rig;
  EXPECT_EQ(rig.Report(1, "cpu (A, OpenBLAS Zen)"), "");
  EXPECT_EQ(rig.Report(0, "cpu (A, OpenBLAS Haswell)"),
            "worker 1 computes on A, OpenBLAS Zen, and worker 0 on A, OpenBLAS Haswell: the "
            "parameters' bits depend on who computes what");
  EXPECT_EQ(rig.Report(2, "cuda:0 (C)"), "");
  EXPECT_EQ(rig.kinds.notes().size(), 1u);
}

TEST(DeviceKindsTest, NumbersOfGpusAndDevicesWithoutAKindAreAllTheSame) {
  Rig rig;
  for (const char* const device : {"cuda:0 (C)", "cuda:1 (C)", "cpu", "", "odd)("}) {
    EXPECT_EQ(rig.Report(0, device), "") << device;
  }
}

TEST(DeviceKindsTest, OnlyBspPromisesBits) {
  Rig rig({}, /*is_bsp=*/false);
  EXPECT_EQ(rig.Report(0, "cpu (A)"), "");
  EXPECT_EQ(rig.Report(1, "cpu (B)"), "");
}

TEST(DeviceKindsTest, AJobThatGoesOnOnAnotherKindSaysSoOnce) {
  Rig rig(Restored({"cpu (A)", "cuda:0 (C)"}), /*is_bsp=*/false);
  EXPECT_EQ(rig.Report(0, "cuda:1 (C)"), "");
  const std::string note = rig.Report(1, "cpu (B)");
  EXPECT_EQ(note,
            "worker 1 computes on B, and the workers before the checkpoint of step 40 on A and C: "
            "the parameters' bits are not those of an undisturbed job");
  EXPECT_EQ(rig.Report(1, "cpu (B)"), "");
  EXPECT_THAT(rig.kinds.notes(), ElementsAre(note));
}

TEST(DeviceKindsTest, ACheckpointThatNamesNoKindFitsAll) {
  Rig rig(Restored({"cpu", ""}));
  EXPECT_EQ(rig.Report(0, "cpu (B)"), "");
}

}  // namespace
}  // namespace capstan
