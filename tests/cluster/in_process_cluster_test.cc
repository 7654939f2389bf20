#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/base/ids.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/model_file/model_file.h"
#include "server/service/parameter_server.h"
#include "tests/cluster/bsp_bits.h"
#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/codec_training.h"
#include "tests/cluster/local_cluster.h"
#include "tests/cluster/serial_training.h"
#include "tests/cluster/wrapped_engine.h"
#include "worker/engine/cpu_engine.h"

namespace capstan {
namespace {

std::unique_ptr<ClusterTransport> InProcess(Clock*) {
  return std::make_unique<InProcessClusterTransport>();
}

JobOutcome RunToTheEnd(const v1::JobSpec& job) {
  RealClock clock;
  InProcessClusterTransport transport;
  const ClusterResult result = RunCluster(job, transport, clock);
  for (const absl::Status& status : result.workers) EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(result.outcome.status.ok()) << result.outcome.status;
  return result.outcome;
}

int64_t MaxStalenessSeen(const JobOutcome& outcome) {
  int64_t staleness = 0;
  for (const v1::Progress& progress : outcome.last_status.progress()) {
    staleness = std::max<int64_t>(staleness, progress.max_staleness_seen());
  }
  return staleness;
}

TEST(InProcessClusterTest, BspHasTheBitsOfTheSerialProgramWhateverTheLayout) {
  ExpectSameBitsWhateverTheLayout(InProcess);
}

TEST(InProcessClusterTest, ServersWriteTheModelSideBySideAndAJobBeginsWithIt) {
  const std::string path = testing::TempDir() + "/in_process.safetensors";
  v1::JobSpec job = DigitsJob(/*epochs=*/1);
  job.mutable_cluster()->set_num_servers(3);
  job.set_output(path);
  const uint64_t hash = RunToTheEnd(job).result.parameters_xxh3();
  const auto model = ModelTables::Open(path).value();
  EXPECT_EQ(model->header().metadata.at("parameters_xxh3"), absl::StrFormat("%016x", hash));

  job.clear_output();
  job.set_initial(path);
  job.mutable_cluster()->set_num_servers(1);
  job.mutable_training()->set_steps(1);
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::SGD);
  job.mutable_optimizer()->set_learning_rate(2e-38);  // changes nothing
  EXPECT_EQ(RunToTheEnd(job).result.parameters_xxh3(), hash);
}

TEST(InProcessClusterTest, BspHasTheSameBitsWithMeasuredLinks) {
  ExpectSameBitsWithMeasuredLinks(InProcess);
}

TEST(InProcessClusterTest, BspHasTheSameBitsUnderFaults) { ExpectSameBitsUnderFaults(InProcess); }

TEST(InProcessClusterTest, EveryOptimizerHasTheBitsOfTheSerialProgram) {
  RealClock clock;
  for (const auto type :
       {v1::OptimizerSpec::SGD, v1::OptimizerSpec::MOMENTUM, v1::OptimizerSpec::NESTEROV,
        v1::OptimizerSpec::ADAGRAD, v1::OptimizerSpec::ADAM, v1::OptimizerSpec::ADAMW,
        v1::OptimizerSpec::RMSPROP, v1::OptimizerSpec::LION}) {
    v1::JobSpec job = DigitsJob(/*epochs=*/1);
    job.mutable_cluster()->set_num_workers(3);
    job.mutable_optimizer()->set_type(type);
    job.mutable_optimizer()->set_learning_rate(0.01);
    job.mutable_optimizer()->set_weight_decay(0.001);
    EXPECT_EQ(RunAndHash(job, *InProcess(&clock), clock), TrainSerially(job).parameters_xxh3)
        << v1::OptimizerSpec::Type_Name(type);
  }
}

TEST(InProcessClusterTest, AJobThatIsOverBeforeItsTuningEndsWell) {
  v1::JobSpec job = DigitsJob(/*epochs=*/1);
  job.mutable_scheduler()->set_tune(true);
  EXPECT_FALSE(RunToTheEnd(job).last_status.tuning().has_chosen());
}

TEST(InProcessClusterTest, DigitsReachTheirAccuracyUnderEveryConsistency) {
  for (const auto mode :
       {v1::ConsistencySpec::BSP, v1::ConsistencySpec::SSP, v1::ConsistencySpec::ASYNC}) {
    v1::JobSpec job = DigitsJob(/*epochs=*/20);
    job.mutable_consistency()->set_mode(mode);
    if (mode == v1::ConsistencySpec::SSP) job.mutable_consistency()->set_staleness(2);
    const JobOutcome outcome = RunToTheEnd(job);
    EXPECT_GE(outcome.result.test_accuracy(), 0.95) << v1::ConsistencySpec::Mode_Name(mode);
    if (mode == v1::ConsistencySpec::BSP) {
      EXPECT_EQ(MaxStalenessSeen(outcome), 0);
    }
    if (mode == v1::ConsistencySpec::SSP) {
      EXPECT_LE(MaxStalenessSeen(outcome), 2);
    }
  }
}

// Long enough for tuning, with several slices to choose from.
v1::JobSpec TunedJob() {
  v1::JobSpec job = DigitsJob(/*epochs=*/1);
  job.mutable_model()->add_hidden(32);
  job.mutable_training()->set_steps(2600);
  job.mutable_scheduler()->set_tune(true);
  job.mutable_scheduler()->set_slice_bytes(1 << 10);
  return job;
}

TEST(InProcessClusterTest, TunedBspHasTheBitsOfTheSerialProgramAndEndsTuning) {
  const JobOutcome outcome = RunToTheEnd(TunedJob());
  EXPECT_EQ(outcome.result.parameters_xxh3(), TrainSerially(TunedJob()).parameters_xxh3);
  const v1::TuningReport& tuning = outcome.last_status.tuning();
  EXPECT_TRUE(tuning.has_chosen()) << tuning.ShortDebugString();
  EXPECT_FALSE(tuning.reason().empty());
  EXPECT_GE(tuning.tried_size(), 12);
  EXPECT_EQ(outcome.last_status.view().schedule().credit_bytes(), tuning.chosen().credit_bytes());
}

// Ends the job once its tuning has ended.
class EngineUntilTuned : public WrappedEngine {
 public:
  EngineUntilTuned(std::unique_ptr<Engine> inner, CoordinatorEndpoint* coordinator, Clock* clock)
      : WrappedEngine(std::move(inner)), coordinator_(*coordinator), clock_(*clock) {}

  absl::Status RunStep(Step step, ParameterStore& store) override {
    if (step.value() % 100 == 0) {
      ASSIGN_OR_RETURN(const v1::GetStatusReply status,
                       AwaitReply(coordinator_, v1::GetStatusRequest(), clock_));
      if (status.tuning().has_chosen()) return absl::CancelledError("tuned");
    }
    return WrappedEngine::RunStep(step, store);
  }

 private:
  CoordinatorEndpoint& coordinator_;
  Clock& clock_;
};

TEST(InProcessClusterTest, TuningEndsUnderEveryConsistency) {
  for (const auto mode : {v1::ConsistencySpec::SSP, v1::ConsistencySpec::ASYNC}) {
    v1::JobSpec job = TunedJob();
    job.mutable_cluster()->set_num_workers(3);
    // Far more than are needed. The farther apart workers are, the longer is a period.
    job.mutable_training()->set_steps(1'000'000);
    job.mutable_consistency()->set_mode(mode);
    if (mode == v1::ConsistencySpec::SSP) job.mutable_consistency()->set_staleness(3);
    RealClock clock;
    InProcessClusterTransport transport;
    CoordinatorEndpoint* coordinator = nullptr;
    const EngineFactory make_engine =
        [&](const EngineOptions& options) -> absl::StatusOr<std::unique_ptr<Engine>> {
      ASSIGN_OR_RETURN(std::unique_ptr<Engine> inner, MakeCpuEngine(options));
      return std::make_unique<EngineUntilTuned>(std::move(inner), coordinator, &clock);
    };
    const ClusterResult result =
        RunCluster(job, transport, clock, /*faults=*/{}, make_engine,
                   [&coordinator](CoordinatorEndpoint& started) { coordinator = &started; });
    EXPECT_THAT(result.outcome.status.message(), testing::HasSubstr("tuned"))
        << v1::ConsistencySpec::Mode_Name(mode);
    EXPECT_TRUE(result.outcome.last_status.tuning().has_chosen());
  }
}

TEST(InProcessClusterTest, AJobOfOneWorkerAndLogisticRegressionWorks) {
  v1::JobSpec job = DigitsJob(/*epochs=*/20);
  job.mutable_cluster()->set_num_workers(1);
  job.mutable_model()->set_type(v1::ModelSpec::LOGISTIC_REGRESSION);
  EXPECT_GE(RunToTheEnd(job).result.test_accuracy(), 0.9);
}

TEST(InProcessClusterTest, EveryCodecTrainsUnderFaults) { ExpectCodecsTrainUnderFaults(InProcess); }

TEST(InProcessClusterTest, ADivergingJobEndsEverywhereWithItsReason) {
  ExpectDivergenceIsReported(InProcess);
}

// Asks a server for the layers of its tables, before the job and at its end.
class LayerReader : public InProcessClusterTransport {
 public:
  std::string Listen(ParameterEndpoint* server) override {
    server_ = static_cast<ParameterServer*>(server);
    EXPECT_EQ(server_->LayerOf(TableId(5)), 0);
    return InProcessClusterTransport::Listen(server);
  }
  void StopListening() override {
    for (uint32_t table = 0; table < 7; ++table) {
      layers_.push_back(server_->LayerOf(TableId(table)));
    }
  }
  const std::vector<int>& layers() const { return layers_; }

 private:
  ParameterServer* server_ = nullptr;
  std::vector<int> layers_;
};

TEST(InProcessClusterTest, AServerKnowsWhichLayerReadsATable) {
  RealClock clock;
  LayerReader transport;
  EXPECT_TRUE(RunCluster(DigitsJob(/*epochs=*/1), transport, clock).outcome.status.ok());
  EXPECT_THAT(transport.layers(), testing::ElementsAre(0, 0, 1, 1, 2, 2, /*no table*/ 0));
}

}  // namespace
}  // namespace capstan
