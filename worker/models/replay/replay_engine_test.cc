#include "worker/models/replay/replay_engine.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/real_clock.h"
#include "common/trace/tracer.h"
#include "worker/engine/training_rig.h"
#include "worker/models/replay/layer_list.h"

namespace capstan {
namespace {

TEST(ReplayEngineTest, TablesHaveTheScaledSizesOfTheNetwork) {
  RealClock clock;
  v1::ReplaySpec spec;
  spec.set_layers("vgg16");
  spec.set_scale(8);
  const auto engine = ReplayEngine::Create(spec, &clock, /*tracer=*/nullptr);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const std::vector<v1::TableSpec>& tables = (*engine)->tables();
  ASSERT_EQ(tables.size(), 32u);
  EXPECT_EQ(tables[0].name(), "conv1_1.w");
  EXPECT_EQ(tables[0].shape(0), 1728u / 8);
  EXPECT_EQ(tables[26].shape(0), 102'760'448u / 8) << "the first fully connected layer";
  EXPECT_EQ(tables[31].layer(), 15u);
}

TEST(ReplayEngineTest, StepsTakeTheirTimeAndMoveEveryTensor) {
  RealClock clock;
  Tracer::Options trace;
  trace.path = testing::TempDir() + "replay_engine";
  trace.clock = &clock;
  const std::unique_ptr<Tracer> tracer = Tracer::Create(trace).value();
  const std::vector<LayerTensor> tensors = {
      {0, "a.w", 100, 1}, {1, "b.w", 600, 3}, {1, "b.b", 1, 0}};
  ReplayEngine engine(tensors, /*scale=*/1, absl::Milliseconds(20), &clock, tracer.get());
  TrainingRig::Options options;
  options.slice_bytes = 1024;  // b.w has 3 slices
  options.learning_rate = 0.5f;
  auto rig = TrainingRig::Create(&engine, &clock, options);
  ASSERT_TRUE(rig.ok()) << rig.status();
  ASSERT_TRUE((*rig)->Finish().ok());
  const std::vector<float> before = (*rig)->Values();
  const int64_t pulls = (*rig)->exchanges();
  const Dataset dataset = RandomDataset(/*samples=*/1, /*features=*/1, /*classes=*/2, /*seed=*/1);
  const absl::Time begin = clock.Now();
  for (int step = 0; step < 3; ++step) ASSERT_TRUE((*rig)->Step(dataset, {0}).ok());
  ASSERT_TRUE((*rig)->Finish().ok());
  EXPECT_GE(clock.Now() - begin, absl::Milliseconds(60));
  EXPECT_EQ((*rig)->exchanges() - pulls, 3 * (1 + 3 + 1));
  const std::vector<float> after = (*rig)->Values();
  ASSERT_EQ(after.size(), 701u);
  for (size_t i = 0; i < after.size(); ++i) {
    const size_t in_tensor = i < 100 ? i : i < 700 ? i - 100 : 0;
    const double gradient = (static_cast<double>(in_tensor % 17) - 8) * 1e-3;
    EXPECT_NEAR(after[i], before[i] - 3 * 0.5 * gradient, 1e-6) << i;
  }
  ASSERT_TRUE(tracer->Finish().ok());
  std::map<std::string, int> spans;
  std::ifstream file(trace.path);
  for (const nlohmann::json& event : nlohmann::json::parse(file)) {
    if (event["ph"] == "X") ++spans[event["name"]];
  }
  EXPECT_EQ(spans, (std::map<std::string, int>{{"wait a", 3},
                                               {"wait b", 3},
                                               {"forward a", 3},
                                               {"forward b", 3},
                                               {"backward a", 3},
                                               {"backward b", 3},
                                               {"push a", 3},
                                               {"push b", 3}}));
}

}  // namespace
}  // namespace capstan
