// Jobs whose models learn from streams of samples, as a whole and in one process.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/real_clock.h"
#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/local_cluster.h"
#include "worker/dataset/sparse/binary_metrics.h"
#include "worker/dataset/sparse/scalar_ftrl.h"
#include "worker/dataset/sparse/synthetic_ctr.h"
#include "worker/dataset/temp_file.h"
#include "worker/models/sparse_training/prepare_stream_job.h"

namespace capstan {
namespace {

using Mode = v1::ConsistencySpec::Mode;

constexpr Mode kModes[] = {v1::ConsistencySpec::BSP, v1::ConsistencySpec::SSP,
                           v1::ConsistencySpec::ASYNC};

v1::JobSpec Job(Mode mode, uint32_t num_workers) {
  v1::JobSpec job;
  job.mutable_cluster()->set_num_workers(num_workers);
  job.mutable_cluster()->set_num_servers(2);
  job.mutable_cluster()->set_shard_count(4);
  job.mutable_membership()->set_heartbeat_seconds(0.05);
  job.mutable_consistency()->set_mode(mode);
  if (mode == v1::ConsistencySpec::SSP) job.mutable_consistency()->set_staleness(2);
  job.mutable_training()->set_epochs(1);
  return job;
}

void SetClicks(v1::JobSpec& job, uint64_t samples) {
  job.mutable_data()->set_format(v1::DataSpec::SYNTHETIC_CTR);
  v1::SyntheticCtrSpec& clicks = *job.mutable_data()->mutable_synthetic_ctr();
  clicks.set_samples(samples);
  clicks.set_test_samples(5000);
  clicks.set_keys(1000);
}

v1::JobSpec Regression(Mode mode, uint32_t num_workers) {
  v1::JobSpec job = Job(mode, num_workers);
  SetClicks(job, 20000);
  job.mutable_model()->set_type(v1::ModelSpec::SPARSE_LOGISTIC_REGRESSION);
  job.mutable_training()->set_batch_size(64);
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::FTRL);
  job.mutable_optimizer()->set_learning_rate(0.1);
  job.mutable_optimizer()->set_l1(1);
  return job;
}

v1::JobSpec Factorization(Mode mode, uint32_t num_workers) {
  v1::JobSpec job = Job(mode, num_workers);
  SetClicks(job, 60000);
  job.mutable_data()->mutable_synthetic_ctr()->set_interactions(true);
  job.mutable_model()->set_type(v1::ModelSpec::DEEPFM);
  job.mutable_model()->add_hidden(16);
  job.mutable_model()->set_embedding_dim(4);
  job.mutable_training()->set_batch_size(16);
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::ADAGRAD);
  job.mutable_optimizer()->set_learning_rate(0.1);
  return job;
}

JobOutcome Train(const v1::JobSpec& job) {
  RealClock clock;
  InProcessClusterTransport transport;
  const ClusterResult result =
      RunRankedCluster(job, transport, clock, {}, [](uint32_t) -> JobPreparer {
        return [](const v1::JobSpec& spec, Clock* of_worker) {
          return PrepareStreamJob(spec, {}, of_worker);
        };
      });
  EXPECT_TRUE(result.outcome.status.ok()) << result.outcome.status;
  for (const absl::Status& worker : result.workers) EXPECT_TRUE(worker.ok()) << worker;
  return result.outcome;
}

std::string Describe(Mode mode, uint32_t num_workers) {
  return absl::StrCat(v1::ConsistencySpec::Mode_Name(mode), ", ", num_workers, " workers");
}

TEST(StreamClusterTest, RegressionLearnsInEveryModeWithEveryNumberOfWorkers) {
  for (const Mode mode : kModes) {
    for (const uint32_t num_workers : {1, 2, 3, 4}) {
      SCOPED_TRACE(Describe(mode, num_workers));
      const JobOutcome outcome = Train(Regression(mode, num_workers));
      const v1::ReportResultRequest& result = outcome.result;
      EXPECT_GT(result.best_auc(), 0.75);
      EXPECT_NEAR(result.test_auc(), result.best_auc(), 0.015);
      EXPECT_LT(result.test_loss(), 0.9 * result.guess_loss());
      EXPECT_GT(result.nonzero_weights(), 0.05);
      EXPECT_LT(result.nonzero_weights(), 0.95);
      EXPECT_EQ(result.test_samples(), 5000u);
      uint64_t samples = 0;
      for (const v1::Progress& progress : outcome.last_status.progress()) {
        samples += progress.samples();
      }
      EXPECT_EQ(samples, 20000u) << "each sample once";
    }
  }
}

TEST(StreamClusterTest, AJobThatGoesOnFromACheckpointHasTheSameBits) {
  v1::JobSpec factorization = Factorization(v1::ConsistencySpec::BSP, /*num_workers=*/2);
  SetClicks(factorization, 6400);
  for (v1::JobSpec job : {Regression(v1::ConsistencySpec::BSP, 2), factorization}) {
    std::string dir = testing::TempDir() + "/clicks-XXXXXX";
    ASSERT_NE(mkdtemp(dir.data()), nullptr);
    job.mutable_checkpoint()->set_dir(dir);
    job.mutable_checkpoint()->set_steps(50);
    job.mutable_checkpoint()->set_keep(9);
    const v1::ReportResultRequest whole = Train(job).result;
    job.mutable_cluster()->set_num_servers(3);
    job.mutable_checkpoint()->set_restore(FirstCheckpoint(dir));
    const v1::ReportResultRequest rest = Train(job).result;
    EXPECT_EQ(rest.test_auc(), whole.test_auc());
    EXPECT_EQ(rest.test_loss(), whole.test_loss());
    EXPECT_EQ(rest.nonzero_weights(), whole.nonzero_weights());
    EXPECT_EQ(rest.parameters_xxh3(), whole.parameters_xxh3());
  }
}

TEST(StreamClusterTest, FactorizationLearnsPairsInEveryMode) {
  v1::JobSpec linear = Regression(v1::ConsistencySpec::BSP, 1);
  *linear.mutable_data() = Factorization(v1::ConsistencySpec::BSP, 1).data();
  const double without_pairs = Train(linear).result.test_auc();
  for (const Mode mode : kModes) {
    for (const uint32_t num_workers : {1, 4}) {
      SCOPED_TRACE(Describe(mode, num_workers));
      const v1::ReportResultRequest result = Train(Factorization(mode, num_workers)).result;
      EXPECT_GT(result.test_auc(), without_pairs + 0.02);
      EXPECT_LT(result.test_auc(), result.best_auc() + 0.001);
      EXPECT_FALSE(result.has_nonzero_weights());
    }
  }
}

// The mean log loss of FTRL, one sample after the other, on the test samples.
double ScalarLoss(const v1::JobSpec& job) {
  SyntheticCtr::Options options;
  options.samples = job.data().synthetic_ctr().samples();
  options.held_out = job.data().synthetic_ctr().test_samples();
  options.keys = job.data().synthetic_ctr().keys();
  const auto data = *SyntheticCtr::Create(options);
  ScalarFtrl model({static_cast<float>(job.optimizer().learning_rate()), /*beta=*/1,
                    static_cast<float>(job.optimizer().l1()), /*l2=*/0});
  BinaryMetrics metrics;
  SparseBatch batch;
  for (const auto part : {SyntheticCtr::Part::kTraining, SyntheticCtr::Part::kHeldOut}) {
    for (uint64_t i = 0; i < data->Count(part); ++i) {
      batch.Clear();
      data->AddSample(part, i, &batch);
      const SparseSample sample = batch.Sample(0);
      if (part == SyntheticCtr::Part::kTraining) {
        model.Learn(sample);
      } else {
        metrics.Add(model.LogOdds(sample), sample.label);
      }
    }
  }
  return metrics.log_loss();
}

TEST(StreamClusterTest, BatchesOfOneSampleAreScalarFtrl) {
  v1::JobSpec job = Regression(v1::ConsistencySpec::BSP, /*num_workers=*/1);
  job.mutable_data()->mutable_synthetic_ctr()->set_samples(2500);
  job.mutable_training()->set_batch_size(1);
  EXPECT_NEAR(Train(job).result.test_loss(), ScalarLoss(job), 1e-4);
}

TEST(StreamClusterTest, UnderBspBatchesOfManyWorkersAreOneBatch) {
  v1::JobSpec one = Regression(v1::ConsistencySpec::BSP, /*num_workers=*/1);
  one.mutable_training()->set_batch_size(120);
  v1::JobSpec four = one;
  four.mutable_cluster()->set_num_workers(4);
  four.mutable_training()->set_batch_size(30);
  EXPECT_NEAR(Train(one).result.test_loss(), Train(four).result.test_loss(), 1e-4);
}

TEST(StreamClusterTest, AFileEndsForAllWorkersAtOnce) {
  std::string lines;
  for (int i = 0; i < 101; ++i)
    absl::StrAppend(&lines, i % 2, " ", i % 2, ":1 ", 2 + i % 7, ":1\n");
  const std::string path = WriteTempFile("samples", lines);
  for (const Mode mode : kModes) {
    SCOPED_TRACE(Describe(mode, 4));
    v1::JobSpec job = Regression(mode, /*num_workers=*/4);
    job.mutable_data()->set_format(v1::DataSpec::LIBSVM);
    job.mutable_data()->set_path(path);
    job.mutable_data()->set_test_path(path);
    job.mutable_training()->set_batch_size(5);
    job.mutable_training()->set_epochs(4);
    job.mutable_optimizer()->set_learning_rate(1);
    const JobOutcome outcome = Train(job);
    EXPECT_EQ(outcome.result.test_accuracy(), 1);
    EXPECT_EQ(outcome.result.test_auc(), 1);
    EXPECT_FALSE(outcome.result.has_best_auc());
    uint64_t samples = 0;
    for (const v1::Progress& progress : outcome.last_status.progress()) {
      // 26 of the 101 samples are a largest share: 104 in 4 epochs.
      EXPECT_EQ(progress.steps_done(), 21);
      samples += progress.samples();
    }
    EXPECT_EQ(samples, 404u);
  }
}

TEST(StreamClusterTest, WithoutTestSamplesThereAreNoFigures) {
  v1::JobSpec job = Regression(v1::ConsistencySpec::BSP, /*num_workers=*/1);
  job.mutable_data()->set_format(v1::DataSpec::LIBSVM);
  job.mutable_data()->set_path(WriteTempFile("samples", "1 3:1\n0 4:1\n"));
  const v1::ReportResultRequest result = Train(job).result;
  EXPECT_TRUE(result.has_no_accuracy());
  EXPECT_TRUE(result.has_no_loss());
  EXPECT_FALSE(result.has_test_auc());
}

TEST(StreamClusterTest, ABrokenLineEndsTheJobAndIsNamed) {
  v1::JobSpec job = Regression(v1::ConsistencySpec::BSP, /*num_workers=*/2);
  job.mutable_data()->set_format(v1::DataSpec::LIBSVM);
  job.mutable_data()->set_path(WriteTempFile("samples", "1 3:1\n0 4:1\n1 3:1\n0 4;1\n"));
  RealClock clock;
  InProcessClusterTransport transport;
  const ClusterResult result =
      RunRankedCluster(job, transport, clock, {}, [](uint32_t) -> JobPreparer {
        return [](const v1::JobSpec& spec, Clock* of_worker) {
          return PrepareStreamJob(spec, {}, of_worker);
        };
      });
  EXPECT_NE(std::string(result.outcome.status.message()).find("line 4"), std::string::npos)
      << result.outcome.status;
}

}  // namespace
}  // namespace capstan
