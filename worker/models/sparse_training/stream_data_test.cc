#include "worker/models/sparse_training/stream_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/base/real_clock.h"
#include "worker/dataset/temp_file.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StreamDataTest : public testing::Test {
 protected:
  StreamDataTest() {
    job_.mutable_model()->set_type(v1::ModelSpec::SPARSE_LOGISTIC_REGRESSION);
    job_.mutable_training()->set_batch_size(2);
  }

  void SetFile(v1::DataSpec::Format format, const std::string& path) {
    job_.mutable_data()->set_format(format);
    job_.mutable_data()->set_path(path);
  }
  std::unique_ptr<const StreamData> Open() {
    auto data = StreamData::Open(job_, &clock_);
    EXPECT_TRUE(data.ok()) << data.status();
    return *std::move(data);
  }
  std::string Error() { return std::string(StreamData::Open(job_, &clock_).status().message()); }

  RealClock clock_;
  v1::JobSpec job_;
};

// The number of samples in a training stream, at most 100.
size_t TrainingSamples(const StreamData& data) {
  const std::unique_ptr<SampleStream> stream = *data.OpenTraining({});
  SparseBatch batch;
  size_t samples = 0;
  while (samples < 100) {
    const size_t count = *stream->Next(2, &batch);
    if (count == 0) return samples;
    samples += count;
  }
  return samples;
}

TEST_F(StreamDataTest, TrainingEndsAfterItsEpochsUnlessStepsCount) {
  v1::TrainingSpec& training = *job_.mutable_training();
  training.set_epochs(2);
  const std::string path = WriteTempFile("samples", "1 3:0.5 7:1\n0 4:1\n1 5:1\n");
  SetFile(v1::DataSpec::LIBSVM, path);
  EXPECT_EQ(TrainingSamples(*Open()), 6u);
  training.set_steps(1);
  EXPECT_EQ(TrainingSamples(*Open()), 100u);
  training.clear_steps();
  job_.set_stay(true);
  EXPECT_EQ(TrainingSamples(*Open()), 100u);
  job_.set_stay(false);
  job_.mutable_data()->set_format(v1::DataSpec::SYNTHETIC_CTR);
  job_.mutable_data()->mutable_synthetic_ctr()->set_samples(7);
  EXPECT_EQ(TrainingSamples(*Open()), 14u);
}

TEST_F(StreamDataTest, ATextFileIsReadSeveralTimesForTrainingAndOnceForTests) {
  const std::string path = WriteTempFile("samples", "1 3:0.5 7:1\n0 4:1\n1 5:1\n");
  SetFile(v1::DataSpec::LIBSVM, path);
  job_.mutable_data()->set_test_path(path);
  const std::unique_ptr<const StreamData> data = Open();
  EXPECT_EQ(data->pass_samples(), 0u);
  const std::unique_ptr<SampleStream> train = *data->OpenTraining({/*worker=*/1, 2});
  SparseBatch batch;
  EXPECT_EQ(*train->Next(2, &batch), 2u);
  EXPECT_THAT(batch.keys(), ElementsAre(4, 4));
  const std::unique_ptr<SampleStream> test = *data->OpenTest();
  EXPECT_EQ(*test->Next(StreamData::kTestBatch, &batch), 3u);
  EXPECT_EQ(*test->Next(StreamData::kTestBatch, &batch), 0u);
  EXPECT_FALSE(data->BestTestAuc().has_value());
}

TEST_F(StreamDataTest, WithoutATestFileThereAreNoTestSamples) {
  const std::string path = WriteTempFile("samples", "1 3:0.5\n");
  SetFile(v1::DataSpec::LIBSVM, path);
  EXPECT_EQ(*Open()->OpenTest(), nullptr);
}

TEST_F(StreamDataTest, CategoriesAreFieldsWithHashedKeys) {
  const std::string path =
      WriteTempFile("samples", "click\tage\tcity\tskipped\n1\t30\tOslo\tx\n0\t\tRome\ty\n");
  SetFile(v1::DataSpec::CSV, path);
  job_.mutable_data()->set_columns("label,numeric,categorical,ignored");
  job_.mutable_data()->set_delimiter("tab");
  job_.mutable_data()->set_has_header(true);
  const std::unique_ptr<const StreamData> data = Open();
  EXPECT_EQ(data->field_count(), 1u);
  EXPECT_EQ(data->dense_count(), 1u);
  SparseBatch batch;
  const std::unique_ptr<SampleStream> stream = *data->OpenTraining({});
  ASSERT_EQ(*stream->Next(2, &batch), 2u);
  EXPECT_THAT(batch.labels(), ElementsAre(1, 0));
  EXPECT_THAT(batch.dense(), ElementsAre(30, 0));
  ASSERT_EQ(batch.keys().size(), 2u);
  EXPECT_NE(batch.keys()[0], batch.keys()[1]);
}

TEST_F(StreamDataTest, FieldsOfLibffmAreBelowTheirNumber) {
  const std::string path = WriteTempFile("samples", "1 0:3:1 4:5:1\n");
  SetFile(v1::DataSpec::LIBFFM, path);
  job_.mutable_data()->set_fields(5);
  SparseBatch batch;
  std::unique_ptr<const StreamData> data = Open();
  EXPECT_TRUE((*data->OpenTraining({}))->Next(2, &batch).ok());
  EXPECT_THAT(batch.fields().subspan(0, 2), ElementsAre(0, 4));
  job_.mutable_data()->set_fields(4);
  data = Open();
  EXPECT_THAT(std::string((*data->OpenTraining({}))->Next(2, &batch).status().message()),
              HasSubstr(path));
}

TEST_F(StreamDataTest, SyntheticClicksHaveABestAuc) {
  job_.mutable_data()->set_format(v1::DataSpec::SYNTHETIC_CTR);
  v1::SyntheticCtrSpec& spec = *job_.mutable_data()->mutable_synthetic_ctr();
  spec.set_samples(9000);
  spec.set_test_samples(3000);
  spec.set_keys(500);
  const std::unique_ptr<const StreamData> data = Open();
  EXPECT_EQ(data->pass_samples(), 9000u);
  EXPECT_EQ(data->field_count(), 26u);
  EXPECT_EQ(data->dense_count(), 13u);
  ASSERT_TRUE(data->BestTestAuc().has_value());
  EXPECT_GT(*data->BestTestAuc(), 0.6);
  EXPECT_LT(*data->BestTestAuc(), 0.95);
  const std::unique_ptr<SampleStream> test = *data->OpenTest();
  SparseBatch batch;
  uint64_t samples = 0;
  for (size_t count = 1; count > 0;) {
    count = *test->Next(StreamData::kTestBatch, &batch);
    samples += count;
  }
  EXPECT_EQ(samples, 3000u);
}

TEST_F(StreamDataTest, MissingFilesAreNamed) {
  SetFile(v1::DataSpec::LIBSVM, "/nonexistent/train");
  EXPECT_THAT(Error(), HasSubstr("/nonexistent/train"));
  const std::string path = WriteTempFile("samples", "1 3:0.5\n");
  SetFile(v1::DataSpec::LIBSVM, path);
  job_.mutable_data()->set_test_path("/nonexistent/test");
  EXPECT_THAT(Error(), HasSubstr("/nonexistent/test"));
}

TEST_F(StreamDataTest, OtherFormatsAreNoStreams) {
  SetFile(v1::DataSpec::IDX, "x");
  EXPECT_THAT(Error(), HasSubstr("expected LIBSVM, LIBFFM, CSV or SYNTHETIC_CTR, got IDX"));
}

}  // namespace
}  // namespace capstan
