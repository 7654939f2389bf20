#include "server/service/job_models.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <xxhash.h>

#include <limits>
#include <string>
#include <vector>

#include "common/optimizer/optimizer.h"
#include "server/shard/one_table_host.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kToken = 5;

// Hosts with the table "w" of 20 floats in two slices, and momentum.
class JobModelsTest : public testing::Test {
 protected:
  JobModelsTest() {
    std::string folder = testing::TempDir() + "/models-XXXXXX";
    path_ = std::string(mkdtemp(folder.data())) + "/m.safetensors";
    v1::TableSpec& table = *view_.add_tables();
    table.set_name("w");
    table.add_shape(20);
  }
  static std::unique_ptr<ShardHost> MakeMomentumHost(const ShardHost::Source& source = {}) {
    ShardHost::Options options = HostOptions(ConsistencyMode::kBsp);
    options.optimizer = MakeOptimizer(v1::OptimizerSpec()).value();
    auto host = ShardHost::Create(std::move(options), source).value();
    host->SetLiveWorkers(Workers({0}));
    return host;
  }
  // Writes the file of a host after two steps, in which only its first slice had a gradient.
  void WriteModel(bool has_state) {
    v1::GetJobReply job;
    job.mutable_job()->set_output(path_);
    job.mutable_job()->set_output_optimizer_state(has_state);
    job.set_output_token(kToken);
    const auto file = CreateModelFile(path_, kToken).value();
    ModelOutput::Tables state;
    if (has_state) state = StateTables(job.job(), view_.tables()).value();
    ASSERT_TRUE(file->Begin(view_.tables(), {}, state).ok());
    auto models = JobModels::Open(job, view_);
    ASSERT_TRUE(models.ok()) << models.status();
    const auto host = MakeMomentumHost();
    for (const int64_t step : {0, 1}) {
      ASSERT_TRUE(PushPull(*host, 0, step, 3)->reply.status.ok());
    }
    trained_ = Slices(*host);
    ASSERT_TRUE(models->Save(*host).ok());
    std::vector<float> values;
    for (const SliceSnapshot& slice : trained_) {
      slice.values.ForEachBlock([&values](size_t, absl::Span<const float> block) {
        values.insert(values.end(), block.begin(), block.end());
        return true;
      });
    }
    ASSERT_TRUE(file->Publish({}, XXH3_64bits(values.data(), values.size() * 4)).ok());
  }
  v1::GetJobReply JobWithInitial(bool has_state) {
    v1::GetJobReply job;
    job.mutable_job()->set_initial(path_);
    job.mutable_job()->set_initial_optimizer_state(has_state);
    return job;
  }
  std::string InitialError(bool has_state) {
    auto models = JobModels::Open(JobWithInitial(has_state), view_);
    if (!models.ok()) return std::string(models.status().message());
    ShardHost::Options options = HostOptions(ConsistencyMode::kBsp);
    options.optimizer = MakeOptimizer(v1::OptimizerSpec()).value();
    return std::string(
        ShardHost::Create(std::move(options), {models->initial(), nullptr}).status().message());
  }
  static std::vector<SliceSnapshot> Slices(ShardHost& host) {
    std::vector<SliceSnapshot> slices;
    EXPECT_TRUE(host.ReadSlices([&slices](uint64_t, const SliceSnapshot& slice) {
                      slices.push_back(slice);
                      return absl::OkStatus();
                    })
                    .ok());
    return slices;
  }
  static std::vector<float> FloatsOf(const Payload& payload) {
    std::vector<float> floats(payload.size_bytes() / sizeof(float));
    payload.CopyTo(absl::MakeSpan(floats));
    return floats;
  }
  // Changes the file.
  void Write(const std::string& tensor, float value) {
    ASSERT_TRUE(ModelTables::Read(OpenFile::Open(path_, O_RDWR).value())
                    .value()
                    ->WriteValues(tensor, 0, {value})
                    .ok());
  }

  v1::JobView view_;
  std::string path_;
  std::vector<SliceSnapshot> trained_;
};

TEST_F(JobModelsTest, AHostBeginsWithTheStateThatAnotherHasWritten) {
  WriteModel(/*has_state=*/true);
  const JobModels models = JobModels::Open(JobWithInitial(/*has_state=*/true), view_).value();
  const auto host = MakeMomentumHost({models.initial(), nullptr});
  const std::vector<SliceSnapshot> slices = Slices(*host);
  ASSERT_EQ(slices.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(FloatsOf(slices[i].values), FloatsOf(trained_[i].values));
    EXPECT_EQ(FloatsOf(slices[i].optimizer_state[0]), FloatsOf(trained_[i].optimizer_state[0]));
    EXPECT_EQ(slices[i].optimizer_steps, 2u);
    EXPECT_EQ(slices[i].version, 0u);
  }
  EXPECT_FLOAT_EQ(FloatsOf(slices[0].optimizer_state[0])[0], 3 + 0.9f * 3);
}

TEST_F(JobModelsTest, AStateThatIsNotWantedIsLeftOut) {
  WriteModel(/*has_state=*/true);
  const JobModels models = JobModels::Open(JobWithInitial(/*has_state=*/false), view_).value();
  const auto host = MakeMomentumHost({models.initial(), nullptr});
  const SliceSnapshot slice = Slices(*host)[0];
  EXPECT_EQ(FloatsOf(slice.values), FloatsOf(trained_[0].values));
  EXPECT_EQ(FloatsOf(slice.optimizer_state[0]), std::vector<float>(16, 0.0f));
  EXPECT_EQ(slice.optimizer_steps, 0u);
}

TEST_F(JobModelsTest, AStateThatIsNotThereIsRefused) {
  WriteModel(/*has_state=*/false);
  EXPECT_EQ(InitialError(/*has_state=*/false), "");
  EXPECT_THAT(InitialError(/*has_state=*/true),
              AllOf(HasSubstr("--initial: "), HasSubstr("expected the optimizer's state beside")));
}

TEST_F(JobModelsTest, TheStateOfAnotherOptimizerIsRefused) {
  WriteModel(/*has_state=*/true);
  view_.mutable_tables(0)->mutable_optimizer()->set_type(v1::OptimizerSpec::ADAGRAD);
  EXPECT_THAT(InitialError(/*has_state=*/true),
              AllOf(HasSubstr("optimizer.w.sum: expected [20], got none"),
                    HasSubstr("optimizer.w.momentum_buffer: expected none, got [20]")));
}

TEST_F(JobModelsTest, NumbersThatNoOptimizerHasAreRefused) {
  WriteModel(/*has_state=*/true);
  Write("optimizer.w.momentum_buffer", std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(InitialError(/*has_state=*/true),
              HasSubstr("optimizer.w.momentum_buffer holds a NaN or an infinity"));
  Write("optimizer.w.momentum_buffer", 0);
  Write("optimizer.w.step", -1);
  EXPECT_THAT(InitialError(/*has_state=*/true),
              HasSubstr("optimizer.w.step: expected a number of steps from 0 to"));
}

TEST_F(JobModelsTest, AJobThatGoesOnFromACheckpointReadsNoFile) {
  v1::GetJobReply job = JobWithInitial(/*has_state=*/true);
  job.set_restore("checkpoint");
  EXPECT_EQ(JobModels::Open(job, view_).value().initial(), nullptr);
}

}  // namespace
}  // namespace capstan
