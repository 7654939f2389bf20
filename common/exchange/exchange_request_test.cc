#include "common/exchange/exchange_request.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace capstan {
namespace {

constexpr std::array<uint8_t, 16> kMemory = {};

Payload Bytes(size_t count) {
  Payload payload;
  payload.Append({kMemory.data(), count});
  return payload;
}

ExchangeRequest RequestFor(decltype(ExchangeRequest::purpose) purpose) {
  return {{5, WorkerId(2), Incarnation(77)}, Epoch(3), {TableId(1), SliceIndex(4)}, purpose};
}

// A part in a collective operation, with something in every field.
Collective PartWith(Payload values) {
  return {Step(8),     3,     CollectiveType::kBroadcast, CollectiveDtype::kInt64, {5, 2},
          WorkerId(6), values};
}

TEST(ExchangeRequestTest, HalvesArePartsOfAStepAlone) {
  const ExchangeRequest dense = RequestFor(
      DenseStep{StepPush{Step(8), Gradient{Bytes(3), CodecType::kInt8}}, StepPull{Step(9)}});
  EXPECT_EQ(PushOf(dense)->step, Step(8));
  EXPECT_EQ(PullOf(dense)->step, Step(9));
  EXPECT_EQ(GradientOf(dense)->codec, CodecType::kInt8);
  const ExchangeRequest rows = RequestFor(RowStep{StepPush{Step(8)}, StepPull{Step(9)}});
  EXPECT_EQ(PushOf(rows)->step, Step(8));
  EXPECT_EQ(PullOf(rows)->step, Step(9));
  EXPECT_EQ(GradientOf(rows), nullptr);
  for (const ExchangeRequest& other :
       {RequestFor(DenseStep()), RequestFor(RowStep()), RequestFor(WorkerState()),
        RequestFor(WorkerStatePull()), RequestFor(TableState()), RequestFor(InitialValues()),
        RequestFor(OptimizerState()), RequestFor(OptimizerStatePull()), RequestFor(Collective()),
        RequestFor(Probe()), RequestFor(ReplicaRecord())}) {
    EXPECT_EQ(IsStep(other), other.purpose.index() < 2);
    EXPECT_EQ(PushOf(other), nullptr);
    EXPECT_EQ(PullOf(other), nullptr);
    EXPECT_EQ(GradientOf(other), nullptr);
  }
}

TEST(ExchangeRequestTest, ItsPayloadsAreEverythingThatItBrings) {
  const ExchangeRequest requests[] = {
      RequestFor(DenseStep{StepPush{Step(8), Gradient{Bytes(7)}}}),
      RequestFor(RowStep{StepPush{Step(8), Gradient{Bytes(4)}}, std::nullopt,
                         KeyList{1, 9, Bytes(2)}, KeyList{1, 9, Bytes(1)}}),
      RequestFor(WorkerState{1, Bytes(7)}),
      RequestFor(WorkerState{1, Bytes(7), /*is_program=*/true}),
      RequestFor(TableState{1, Bytes(7)}),
      RequestFor(InitialValues{Bytes(7)}),
      RequestFor(OptimizerState{1, 2, Bytes(7)}),
      RequestFor(PartWith(Bytes(7))),
      RequestFor(Probe{Bytes(7)}),
      RequestFor(ReplicaRecord{ShardId(1), 2, 3, Incarnation(4), "change", Bytes(7)}),
  };
  for (ExchangeRequest request : requests) {
    EXPECT_EQ(PayloadBytes(request), 7u) << request.purpose.index();
    ForEachPayload(request, [](Payload& payload) { payload.Clear(); });
    EXPECT_EQ(PayloadBytes(request), 0u) << request.purpose.index();
  }
  EXPECT_EQ(PayloadBytes(RequestFor(DenseStep{StepPush{Step(8)}, StepPull{Step(9)}})), 0u);
  EXPECT_EQ(PayloadBytes(RequestFor(WorkerStatePull())), 0u);
  EXPECT_EQ(PayloadBytes(RequestFor(WorkerStatePull{/*is_program=*/true})), 0u);
  EXPECT_EQ(PayloadBytes(RequestFor(Collective())), 0u);
}

TEST(ExchangeRequestTest, RecordsAloneComeFromServers) {
  EXPECT_EQ(SenderRoleOf(RequestFor(ReplicaRecord())), SenderRole::kServer);
  for (const ExchangeRequest& other :
       {RequestFor(DenseStep()), RequestFor(RowStep()), RequestFor(WorkerState()),
        RequestFor(WorkerStatePull()), RequestFor(TableState()), RequestFor(InitialValues()),
        RequestFor(OptimizerState()), RequestFor(OptimizerStatePull()), RequestFor(Collective()),
        RequestFor(Probe())}) {
    EXPECT_EQ(SenderRoleOf(other), SenderRole::kWorker) << other.purpose.index();
  }
}

TEST(ExchangeRequestTest, StateCollectiveOperationsAndRecordsLeaveParametersAlone) {
  for (const ExchangeRequest& pull :
       {RequestFor(WorkerStatePull()), RequestFor(OptimizerStatePull())}) {
    EXPECT_TRUE(LeavesParameters(pull));
    EXPECT_TRUE(PullsState(pull));
  }
  for (const ExchangeRequest& push :
       {RequestFor(WorkerState()), RequestFor(TableState()), RequestFor(OptimizerState()),
        RequestFor(Collective()), RequestFor(ReplicaRecord())}) {
    EXPECT_TRUE(LeavesParameters(push));
    EXPECT_FALSE(PullsState(push));
  }
  for (const ExchangeRequest& other : {RequestFor(DenseStep()), RequestFor(RowStep()),
                                       RequestFor(InitialValues()), RequestFor(Probe())}) {
    EXPECT_FALSE(LeavesParameters(other));
  }
}

TEST(ExchangeRequestTest, APullAloneHasNothingOfThePush) {
  std::vector<float> values(3);
  ExchangeRequest dense = RequestFor(
      DenseStep{StepPush{Step(8), Gradient{Bytes(7)}}, StepPull{Step(9), true}, /*copy=*/300});
  dense.destination = absl::MakeSpan(values);
  const ExchangeRequest pull = PullAlone(dense);
  EXPECT_EQ(pull.sender.incarnation, Incarnation(77));
  EXPECT_EQ(pull.epoch, Epoch(3));
  EXPECT_EQ(pull.slice, dense.slice);
  EXPECT_TRUE(pull.destination.empty());
  EXPECT_EQ(PushOf(pull), nullptr);
  EXPECT_EQ(PullOf(pull)->step, Step(9));
  EXPECT_TRUE(PullOf(pull)->is_float32);
  EXPECT_EQ(std::get<DenseStep>(pull.purpose).copy, 300u);

  const ExchangeRequest of_rows =
      PullAlone(RequestFor(RowStep{StepPush{Step(8), Gradient{Bytes(4)}}, StepPull{Step(9)},
                                   KeyList{3, 8, Bytes(2)}, KeyList{5, 9, Bytes(1)}}));
  const auto& rows = std::get<RowStep>(of_rows.purpose);
  EXPECT_FALSE(rows.push.has_value());
  EXPECT_EQ(rows.pull->step, Step(9));
  EXPECT_EQ(rows.pushed_keys.rows, 0u);
  EXPECT_EQ(rows.pulled_keys.rows, 5u);
  EXPECT_EQ(rows.pulled_keys.hash, 9u);
  EXPECT_TRUE(rows.pulled_keys.bytes.empty()) << "the server has them";

  for (const bool is_program : {false, true}) {
    const ExchangeRequest state = PullAlone(RequestFor(WorkerStatePull{is_program}));
    EXPECT_EQ(std::get<WorkerStatePull>(state.purpose).is_program, is_program);
    const ExchangeRequest nothing = PullAlone(RequestFor(WorkerState{1, Bytes(7), is_program}));
    EXPECT_EQ(PullOf(nothing), nullptr);
    EXPECT_EQ(PayloadBytes(nothing), 0u);
  }
  const ExchangeRequest of_table = PullAlone(RequestFor(TableState{1, Bytes(7)}));
  EXPECT_EQ(PullOf(of_table), nullptr);
  EXPECT_EQ(PayloadBytes(of_table), 0u);
  const ExchangeRequest of_record =
      PullAlone(RequestFor(ReplicaRecord{ShardId(1), 2, 3, Incarnation(4), "change", Bytes(7)}));
  EXPECT_EQ(SenderRoleOf(of_record), SenderRole::kWorker) << "nothing of it remains";
  EXPECT_EQ(PayloadBytes(of_record), 0u);
  const ExchangeRequest optimizer = PullAlone(RequestFor(OptimizerStatePull{2}));
  EXPECT_EQ(std::get<OptimizerStatePull>(optimizer.purpose).array, 2u);
}

TEST(ExchangeRequestTest, OfACollectiveOperationItsNameRemainsWithoutValues) {
  const ExchangeRequest request = RequestFor(PartWith(Bytes(7)));
  const ExchangeRequest alone = PullAlone(request);
  EXPECT_EQ(alone.sender.worker, WorkerId(2));
  EXPECT_EQ(alone.sender.incarnation, Incarnation(77));
  EXPECT_EQ(alone.epoch, Epoch(3));
  EXPECT_EQ(alone.slice, request.slice);
  const auto& part = std::get<Collective>(alone.purpose);
  EXPECT_EQ(part.step, Step(8));
  EXPECT_EQ(part.number, 3u);
  EXPECT_EQ(part.type, CollectiveType::kBroadcast);
  EXPECT_EQ(part.dtype, CollectiveDtype::kInt64);
  EXPECT_EQ(part.shape, (std::vector<uint64_t>{5, 2}));
  EXPECT_EQ(part.root, WorkerId(6));
  EXPECT_TRUE(part.values.empty()) << "the server has them";
  EXPECT_EQ(PayloadBytes(request), 7u) << "it is as it was";
}

}  // namespace
}  // namespace capstan
