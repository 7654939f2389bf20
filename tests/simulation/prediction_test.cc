#include "tests/simulation/prediction.h"

#include <glog/logging.h>
#include <gtest/gtest.h>

#include <cmath>

namespace capstan {
namespace {

class PredictionTest : public testing::Test {
 protected:
  PredictionTest() { FLAGS_minloglevel = google::GLOG_ERROR; }
};

// Milliseconds of a step.
double StepMs(const Workload& workload, const SimulatedNetwork::Options& network) {
  return absl::ToDoubleMilliseconds(Predict(workload, network).step_time);
}

TEST_F(PredictionTest, OneWorkerTakesItsComputeTimeAndTwoMessagesAStep) {
  Workload workload;
  workload.steps = 100;
  workload.compute_time = [](Random&) { return absl::Milliseconds(10); };
  SimulatedNetwork::Options network;
  network.latency = absl::Milliseconds(1);
  network.seconds_per_byte = 1e-6;  // 4,160 bytes: 4.16 ms
  // Beyond the steps: the first pull, and telling the coordinator.
  EXPECT_NEAR(StepMs(workload, network), 10 + 2 * (1 + 4.16), 0.2);
}

TEST_F(PredictionTest, ManySlicesShareTheLink) {
  Workload workload;
  workload.steps = 100;
  workload.slices = 20;
  workload.servers = 4;
  workload.compute_time = [](Random&) { return absl::Milliseconds(10); };
  SimulatedNetwork::Options network;
  network.latency = absl::Microseconds(10);
  network.seconds_per_byte = 1e-7;
  // All slices leave the worker one after the other; the answers follow close behind.
  EXPECT_NEAR(StepMs(workload, network), 10 + 20 * 0.416 + 0.416, 1.0);
}

TEST_F(PredictionTest, BspWaitsForTheSlowestOfExponentialWorkers) {
  Workload workload;
  workload.workers = 8;
  workload.steps = 400;
  workload.compute_time = [](Random& random) {
    return absl::Milliseconds(10) * -std::log(1.0 - random.UniformFloat());
  };
  SimulatedNetwork::Options network;
  network.latency = absl::Microseconds(1);
  double harmonic = 0;
  for (int i = 1; i <= 8; ++i) harmonic += 1.0 / i;
  // The mean of the largest of n exponentials is the n-th harmonic number times their mean.
  EXPECT_NEAR(StepMs(workload, network), 10 * harmonic, 1.5);
  workload.mode = v1::ConsistencySpec::ASYNC;
  const double async = StepMs(workload, network);
  EXPECT_GT(async, 10);
  EXPECT_LT(async, 12) << "the slowest worker's sum over all steps";
  workload.mode = v1::ConsistencySpec::SSP;
  workload.staleness = 2;
  const double ssp = StepMs(workload, network);
  EXPECT_GT(ssp, async);
  EXPECT_LT(ssp, 0.8 * 10 * harmonic);
}

TEST_F(PredictionTest, OnSlowLinksPriorityWithASmallCreditIsFasterThanFifo) {
  Workload workload;
  workload.workers = 2;
  workload.servers = 2;
  workload.layers = 8;
  workload.slices = 16;
  workload.slice_bytes = 128 << 10;
  workload.compute_time = [](Random&) { return absl::Milliseconds(160); };
  SimulatedNetwork::Options network;
  network.latency = absl::Microseconds(50);
  network.seconds_per_byte = 8e-9;
  workload.policy = v1::SchedulerSpec::SLICE_FIFO;
  EXPECT_NEAR(StepMs(workload, network), 224, 5);
  workload.policy = v1::SchedulerSpec::PRIORITY;
  EXPECT_NEAR(StepMs(workload, network), 224, 5) << "all of it is on its way at once";
  workload.credit_bytes = 256 << 10;
  EXPECT_NEAR(StepMs(workload, network), 191, 5);
}

TEST_F(PredictionTest, TheFittedNetworkHasTheMeasuredTimes) {
  const SimulatedNetwork::Options network =
      FitNetwork(/*alone=*/absl::Microseconds(300), /*each=*/absl::Microseconds(20),
                 /*large=*/absl::Microseconds(2300), /*large_bytes=*/1'000'000);
  Workload workload;
  workload.steps = 200;
  workload.slice_bytes = 64;
  workload.compute_time = [](Random&) { return absl::ZeroDuration(); };
  EXPECT_NEAR(StepMs(workload, network), 0.3, 0.01);
  workload.slice_bytes = 1'000'000;
  EXPECT_NEAR(StepMs(workload, network), 2.3, 0.05);
  workload.slice_bytes = 64;
  workload.slices = 101;
  EXPECT_NEAR(StepMs(workload, network), 0.3 + 100 * 0.02, 0.1);
}

TEST_F(PredictionTest, HundredsOfProcessesCanBeSimulated) {
  Workload workload;
  workload.workers = 200;
  workload.servers = 20;
  workload.slices = 20;
  workload.slice_bytes = 64;
  workload.steps = 2;
  workload.compute_time = [](Random&) { return absl::Milliseconds(100); };
  const Prediction prediction = Predict(workload, SimulatedNetwork::Options());
  EXPECT_GT(prediction.messages, 2u * 20 * 200 * 2);
  EXPECT_GT(prediction.step_time, absl::Milliseconds(100));
}

}  // namespace
}  // namespace capstan
