#include "server/coordinator/device_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(DeviceKindsTest, ABspJobWhoseWorkersDifferSaysSoOnce) {
  DeviceKinds kinds((v1::CheckpointManifest()));
  EXPECT_EQ(kinds.Report(1, "cpu (A, OpenBLAS Zen)", /*is_bsp=*/true), "");
  EXPECT_EQ(kinds.Report(0, "cpu (A, OpenBLAS Haswell)", /*is_bsp=*/true),
            "worker 1 computes on A, OpenBLAS Zen, and worker 0 on A, OpenBLAS Haswell: the "
            "parameters' bits depend on who computes what");
  EXPECT_EQ(kinds.Report(2, "cuda:0 (C)", /*is_bsp=*/true), "");
  EXPECT_EQ(kinds.notes().size(), 1u);
}

TEST(DeviceKindsTest, NumbersOfGpusAndDevicesWithoutAKindAreAllTheSame) {
  DeviceKinds kinds((v1::CheckpointManifest()));
  for (const char* const device : {"cuda:0 (C)", "cuda:1 (C)", "cpu", "", "odd)("}) {
    EXPECT_EQ(kinds.Report(0, device, /*is_bsp=*/true), "") << device;
  }
}

TEST(DeviceKindsTest, OnlyBspPromisesBits) {
  DeviceKinds kinds((v1::CheckpointManifest()));
  EXPECT_EQ(kinds.Report(0, "cpu (A)", /*is_bsp=*/false), "");
  EXPECT_EQ(kinds.Report(1, "cpu (B)", /*is_bsp=*/false), "");
}

TEST(DeviceKindsTest, AJobThatGoesOnOnAnotherKindSaysSoOnce) {
  DeviceKinds kinds(Restored({"cpu (A)", "cuda:0 (C)"}));
  EXPECT_EQ(kinds.Report(0, "cuda:1 (C)", /*is_bsp=*/true), "");
  const std::string note = kinds.Report(1, "cpu (B)", /*is_bsp=*/false);
  EXPECT_EQ(note,
            "worker 1 computes on B, and the workers before the checkpoint of step 40 on A and C: "
            "the parameters' bits are not those of an undisturbed job");
  EXPECT_EQ(kinds.Report(1, "cpu (B)", /*is_bsp=*/false), "");
  EXPECT_THAT(kinds.notes(), ElementsAre(note));
}

TEST(DeviceKindsTest, ACheckpointThatNamesNoKindFitsAll) {
  DeviceKinds kinds(Restored({"cpu", ""}));
  EXPECT_EQ(kinds.Report(0, "cpu (B)", /*is_bsp=*/true), "");
}

}  // namespace
}  // namespace capstan
