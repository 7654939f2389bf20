// The part of the suite on state: what goes into a host and its checkpoints beside the steps.
#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/one_shot.h"
#include "common/exchange/request_parts.h"
#include "tests/transport/conformance_rig.h"
#include "tests/transport/endpoint_conformance.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {

TEST_P(EndpointConformanceTest, InitialValuesArriveAndReleaseParkedPulls) {
  for (const uint64_t elements : {uint64_t{1}, kSmall, kTestElements}) {
    Connected connected(GetParam(), MakeTestHost(ConsistencyMode::kBsp, /*num_workers=*/2, elements,
                                                 /*own_arrays=*/0, /*restored=*/nullptr,
                                                 /*initial_from_worker=*/true));
    Call pull(*connected.endpoint, MakeTestRequest(1, std::nullopt, Step(0)), &connected.clock);
    ExchangeRequest initial = MakeTestRequest(0, Step(0), std::nullopt, 7.0f, elements);
    initial.purpose = InitialValues{BroughtBy(initial)};
    Call sent(*connected.endpoint, std::move(initial), &connected.clock);
    EXPECT_TRUE(sent.Wait().status.ok());
    EXPECT_EQ(ToVector(pull.Wait().values), std::vector<float>(elements, 7.0f));
  }
}

TEST_P(EndpointConformanceTest, AnOptimizersStateGoesInAndComesOut) {
  for (const uint64_t elements : {uint64_t{1}, kSmall, kTestElements}) {
    Connected connected(GetParam(),
                        MakeTestHost(ConsistencyMode::kBsp, /*num_workers=*/2, elements));
    const auto load = [&](int worker) {
      ExchangeRequest request = MakeTestRequest(worker, Step(0), std::nullopt, 7.0f, elements);
      request.purpose = OptimizerState{/*array=*/0, /*steps=*/300, BroughtBy(request)};
      Call sent(*connected.endpoint, std::move(request), &connected.clock);
      return sent.Wait().status;
    };
    EXPECT_TRUE(load(/*worker=*/0).ok());
    EXPECT_THAT(std::string(load(/*worker=*/1).message()),
                testing::HasSubstr("from worker 0 only"));
    ExchangeRequest pull = MakeTestRequest(1, std::nullopt, std::nullopt);
    pull.purpose = OptimizerStatePull{/*array=*/0};
    Call pulled(*connected.endpoint, std::move(pull), &connected.clock);
    const ExchangeReply reply = pulled.Wait();
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.optimizer_steps, 300u);
    EXPECT_EQ(ToVector(reply.values), std::vector<float>(elements, 7.0f));
  }
}

TEST_P(EndpointConformanceTest, TheOwnStateOfAWorkerGoesIntoACheckpointAndBack) {
  constexpr uint32_t kArrays = 2;
  auto state = std::make_shared<std::vector<float>>(kArrays * kSmall);
  for (size_t i = 0; i < state->size(); ++i) (*state)[i] = static_cast<float>(i);
  RealClock clock;
  OneShot<ShardSnapshot> cut(&clock);
  {
    Connected first(GetParam(), MakeTestHost(ConsistencyMode::kAsync, 1, kSmall, kArrays));
    first.host->CutAt(Step(3), [&cut](ShardSnapshot snapshot) { cut.Set(std::move(snapshot)); });
    Call pull(*first.endpoint, MakeTestRequest(0, std::nullopt, Step(0)), &clock);
    const uint64_t number = pull.Wait().cut;
    EXPECT_EQ(number, 1u);
    ExchangeRequest request = MakeTestRequest(0, std::nullopt, std::nullopt);
    request.purpose = WorkerState{number, Payload(absl::MakeConstSpan(*state), state)};
    Call sent(*first.endpoint, std::move(request), &clock);
    const ExchangeReply reply = sent.Wait();
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_TRUE(reply.values.empty());
  }
  const ShardSnapshot snapshot = cut.Wait();
  Connected second(GetParam(),
                   MakeTestHost(ConsistencyMode::kAsync, 1, kSmall, kArrays, &snapshot));
  ExchangeRequest request = MakeTestRequest(0, std::nullopt, std::nullopt);
  request.purpose = WorkerStatePull();
  Call pulled(*second.endpoint, std::move(request), &clock);
  const ExchangeReply reply = pulled.Wait();
  EXPECT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(ToVector(reply.values), *state);
}

TEST_P(EndpointConformanceTest, TheStateOfAProgramGoesIntoACheckpointAndBack) {
  std::vector<uint8_t> state(3'000'001);  // no whole number of floats
  for (size_t i = 0; i < state.size(); ++i) state[i] = static_cast<uint8_t>(i * i / 7);
  RealClock clock;
  OneShot<ShardSnapshot> cut(&clock);
  {
    Connected first(GetParam(), ConsistencyMode::kAsync, /*num_workers=*/1, kSmall);
    const auto send = [&first, &clock](uint64_t number, Payload bytes) {
      ExchangeRequest request = MakeTestRequest(0, std::nullopt, std::nullopt);
      request.purpose = WorkerState{number, std::move(bytes), /*is_program=*/true};
      Call sent(*first.endpoint, std::move(request), &clock);
      const ExchangeReply reply = sent.Wait();
      EXPECT_TRUE(reply.status.ok()) << reply.status;
      EXPECT_TRUE(reply.values.empty());
    };
    send(/*number=*/0, Payload());
    first.host->CutAt(Step(3), [&cut](ShardSnapshot snapshot) { cut.Set(std::move(snapshot)); });
    EXPECT_FALSE(cut.is_set()) << "the cut waits for the state";
    Call pull(*first.endpoint, MakeTestRequest(0, std::nullopt, Step(0)), &clock);
    const uint64_t number = pull.Wait().cut;
    EXPECT_EQ(number, 1u);
    send(number, PayloadOf(state));
  }
  const ShardSnapshot snapshot = cut.Wait();
  Connected second(GetParam(), MakeTestHost(ConsistencyMode::kAsync, 1, kSmall,
                                            /*own_arrays=*/0, &snapshot));
  ExchangeRequest request = MakeTestRequest(0, std::nullopt, std::nullopt);
  request.purpose = WorkerStatePull{/*is_program=*/true};
  Call pulled(*second.endpoint, std::move(request), &clock);
  const ExchangeReply reply = pulled.Wait();
  EXPECT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_TRUE(BytesIn(reply.values) == state);
}

TEST_P(EndpointConformanceTest, TheStateOfATableGoesIntoACheckpoint) {
  for (const uint64_t elements : {uint64_t{1}, kSmall, kTestElements}) {
    auto state = std::make_shared<std::vector<float>>(3 * elements);
    for (size_t i = 0; i < state->size(); ++i) (*state)[i] = static_cast<float>(i);
    Connected connected(GetParam(), MakeTestHost(ConsistencyMode::kBsp, /*num_workers=*/1, elements,
                                                 /*own_arrays=*/0, /*restored=*/nullptr,
                                                 /*initial_from_worker=*/false,
                                                 /*replies_mean=*/true));
    OneShot<ShardSnapshot> cut(&connected.clock);
    connected.host->CutAt(Step(1), [&cut](ShardSnapshot shard) { cut.Set(std::move(shard)); });
    Call step(*connected.endpoint, MakeTestRequest(0, Step(0), Step(1), 2.0f, elements),
              &connected.clock);
    const ExchangeReply mean = step.Wait();
    EXPECT_EQ(ToVector(mean.values), std::vector<float>(elements, 2.0f));
    EXPECT_EQ(mean.cut, 1u);
    ExchangeRequest request = MakeTestRequest(0, std::nullopt, std::nullopt);
    request.purpose = TableState{mean.cut, Payload(absl::MakeConstSpan(*state), state)};
    Call sent(*connected.endpoint, std::move(request), &connected.clock);
    const ExchangeReply reply = sent.Wait();
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_TRUE(reply.values.empty());
    const SliceSnapshot slice = cut.Wait().slices.at(0);
    std::vector<float> kept = ToVector(slice.values);
    for (const Payload& array : slice.optimizer_state) {
      const std::vector<float> values = ToVector(array);
      kept.insert(kept.end(), values.begin(), values.end());
    }
    EXPECT_TRUE(kept == *state) << elements << " elements";
  }
}

}  // namespace capstan
