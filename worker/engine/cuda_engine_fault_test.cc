// A GPU's failure ends the training with an error, and nothing hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/base/real_clock.h"
#include "kernels/cuda/emulator/emulator.h"
#include "worker/engine/cuda_engine.h"
#include "worker/engine/training_rig.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

EngineOptions SmallModel(Clock* clock) {
  EngineOptions options;
  options.model.add_hidden(8);
  options.feature_count = 4;
  options.class_count = 3;
  options.max_samples = 8;
  options.clock = clock;
  return options;
}

absl::Status StartupError(const emulator::MachineOptions& machine) {
  emulator::SetMachine(machine);
  RealClock clock;
  return MakeCudaEngine(/*device_number=*/0, SmallModel(&clock)).status();
}

TEST(CudaEngineFaultTest, WhatIsMissingAtTheStartIsSaid) {
  emulator::MachineOptions machine;
  machine.gpu_count = 0;
  EXPECT_EQ(StartupError(machine).code(), absl::StatusCode::kUnavailable);
  machine.gpu_count = 1;
  machine.driver_version = 0;
  EXPECT_EQ(StartupError(machine).code(), absl::StatusCode::kUnavailable);
  machine.driver_version = 13000;
  machine.has_kernels = false;
  EXPECT_EQ(StartupError(machine).code(), absl::StatusCode::kFailedPrecondition);
  machine.has_kernels = true;
  machine.gpu_memory_bytes = 32 << 20;
  const absl::Status no_memory = StartupError(machine);
  EXPECT_EQ(no_memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(no_memory.message()),
              HasSubstr("free bytes for parameters and their gradients"));
  machine.gpu_memory_bytes = size_t{1} << 30;
  machine.pinned_memory_bytes = 100;
  EXPECT_EQ(StartupError(machine).code(), absl::StatusCode::kResourceExhausted);
}

// The error of training ten steps; OK when all went well.
absl::Status Train(Clock* clock) {
  auto engine = MakeCudaEngine(/*device_number=*/0, SmallModel(clock));
  if (!engine.ok()) return engine.status();
  auto rig = TrainingRig::Create(engine->get(), clock, {});
  if (!rig.ok()) return rig.status();
  const Dataset dataset = RandomDataset(/*samples=*/8, /*features=*/4, /*classes=*/3, /*seed=*/1);
  for (int step = 0; step < 10; ++step) {
    const auto loss = (*rig)->Step(dataset, {0, 1, 2, 3, 4, 5, 6, 7});
    if (!loss.ok()) return loss.status();
  }
  return (*rig)->Finish();
}

TEST(CudaEngineFaultTest, AKernelOrACopyThatFailsAtAnyTimeEndsTheTraining) {
  RealClock clock;
  for (int skip = 0; skip < 60; skip += 3) {
    for (const bool is_copy : {false, true}) {
      emulator::SetMachine({});
      is_copy ? emulator::FailCopy(skip) : emulator::FailLaunch(skip);
      const absl::Status status = Train(&clock);
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << skip << is_copy << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("cudaErrorIllegalAddress"));
    }
  }
  emulator::SetMachine({});
  EXPECT_TRUE(Train(&clock).ok());
  EXPECT_EQ(emulator::AllocatedBytes(/*number=*/0), 0u);
}

}  // namespace
}  // namespace capstan
