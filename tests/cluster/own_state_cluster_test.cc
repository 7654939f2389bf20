// A job whose engines keep state of their own, and its lives from checkpoint to checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/real_clock.h"
#include "common/exchange/payload.h"
#include "common/tensor/slicing.h"
#include "server/checkpoint/manifest.h"
#include "tests/cluster/bsp_bits.h"
#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/local_cluster.h"
#include "tests/cluster/wrapped_engine.h"
#include "worker/client/own_state.h"
#include "worker/engine/cpu_engine.h"
#include "worker/engine/engine.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr uint64_t kSliceBytes = 4 << 10;

// Each step with which an engine has begun, and each number in its state then.
using Begins = std::set<std::pair<int64_t, float>>;

// Collects what all engines of a job begin with. Thread-safe.
class BeginLog {
 public:
  void Add(int64_t step, float number) {
    MutexLock lock(&mu_);
    begins_.emplace(step, number);
  }
  Begins Take() {
    MutexLock lock(&mu_);
    return std::exchange(begins_, {});
  }

 private:
  Mutex mu_;
  Begins begins_ ABSL_GUARDED_BY(mu_);
};

// The CPU's engine, with one array of own state. Before a step's gradients are pushed, each element
// grows by the number of the step, counted from 1.
class CountingEngine : public WrappedEngine, public OwnState {
 public:
  CountingEngine(std::unique_ptr<Engine> inner, BeginLog* begins)
      : WrappedEngine(std::move(inner)), begins_(*begins) {
    for (uint32_t table = 0; table < tables().size(); ++table) {
      uint64_t size = 1;
      for (const uint64_t side : tables()[table].shape()) size *= side;
      const Slicing slicing(size, kSliceBytes);
      for (uint32_t slice = 0; slice < slicing.slice_count(); ++slice) {
        slices_[{TableId(table), SliceIndex(slice)}] =
            std::make_shared<std::vector<float>>(slicing.Range(SliceIndex(slice)).size);
      }
    }
  }

  OwnState* own_state() override { return this; }
  absl::Status RunStep(Step step, ParameterStore& store) override {
    if (absl::Status status = store.WaitForAll(); !status.ok()) return status;
    for (auto& [key, state] : slices_) {
      for (float& element : *state) {
        if (!has_begun_) begins_.Add(step.value(), element);
        element += static_cast<float>(step.value() + 1);
      }
    }
    has_begun_ = true;
    return WrappedEngine::RunStep(step, store);
  }

  uint32_t arrays() const override { return 1; }
  Payload Save(SliceKey key) override {
    return Payload(absl::MakeConstSpan(*slices_.at(key)), slices_.at(key));
  }
  void Load(SliceKey key, absl::Span<const float> state) override {
    slices_.at(key)->assign(state.begin(), state.end());
  }

 private:
  BeginLog& begins_;
  std::map<SliceKey, std::shared_ptr<std::vector<float>>> slices_;
  bool has_begun_ = false;
};

// Runs the job to its end over connections with faults.
Begins RunJob(const v1::JobSpec& job) {
  RealClock clock;
  InProcessClusterTransport transport;
  BeginLog begins;
  const EngineFactory make_engine =
      [&begins](const EngineOptions& options) -> absl::StatusOr<std::unique_ptr<Engine>> {
    absl::StatusOr<std::unique_ptr<Engine>> inner = MakeCpuEngine(options);
    if (!inner.ok()) return inner.status();
    return std::make_unique<CountingEngine>(*std::move(inner), &begins);
  };
  ClusterFaults faults;
  faults.drop = faults.duplicate = faults.delay = 0.02;
  const ClusterResult result = RunCluster(job, transport, clock, faults, make_engine);
  EXPECT_TRUE(result.outcome.status.ok()) << result.outcome.status;
  return begins.Take();
}

TEST(OwnStateClusterTest, AWorkerGoesOnWithTheStateThatItHadAtTheCheckpointsStep) {
  std::string dir = testing::TempDir() + "/own-XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  v1::JobSpec job = DigitsJob(/*epochs=*/1);
  job.mutable_cluster()->set_num_servers(2);
  job.mutable_scheduler()->set_slice_bytes(kSliceBytes);
  job.mutable_training()->set_steps(40);
  job.mutable_checkpoint()->set_dir(dir);
  job.mutable_checkpoint()->set_steps(10);
  job.mutable_checkpoint()->set_keep(9);
  EXPECT_THAT(RunJob(job), ElementsAre(Pair(0, 0)));

  // One that comes due while another is still being written is left out.
  const std::string first = FirstCheckpoint(dir);
  const int64_t step = ReadManifest(first).value().step();
  job.mutable_checkpoint()->set_restore(first);
  EXPECT_THAT(RunJob(job), ElementsAre(Pair(step, step * (step + 1) / 2)));

  job.mutable_checkpoint()->set_restore(CheckpointOfStep(dir, 40));
  job.mutable_training()->set_steps(42);
  EXPECT_THAT(RunJob(job), ElementsAre(Pair(40, 40 * 41 / 2)))
      << "of workers that had done all their steps";
}

}  // namespace
}  // namespace capstan
