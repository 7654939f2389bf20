// A table that replies the mean of the gradients: its parameters are what worker 0 sends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/exchange/payload_floats.h"
#include "server/shard/cuts.h"
#include "server/shard/one_table_host.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNan;
using ::testing::Not;
using ::testing::SizeIs;

constexpr size_t kSlice = 16;  // elements of the first slice

// 2 workers under BSP. The table is the first slice alone. Its parameters are zeros at first.
ShardHost::Options MeanOptions() {
  ShardHost::Options options = HostOptions(ConsistencyMode::kBsp);
  options.tables[0].elements = kSlice;
  options.tables[0].replies_mean = true;
  return options;
}

std::unique_ptr<ShardHost> MakeMeanHost(const ShardHost::Source& source = {}) {
  std::unique_ptr<ShardHost> host = ShardHost::Create(MeanOptions(), source).value();
  host->SetLiveWorkers(Workers({0, 1}));
  return host;
}

// The parameters are all `arrays[0]`, and each array of the optimizer's state has one of the other
// values.
ExchangeRequest TableStateOf(int worker, uint64_t cut, const std::vector<float>& arrays) {
  const auto floats = std::make_shared<std::vector<float>>();
  for (const float value : arrays) floats->insert(floats->end(), kSlice, value);
  ExchangeRequest request = Request(worker, std::nullopt, std::nullopt);
  request.purpose = TableState{cut, Payload(absl::MakeConstSpan(*floats), floats)};
  return request;
}

absl::Status SendTable(ShardHost& host, uint64_t cut, const std::vector<float>& arrays,
                       int worker = 0) {
  const auto result = Send(host, TableStateOf(worker, cut, arrays));
  EXPECT_EQ(result->replies, 1);
  EXPECT_TRUE(result->reply.values.empty());
  return result->reply.status;
}

// What workers get after steps, or if it is exact the parameters.
ExchangeReply PullAt(ShardHost& host, int64_t step, bool is_exact, int worker = 0) {
  ExchangeRequest request = Request(worker, std::nullopt, Step(step));
  std::get<DenseStep>(request.purpose).pull->is_float32 = is_exact;
  const auto result = Send(host, std::move(request));
  EXPECT_EQ(result->replies, 1);
  EXPECT_TRUE(result->reply.status.ok()) << result->reply.status;
  return result->reply;
}

// Both workers do the step. The mean of their gradients is 2.
void DoStep(ShardHost& host, int64_t step) {
  Push(host, 0, step, 1);
  Push(host, 1, step, 3);
}

void PushNothing(ShardHost& host, int worker, int64_t step) {
  ExchangeRequest request = Request(worker, Step(step), std::nullopt);
  std::get<DenseStep>(request.purpose).push->gradient.reset();
  EXPECT_TRUE(Send(host, std::move(request))->reply.status.ok());
}

ExchangeReply PullArray(ShardHost& host, uint32_t array) {
  ExchangeRequest request = Request(0, std::nullopt, std::nullopt);
  request.purpose = OptimizerStatePull{array};
  return Send(host, std::move(request))->reply;
}

// As another process reads the host's values, in order.
std::vector<float> ValuesOf(ShardHost& host) {
  std::vector<float> all;
  const absl::Status status = host.ReadSlices([&all](uint64_t, const SliceSnapshot& slice) {
    const std::vector<float> values = Floats(slice.values);
    all.insert(all.end(), values.begin(), values.end());
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return all;
}

// A checkpoint at step 1, whose parameters are fives. The optimizer's arrays are sixes and sevens.
ShardSnapshot CheckpointAtStep1() {
  const auto host = MakeMeanHost();
  Cuts cuts;
  host->CutAt(Step(1), cuts.Adder());
  DoStep(*host, 0);
  EXPECT_TRUE(SendTable(*host, /*cut=*/1, {5, 6, 7}).ok());
  for (const ShardSnapshot& shard : cuts.shards()) {
    if (!shard.slices.empty()) return shard;
  }
  ADD_FAILURE() << "the cut is not complete";
  return {};
}

TEST(ShardHostTableStateTest, APullAfterAStepHasTheMeanAndAnExactOneTheParameters) {
  ShardHost::Options options = MeanOptions();
  options.tables[0].initial_stddev = 1;
  const auto host = ShardHost::Create(std::move(options)).value();
  host->SetLiveWorkers(Workers({0, 1}));
  const std::vector<float> initial = Floats(PullAt(*host, 0, /*is_exact=*/true).values);
  EXPECT_THAT(initial, Not(Each(0)));

  DoStep(*host, 0);

  for (const int worker : {0, 1}) {
    const ExchangeReply mean = PullAt(*host, 1, /*is_exact=*/false, worker);
    EXPECT_THAT(Floats(mean.values), Each(2));
    EXPECT_EQ(mean.version, 1u);
    EXPECT_EQ(Floats(PullAt(*host, 1, /*is_exact=*/true, worker).values), initial);
  }
}

TEST(ShardHostTableStateTest, AStepWithoutAnyGradientLeavesVersionAndMean) {
  const auto host = MakeMeanHost();
  DoStep(*host, 0);
  for (const int worker : {0, 1}) PushNothing(*host, worker, 1);
  const ExchangeReply reply = PullAt(*host, 2, /*is_exact=*/false);
  EXPECT_THAT(Floats(reply.values), Each(2));
  EXPECT_EQ(reply.version, 1u);
  EXPECT_EQ(reply.min_step, Step(2)) << "the step is done";
}

TEST(ShardHostTableStateTest, AWorkerWithoutAGradientCountsAsZeros) {
  const auto host = MakeMeanHost();
  Push(*host, 0, 0, 3);
  PushNothing(*host, 1, 0);
  const ExchangeReply reply = PullAt(*host, 1, /*is_exact=*/false);
  EXPECT_THAT(Floats(reply.values), Each(1.5));
  EXPECT_EQ(reply.version, 1u);
}

TEST(ShardHostTableStateTest, AGradientThatIsNotFiniteComesThrough) {
  const auto host = MakeMeanHost();
  Push(*host, 0, 0, std::nanf(""));
  Push(*host, 1, 0, 3);
  EXPECT_THAT(Floats(PullAt(*host, 1, /*is_exact=*/false).values), Each(IsNan()));
  Push(*host, 0, 1, std::numeric_limits<float>::infinity());
  Push(*host, 1, 1, 3);
  EXPECT_THAT(Floats(PullAt(*host, 2, /*is_exact=*/false).values),
              Each(std::numeric_limits<float>::infinity()));
  EXPECT_THAT(Floats(PullAt(*host, 2, /*is_exact=*/true).values), Each(0));
}

TEST(ShardHostTableStateTest, ACutWaitsForTheStateOfWorker0AndHasItInPlaceOfTheMean) {
  const auto host = MakeMeanHost();
  Cuts cuts;
  host->CutAt(Step(1), cuts.Adder());
  DoStep(*host, 0);
  EXPECT_FALSE(cuts.first().has_value());
  EXPECT_EQ(PullAt(*host, 1, /*is_exact=*/false).cut, 1u) << "worker 0 hears of the cut";

  EXPECT_TRUE(SendTable(*host, /*cut=*/1, {5, 6, 7}).ok());

  ASSERT_TRUE(cuts.first().has_value());
  const SliceSnapshot slice = *cuts.first();
  EXPECT_EQ(slice.version, 1u);
  EXPECT_EQ(slice.min_step, Step(1));
  EXPECT_THAT(Floats(slice.values), Each(5));
  ASSERT_THAT(slice.optimizer_state, SizeIs(2));
  EXPECT_THAT(Floats(slice.optimizer_state[0]), Each(6));
  EXPECT_THAT(Floats(slice.optimizer_state[1]), Each(7));
  EXPECT_THAT(slice.own, IsEmpty());
  EXPECT_THAT(slice.without_own, IsEmpty());
}

TEST(ShardHostTableStateTest, TheStateMayBeTheParametersAloneOrHave16Arrays) {
  const auto host = MakeMeanHost();
  uint64_t cut = 0;
  for (const size_t arrays : {size_t{0}, kMaxTableStateArrays}) {
    Cuts cuts;
    host->CutAt(Step(static_cast<int64_t>(++cut)), cuts.Adder());
    DoStep(*host, static_cast<int64_t>(cut) - 1);
    EXPECT_TRUE(SendTable(*host, cut, std::vector<float>(1 + arrays, 5)).ok());
    ASSERT_TRUE(cuts.first().has_value());
    EXPECT_THAT(cuts.first()->optimizer_state, SizeIs(arrays));
  }
}

TEST(ShardHostTableStateTest, AStateOfAnEarlierCutIsNotThatOfTheLatest) {
  const auto host = MakeMeanHost();
  Cuts given_up, cuts;
  host->CutAt(Step(1), given_up.Adder());
  DoStep(*host, 0);
  host->CutAt(Step(2), cuts.Adder());
  DoStep(*host, 1);
  EXPECT_TRUE(SendTable(*host, /*cut=*/1, {5}).ok());
  EXPECT_FALSE(cuts.first().has_value());
  EXPECT_TRUE(SendTable(*host, /*cut=*/2, {6}).ok());
  ASSERT_TRUE(cuts.first().has_value());
  EXPECT_THAT(Floats(cuts.first()->values), Each(6));
  EXPECT_FALSE(given_up.first().has_value());
}

TEST(ShardHostTableStateTest, TheFinalStateServesLaterCuts) {
  const auto host = MakeMeanHost();
  DoStep(*host, 0);
  EXPECT_TRUE(SendTable(*host, kFinalCut, {5, 6}).ok());
  for (int i = 0; i < 2; ++i) {
    Cuts cuts;
    host->CutAt(Step(1), cuts.Adder());
    ASSERT_TRUE(cuts.first().has_value());
    EXPECT_THAT(Floats(cuts.first()->values), Each(5));
    ASSERT_THAT(cuts.first()->optimizer_state, SizeIs(1));
    EXPECT_THAT(Floats(cuts.first()->optimizer_state[0]), Each(6));
  }
}

TEST(ShardHostTableStateTest, ReadersAndExactPullsHaveTheParametersThatCameLast) {
  const auto host = MakeMeanHost();
  EXPECT_THAT(ValuesOf(*host), Each(0));
  Cuts cuts;
  host->CutAt(Step(1), cuts.Adder());
  DoStep(*host, 0);
  EXPECT_THAT(ValuesOf(*host), Each(0)) << "a mean is no parameter";
  EXPECT_TRUE(SendTable(*host, /*cut=*/1, {5, 6}).ok());
  EXPECT_THAT(ValuesOf(*host), Each(5));
  EXPECT_TRUE(SendTable(*host, kFinalCut, {8, 9}).ok());
  EXPECT_THAT(ValuesOf(*host), AllOf(SizeIs(kSlice), Each(8)));
  EXPECT_THAT(Floats(PullAt(*host, 1, /*is_exact=*/true).values), Each(8));
  EXPECT_THAT(Floats(PullAt(*host, 1, /*is_exact=*/false).values), Each(2));
  EXPECT_THAT(Floats(cuts.first()->values), Each(5)) << "the cut is as it was";
}

TEST(ShardHostTableStateTest, AWrongStateIsRefused) {
  const auto host = MakeMeanHost();
  Cuts cuts;
  host->CutAt(Step(1), cuts.Adder());
  DoStep(*host, 0);
  const auto expect_refused = [](const absl::Status& status, const std::string& text) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("slice 0 of table w: expected " + text));
  };
  expect_refused(SendTable(*host, /*cut=*/1, {5}, /*worker=*/1),
                 "the table's state from worker 0 only, got some from worker 1");
  expect_refused(SendTable(*host, /*cut=*/0, {5}), "the state of a cut from 1 on, got cut 0");
  const std::string sizes = "the table's state as 1 to 17 arrays of 16 float32, got ";
  expect_refused(SendTable(*host, /*cut=*/1, {}), sizes + "0 bytes");
  expect_refused(SendTable(*host, /*cut=*/1, std::vector<float>(18, 5)), sizes + "1152 bytes");
  ExchangeRequest part = TableStateOf(0, /*cut=*/1, {5, 6});
  Payload& arrays = std::get<TableState>(part.purpose).arrays;
  arrays = arrays.Subrange(0, arrays.size_bytes() - 1);
  expect_refused(Send(*host, std::move(part))->reply.status, sizes + "127 bytes");
  EXPECT_FALSE(cuts.first().has_value());
  EXPECT_THAT(ValuesOf(*host), Each(0)) << "nothing of them was taken";
}

TEST(ShardHostTableStateTest, ATableWhoseOptimizerTheServersRunTakesNoState) {
  const auto host = MakeHost(ConsistencyMode::kBsp, 0, /*num_workers=*/1);
  const absl::Status status = SendTable(*host, kFinalCut, {5});
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("slice 0 of table w: got the table's state, but the servers run its "
                        "optimizer and have it"));
  EXPECT_THAT(ValuesOf(*host), Each(0));
}

TEST(ShardHostTableStateTest, ACutWithoutTheStateOfALostWorker0SaysSo) {
  const auto host = MakeMeanHost();
  Cuts cuts;
  host->CutAt(Step(1), cuts.Adder());
  DoStep(*host, 0);
  host->SetLiveWorkers(Workers({1}));
  ASSERT_TRUE(cuts.first().has_value());
  EXPECT_THAT(cuts.first()->without_own, ElementsAre(WorkerId(0))) << "nobody may use this cut";
}

TEST(ShardHostTableStateTest, AHostThatGoesOnHasTheParametersAndUntilAnUpdateTheArrays) {
  const ShardSnapshot cut = CheckpointAtStep1();
  ShardHost::Source source;
  source.restored = [&cut](ShardId) { return cut; };
  const auto host = MakeMeanHost(source);
  const ExchangeReply first = PullAt(*host, 1, /*is_exact=*/true);
  EXPECT_THAT(Floats(first.values), Each(5));
  EXPECT_EQ(first.version, 1u);
  EXPECT_THAT(ValuesOf(*host), Each(5));
  EXPECT_THAT(Floats(PullArray(*host, 0).values), Each(6));
  EXPECT_THAT(Floats(PullArray(*host, 1).values), Each(7));
  EXPECT_THAT(std::string(PullArray(*host, 2).status.message()),
              HasSubstr("expected one of 2 arrays of the optimizer's state, got array 2"));

  for (const int worker : {0, 1}) PushNothing(*host, worker, 1);
  EXPECT_THAT(Floats(PullArray(*host, 0).values), Each(6)) << "that was no update";
  DoStep(*host, 2);

  EXPECT_TRUE(absl::IsInvalidArgument(PullArray(*host, 0).status));
  EXPECT_THAT(Floats(PullAt(*host, 3, /*is_exact=*/false).values), Each(2));
  EXPECT_THAT(Floats(PullAt(*host, 3, /*is_exact=*/true).values), Each(5));
}

TEST(ShardHostTableStateTest, AHostThatGoesOnIsCutWithANewState) {
  const ShardSnapshot cut = CheckpointAtStep1();
  ShardHost::Source source;
  source.restored = [&cut](ShardId) { return cut; };
  const auto host = MakeMeanHost(source);
  Cuts cuts;
  host->CutAt(Step(1), cuts.Adder());
  EXPECT_FALSE(cuts.first().has_value());
  EXPECT_TRUE(SendTable(*host, /*cut=*/1, {8}).ok());
  ASSERT_TRUE(cuts.first().has_value());
  EXPECT_THAT(Floats(cuts.first()->values), Each(8));
  EXPECT_THAT(cuts.first()->optimizer_state, IsEmpty()) << "those of the checkpoint are old";
}

TEST(ShardHostTableStateTest, ACheckpointWithMoreArraysDoesNotFit) {
  ShardSnapshot cut = CheckpointAtStep1();
  std::vector<Payload>& arrays = cut.slices[0].optimizer_state;
  ShardHost::Source source;
  source.restored = [&cut](ShardId) { return cut; };
  while (arrays.size() < kMaxTableStateArrays) arrays.push_back(arrays[0]);
  EXPECT_TRUE(ShardHost::Create(MeanOptions(), source).ok());
  arrays.push_back(arrays[0]);
  EXPECT_TRUE(absl::IsInvalidArgument(ShardHost::Create(MeanOptions(), source).status()));
}

}  // namespace
}  // namespace capstan
