#include "worker/models/updates/updates_engine.h"

#include <gtest/gtest.h>

#include <memory>

#include "absl/time/time.h"
#include "common/base/real_clock.h"
#include "common/history/check/slice_contents.h"
#include "common/job/test_values.h"
#include "worker/engine/training_rig.h"

namespace capstan {
namespace {

TEST(UpdatesEngineTest, EachPushMovesTheElementOfItsWorkerAndStep) {
  RealClock clock;
  UpdatesEngine::Options options;
  options.tables = 2;
  options.num_workers = 3;
  options.steps = 4;
  options.compute_time = absl::Milliseconds(5);
  options.clock = &clock;
  UpdatesEngine engine(options);
  engine.SetWorker(WorkerId(1));
  ASSERT_EQ(engine.tables().size(), 2u);
  EXPECT_EQ(engine.tables()[0].optimizer().type(), v1::OptimizerSpec::SGD);
  EXPECT_EQ(engine.tables()[0].initial_stddev(), 0);
  TrainingRig::Options rig_options;
  rig_options.learning_rate = 1;
  const auto rig = TrainingRig::Create(&engine, &clock, rig_options).value();
  const std::vector<float> begin = rig->Values();
  const Dataset dataset = RandomDataset(/*samples=*/1, /*features=*/1, /*classes=*/2, /*seed=*/1);
  const absl::Time began = clock.Now();
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(rig->Step(dataset, {0}).ok());
  ASSERT_TRUE(rig->Finish().ok());
  EXPECT_GE(clock.Now() - began, absl::Milliseconds(15));
  std::vector<float> moved = rig->Values();
  for (size_t i = 0; i < moved.size(); ++i) moved[i] -= begin[i];
  for (const size_t table : {0, 1}) {
    const auto contents =
        SliceContents::Decode(absl::MakeSpan(moved).subspan(table * 12, 12), 3, 4).value();
    for (uint32_t worker = 0; worker < 3; ++worker) {
      for (int64_t step = 0; step < 4; ++step) {
        EXPECT_EQ(contents.Count(WorkerId(worker), Step(step)), worker == 1 && step < 3)
            << worker << " " << step;
      }
    }
  }
}

TEST(UpdatesEngineTest, TheJobSaysHowManyElementsTablesHave) {
  RealClock clock;
  v1::JobSpec job;
  job.mutable_cluster()->set_num_workers(3);
  job.mutable_training()->set_steps(7);
  job.mutable_model()->mutable_updates()->set_tables(5);
  const JobSetup setup = PrepareUpdatesJob(job, &clock);
  EXPECT_EQ(setup.steps, 7);
  EXPECT_EQ(setup.engine->tables().size(), 5u);
  EXPECT_EQ(setup.engine->tables()[4].shape(0), 21u);
  EXPECT_TRUE(setup.engine->is_replaceable());
}

}  // namespace
}  // namespace capstan
