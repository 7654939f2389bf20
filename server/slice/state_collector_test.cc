#include "server/slice/state_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/exchange/parameter_endpoint.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

const std::vector<StepVector::Entry> kWorkers = {
    {WorkerId(0), Step(3), true}, {WorkerId(1), Step(3), true}, {WorkerId(2), Step(1), false}};

// Two arrays of three elements.
Payload State(float value) {
  const auto floats = std::make_shared<std::vector<float>>(6, value);
  return Payload(absl::MakeConstSpan(*floats), floats);
}

float ValueOf(const Payload& state) {
  std::vector<float> floats(state.size_bytes() / sizeof(float));
  state.CopyTo(absl::MakeSpan(floats));
  return floats.empty() ? 0 : floats.back();
}

// The latest cut's states, by worker.
std::vector<std::pair<WorkerId, float>> Cut(StateCollector& states) {
  std::vector<std::pair<WorkerId, float>> values;
  SliceSnapshot cut;
  states.TakeCut(cut.own, cut.without_own);
  EXPECT_TRUE(cut.without_own.empty());
  for (const SliceSnapshot::OwnState& own : cut.own) {
    values.emplace_back(own.worker, ValueOf(own.arrays));
  }
  return values;
}

class StateCollectorTest : public testing::Test {
 protected:
  void Keep(uint32_t worker, uint64_t cut, float value) {
    EXPECT_TRUE(states_.Keep(WorkerId(worker), cut, State(value)).ok());
  }

  StateCollector states_{/*arrays=*/2, /*size=*/3};
};

TEST_F(StateCollectorTest, ACutIsCompleteWithTheStatesOfTheWorkersThatWereLive) {
  EXPECT_TRUE(states_.is_complete());
  EXPECT_EQ(states_.cut(), 0u);
  states_.BeginCut(kWorkers);
  EXPECT_EQ(states_.cut(), 1u);
  Keep(1, 1, 11);
  EXPECT_FALSE(states_.is_complete());
  Keep(0, 1, 10);
  Keep(2, 1, 12);
  EXPECT_TRUE(states_.is_complete());
  EXPECT_THAT(Cut(states_), ElementsAre(Pair(WorkerId(0), 10), Pair(WorkerId(1), 11)));
}

TEST_F(StateCollectorTest, AStateThatIsNotFiniteIsRefused) {
  states_.BeginCut(kWorkers);
  for (const float bad : {std::nanf(""), INFINITY}) {
    const absl::Status status = states_.Keep(WorkerId(1), 1, State(bad));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("of worker 1 holds a NaN"));
  }
  EXPECT_FALSE(states_.is_complete());
}

TEST_F(StateCollectorTest, TheFirstStateForTheLatestCutCounts) {
  states_.BeginCut(kWorkers);
  Keep(0, 1, 1);
  states_.BeginCut(kWorkers);
  Keep(0, 1, 2);
  Keep(0, 2, 3);
  Keep(0, 2, 4);
  Keep(1, 2, 5);
  EXPECT_THAT(Cut(states_), ElementsAre(Pair(WorkerId(0), 3), Pair(WorkerId(1), 5)));
  Keep(0, 2, 6);
  EXPECT_THAT(Cut(states_), IsEmpty()) << "nothing is held once it was taken";
}

TEST_F(StateCollectorTest, AWorkerThatHasEndedIsAskedNoMore) {
  states_.BeginCut(kWorkers);
  Keep(0, kFinalCut, 9);
  Keep(1, 1, 1);
  EXPECT_THAT(Cut(states_), ElementsAre(Pair(WorkerId(0), 9), Pair(WorkerId(1), 1)));
  states_.BeginCut(kWorkers);
  Keep(1, kFinalCut, 8);
  EXPECT_THAT(Cut(states_), ElementsAre(Pair(WorkerId(0), 9), Pair(WorkerId(1), 8)));
  states_.BeginCut(kWorkers);
  EXPECT_TRUE(states_.is_complete());
  EXPECT_THAT(Cut(states_), ElementsAre(Pair(WorkerId(0), 9), Pair(WorkerId(1), 8)));
}

TEST_F(StateCollectorTest, NobodyWaitsForAWorkerThatWasRemovedOrReplaced) {
  states_.BeginCut(kWorkers);
  states_.RemoveWorker(WorkerId(0));
  EXPECT_FALSE(states_.is_complete());
  states_.AddWorker(WorkerId(1));
  EXPECT_TRUE(states_.is_complete());
  Keep(1, 1, 5);
  SliceSnapshot cut;
  states_.TakeCut(cut.own, cut.without_own);
  EXPECT_TRUE(cut.own.empty()) << "the new process was not there at the cut";
  EXPECT_THAT(cut.without_own, ElementsAre(WorkerId(0), WorkerId(1))) << "nobody may use this cut";
  Keep(1, kFinalCut, 6);
  states_.AddWorker(WorkerId(1));
  states_.BeginCut(kWorkers);
  EXPECT_FALSE(states_.is_complete()) << "the state was another process's";
}

TEST_F(StateCollectorTest, TheFirstProcessAfterARestoreGetsTheStateUntilItPushes) {
  states_.Restore(std::vector<SliceSnapshot::OwnState>{
      {WorkerId(0), State(7)}, {WorkerId(1), State(8)}, {WorkerId(2), State(9)}});
  for (const uint32_t worker : {0, 1, 2}) states_.AddWorker(WorkerId(worker));
  EXPECT_EQ(ValueOf(states_.Restored(WorkerId(0))), 7);
  EXPECT_EQ(ValueOf(states_.Restored(WorkerId(0))), 7) << "the answer may be lost";
  states_.NotePush(WorkerId(0));
  EXPECT_TRUE(states_.Restored(WorkerId(0)).empty());
  states_.AddWorker(WorkerId(1));
  EXPECT_TRUE(states_.Restored(WorkerId(1)).empty()) << "it replaces a lost one";
  states_.RemoveWorker(WorkerId(2));
  states_.AddWorker(WorkerId(2));
  EXPECT_TRUE(states_.Restored(WorkerId(2)).empty());
}

TEST_F(StateCollectorTest, AStateOfAnotherLengthIsRefused) {
  states_.BeginCut(kWorkers);
  const absl::Status status = states_.Keep(WorkerId(0), 1, State(1).Subrange(0, 12));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("expected an own state of 24 bytes (2 arrays of 3 float32), got 12"));
  EXPECT_FALSE(states_.is_complete());
}

TEST(OwnStatesWithoutArraysTest, NothingIsAwaitedOrTaken) {
  StateCollector states(/*arrays=*/0, /*size=*/3);
  states.BeginCut(kWorkers);
  EXPECT_TRUE(states.is_complete());
  EXPECT_EQ(states.cut(), 0u);
  EXPECT_TRUE(absl::IsInvalidArgument(states.Keep(WorkerId(0), kFinalCut, Payload())));
}

Payload Bytes(const std::string& text) {
  const auto owned = std::make_shared<std::string>(text);
  Payload payload{owned};
  payload.Append({reinterpret_cast<const uint8_t*>(owned->data()), owned->size()});
  return payload;
}

std::string TextOf(const Payload& state) {
  std::string text(state.size_bytes(), ' ');
  state.CopyTo({reinterpret_cast<uint8_t*>(text.data()), text.size()});
  return text;
}

TEST(StatesOfProgramsTest, StatesAreBytesOfWorkersThatHaveSaidSo) {
  StateCollector states = StateCollector::OfPrograms();
  states.BeginCut(kWorkers);
  EXPECT_TRUE(states.is_complete());
  EXPECT_EQ(states.cut(), 0u);
  states.Expect(WorkerId(1));
  states.Expect(WorkerId(2));  // not live at the cut
  states.BeginCut(kWorkers);
  EXPECT_EQ(states.cut(), 2u);
  EXPECT_FALSE(states.is_complete());
  ASSERT_TRUE(states.Keep(WorkerId(0), 2, Bytes("not awaited")).ok());
  ASSERT_TRUE(states.Keep(WorkerId(1), 2, Bytes("seven..")).ok());
  EXPECT_TRUE(states.is_complete());
  std::vector<SliceSnapshot::OwnState> kept;
  std::vector<WorkerId> lost;
  states.TakeCut(kept, lost);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].worker, WorkerId(1));
  EXPECT_EQ(TextOf(kept[0].arrays), "seven..");
  // An empty state is one, too.
  states.BeginCut(kWorkers);
  ASSERT_TRUE(states.Keep(WorkerId(1), kFinalCut, Payload()).ok());
  EXPECT_TRUE(states.is_complete());
}

TEST(StatesOfProgramsTest, ALastStateIsNotThatOfACutBeforeTheLastPush) {
  for (const bool has_pushed : {false, true}) {
    StateCollector states = StateCollector::OfPrograms();
    states.Expect(WorkerId(1));
    states.BeginCut(kWorkers);
    if (has_pushed) states.NotePush(WorkerId(1));
    ASSERT_TRUE(states.Keep(WorkerId(1), kFinalCut, Bytes("the end")).ok());
    EXPECT_TRUE(states.is_complete());
    std::vector<SliceSnapshot::OwnState> kept;
    std::vector<WorkerId> lost;
    states.TakeCut(kept, lost);
    EXPECT_EQ(kept.size(), has_pushed ? 0u : 1u);
    EXPECT_EQ(lost.size(), has_pushed ? 1u : 0u) << "nobody may use this cut";
  }
}

TEST(StatesOfProgramsTest, OneThatIsTooLongIsRefused) {
  StateCollector states = StateCollector::OfPrograms();
  states.Expect(WorkerId(0));
  states.BeginCut(kWorkers);
  const absl::Status status =
      states.Keep(WorkerId(0), 1, Bytes(std::string(kMaxProgramStateBytes + 1, 'x')));
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 67108864 bytes, got 67108865"));
  EXPECT_FALSE(states.is_complete());
  EXPECT_TRUE(states.Keep(WorkerId(0), 1, Bytes(std::string(kMaxProgramStateBytes, 'x'))).ok());
}

}  // namespace
}  // namespace capstan
