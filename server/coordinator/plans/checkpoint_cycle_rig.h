#ifndef SERVER_COORDINATOR_PLANS_CHECKPOINT_CYCLE_RIG_H_
#define SERVER_COORDINATOR_PLANS_CHECKPOINT_CYCLE_RIG_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/plans/checkpoint_cycle.h"

namespace capstan {

inline constexpr size_t kServers = 2;

// Names checkpoints "c1", "c2", ..., and answers as told.
class FakeStorage : public CheckpointStorage {
 public:
  uint64_t token() const override { return 1; }
  std::string PathOf(const std::string& name) const override { return name; }
  absl::StatusOr<std::string> Create() override {
    if (!created.ok()) return created;
    return absl::StrCat("c", ++count);
  }
  absl::Status Publish(const std::string& name, const v1::CheckpointManifest&) override {
    published_name = name;
    return published;
  }
  void Discard(const std::string& name) override { discarded_name = name; }
  absl::Status RemoveOld(uint32_t keep) override {
    kept = keep;
    return removed;
  }

  absl::Status created, published, removed;
  std::string published_name, discarded_name;
  uint32_t kept = 0;
  int count = 0;
};

inline v1::CheckpointSpec EverySteps(uint64_t steps) {
  v1::CheckpointSpec spec;
  spec.set_dir("dir");
  spec.set_steps(steps);
  return spec;
}

inline v1::CheckpointSpec EverySeconds(double seconds) {
  v1::CheckpointSpec spec = EverySteps(0);
  spec.set_seconds(seconds);
  return spec;
}

// A cycle, with the coordinator and 2 servers around it. The training has 100 steps under BSP.
class CycleRig {
 public:
  explicit CycleRig(const v1::CheckpointSpec& spec, int64_t restored_step = 0)
      : cycle(spec, restored_step) {
    training.now = absl::UnixEpoch();
    training.steps_total = 100;
    training.is_bsp = true;
  }

  bool Begin() { return cycle.Begin(training); }
  absl::StatusOr<std::string> DoWork() {
    CheckpointCycle::Work work = cycle.TakeWork();
    if (work == nullptr) return absl::NotFoundError("there is no work");
    absl::StatusOr<std::string> result = work(storage);
    cycle.EndWork(result, training.now);
    return result;
  }
  v1::CheckpointOrder Order() const {
    v1::JobView view;
    cycle.WriteTo(view);
    return view.checkpoint();
  }
  v1::CheckpointStatus Status() const {
    v1::CheckpointStatus status;
    cycle.WriteTo(status);
    return status;
  }
  // What the coordinator does if a server's part is of no use.
  void Discard(const absl::Status& status) {
    cycle.Discard(status);
    EXPECT_EQ(DoWork().status(), status);
  }
  void Hold(uint32_t server, int64_t step) {
    v1::CheckpointPart part;
    part.set_number(Order().number());
    part.set_held_step(step);
    EXPECT_TRUE(cycle.Report(server, part).ok());
  }
  // From the beginning to the order with a step. Returns the step.
  int64_t Agree(int64_t held_step) {
    EXPECT_TRUE(Begin());
    EXPECT_TRUE(DoWork().ok());
    return AgreeOnStep(held_step);
  }
  int64_t AgreeOnStep(int64_t held_step) {
    EXPECT_TRUE(cycle.BeginAgreeing());
    for (uint32_t server = 0; server < kServers; ++server) Hold(server, held_step);
    EXPECT_TRUE(cycle.ChooseStep(kServers, training));
    return Order().step();
  }
  void EndPart(uint32_t server, uint64_t number) {
    v1::CheckpointPart part;
    part.set_number(number);
    part.set_has_ended(true);
    EXPECT_TRUE(cycle.Report(server, part).ok());
  }
  // The servers write, and the coordinator publishes the manifest with this step.
  absl::StatusOr<std::string> Complete(int64_t step) {
    for (uint32_t server = 0; server < kServers; ++server) EndPart(server, Order().number());
    EXPECT_NE(cycle.EndedParts(kServers), nullptr);
    v1::CheckpointManifest manifest;
    manifest.set_step(step);
    cycle.Publish(manifest);
    return DoWork();
  }

  FakeStorage storage;
  CheckpointCycle::Training training;
  CheckpointCycle cycle;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_PLANS_CHECKPOINT_CYCLE_RIG_H_
