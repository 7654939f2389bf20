#include "worker/models/sparse_training/prepare_stream_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/real_clock.h"
#include "worker/dataset/temp_file.h"
#include "worker/engine/cpu_device_name.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

v1::JobSpec Job() {
  v1::JobSpec job;
  job.mutable_cluster()->set_num_workers(3);
  job.mutable_model()->set_type(v1::ModelSpec::SPARSE_LOGISTIC_REGRESSION);
  job.mutable_data()->set_format(v1::DataSpec::SYNTHETIC_CTR);
  job.mutable_data()->mutable_synthetic_ctr()->set_samples(1000);
  job.mutable_data()->mutable_synthetic_ctr()->set_keys(200);
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::FTRL);
  job.mutable_training()->set_batch_size(10);
  job.mutable_training()->set_epochs(2);
  return job;
}

TEST(PrepareStreamJobTest, StepsAreKnownForSyntheticSamplesAndGivenSteps) {
  RealClock clock;
  v1::JobSpec job = Job();
  EXPECT_EQ(PrepareStreamJob(job, {}, &clock)->steps, 67);
  job.mutable_training()->set_steps(5);
  EXPECT_EQ(PrepareStreamJob(job, {}, &clock)->steps, 5);
  const std::string path = WriteTempFile("samples", "1 3:1\n");
  job = Job();
  job.mutable_data()->set_format(v1::DataSpec::LIBSVM);
  job.mutable_data()->set_path(path);
  EXPECT_EQ(PrepareStreamJob(job, {}, &clock)->steps, 0);
}

TEST(PrepareStreamJobTest, TheEngineHasTheModelsTables) {
  RealClock clock;
  v1::JobSpec job = Job();
  auto setup = PrepareStreamJob(job, {}, &clock);
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_EQ(setup->engine->device_name(), CpuDeviceName());
  ASSERT_EQ(setup->engine->tables().size(), 1u);
  job.mutable_model()->set_type(v1::ModelSpec::DEEPFM);
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::ADAM);
  setup = PrepareStreamJob(job, {}, &clock);
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_EQ(setup->engine->tables()[0].name(), "embeddings");
  EXPECT_EQ(setup->engine->tables()[1].shape(0), 26 * 8 + 13);
}

TEST(PrepareStreamJobTest, AWorkerThatEndsBeforeTheTrainingEndsItsThread) {
  RealClock clock;
  absl::StatusOr<JobSetup> setup = PrepareStreamJob(Job(), {}, &clock);
  ASSERT_TRUE(setup.ok()) << setup.status();
  setup->on_registered(WorkerId(1));
  setup = absl::CancelledError("ends");
}

TEST(PrepareStreamJobTest, GpusAreRefused) {
  RealClock clock;
  const auto device = ParseDeviceName("cuda:1");
  ASSERT_TRUE(device.ok());
  EXPECT_THAT(std::string(PrepareStreamJob(Job(), *device, &clock).status().message()),
              HasSubstr("--device: expected cpu, as sparse_logistic_regression and deepfm compute "
                        "on CPUs only, got cuda:1; leave out --device"));
}

TEST(PrepareStreamJobTest, DeepFmNeedsFields) {
  RealClock clock;
  const std::string path = WriteTempFile("samples", "1 3:1\n");
  v1::JobSpec job = Job();
  job.mutable_model()->set_type(v1::ModelSpec::DEEPFM);
  job.mutable_data()->set_format(v1::DataSpec::LIBSVM);
  job.mutable_data()->set_path(path);
  EXPECT_THAT(std::string(PrepareStreamJob(job, {}, &clock).status().message()),
              HasSubstr("expected features with fields"));
}

}  // namespace
}  // namespace capstan
