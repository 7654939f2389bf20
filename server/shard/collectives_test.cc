#include "server/shard/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kLast = std::numeric_limits<uint64_t>::max();

template <typename Value>
Payload Bytes(const std::vector<Value>& values) {
  const auto copy = std::make_shared<std::vector<Value>>(values);
  Payload payload{copy};
  payload.Append({reinterpret_cast<const uint8_t*>(copy->data()), copy->size() * sizeof(Value)});
  return payload;
}

template <typename Value>
std::vector<Value> Values(const Payload& payload) {
  std::vector<Value> values(payload.size_bytes() / sizeof(Value));
  payload.CopyTo({reinterpret_cast<uint8_t*>(values.data()), payload.size_bytes()});
  return values;
}

Collective Part(int64_t step, uint64_t number, CollectiveType type) {
  Collective part;
  part.step = Step(step);
  part.number = number;
  part.type = type;
  return part;
}

Collective Doubles(int64_t step, uint64_t number, CollectiveType type,
                   const std::vector<double>& values) {
  Collective part = Part(step, number, type);
  part.dtype = CollectiveDtype::kFloat64;
  part.shape = {values.size()};
  part.values = Bytes(values);
  return part;
}

class CollectivesTest : public testing::Test {
 protected:
  // Workers 0 ... count - 1, in this incarnation.
  // The last one begins at `first_step`.
  void SetWorkers(uint32_t count, uint64_t incarnation = 1, int64_t first_step = 0) {
    std::vector<ShardWorker> workers(count);
    for (uint32_t i = 0; i < count; ++i) {
      workers[i].worker = WorkerId(i);
      workers[i].incarnation = Incarnation(incarnation);
    }
    workers.back().first_step = Step(first_step);
    ReleasedReplies released;
    collectives_.SetWorkers(workers, &released);
    Run(released);
  }
  void Send(uint32_t worker, Collective part) {
    ReleasedReplies released;
    replies_[worker].reset();
    collectives_.Exchange(
        WorkerId(worker), std::move(part),
        [this, worker](ExchangeReply reply) { replies_[worker] = std::move(reply); }, &released);
    Run(released);
  }
  void Progress(uint32_t worker, int64_t next) {
    ReleasedReplies released;
    collectives_.NoteProgress(WorkerId(worker), Step(next), &released);
    Run(released);
  }
  static void Run(ReleasedReplies& released) {
    for (auto& [done, reply] : released) done(std::move(reply));
  }

  bool Waits(uint32_t worker) { return !replies_[worker].has_value(); }
  absl::Status StatusOf(uint32_t worker) { return replies_[worker].value().status; }
  template <typename Value = double>
  std::vector<Value> ResultOf(uint32_t worker) {
    EXPECT_TRUE(StatusOf(worker).ok()) << StatusOf(worker);
    return Values<Value>(replies_[worker]->values);
  }

  Collectives collectives_;
  std::map<uint32_t, std::optional<ExchangeReply>> replies_;
};

TEST_F(CollectivesTest, ValuesAreCombinedInOrderOfWorkerWhoeverComesFirst) {
  SetWorkers(3);
  // The sum depends on the order: (1e16 + 1) + -1e16 is 0, and (-1e16 + 1) + 1e16 is 1 or 2.
  const std::vector<double> parts = {1e16, 1, -1e16};
  for (const std::vector<uint32_t>& order :
       {std::vector<uint32_t>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    SetWorkers(3, /*incarnation=*/order[0] + 10);
    for (const uint32_t worker : order) {
      Send(worker, Doubles(0, 0, CollectiveType::kSum, {parts[worker]}));
    }
    for (const uint32_t worker : order) EXPECT_THAT(ResultOf(worker), ElementsAre(0.0));
  }
}

TEST_F(CollectivesTest, EachOperationHasItsResult) {
  SetWorkers(2);
  const auto both = [this](uint64_t number, CollectiveType type) {
    Send(0, Doubles(4, number, type, {1, -2}));
    EXPECT_TRUE(Waits(0));
    Send(1, Doubles(4, number, type, {4, 8}));
    EXPECT_EQ(ResultOf(0), ResultOf(1));
    return ResultOf(0);
  };
  EXPECT_THAT(both(0, CollectiveType::kSum), ElementsAre(5, 6));
  EXPECT_THAT(both(1, CollectiveType::kMean), ElementsAre(2.5, 3));
  EXPECT_THAT(both(2, CollectiveType::kMin), ElementsAre(1, -2));
  EXPECT_THAT(both(3, CollectiveType::kMax), ElementsAre(4, 8));
  Send(0, Part(4, 4, CollectiveType::kBarrier));
  EXPECT_TRUE(Waits(0));
  Send(1, Part(4, 4, CollectiveType::kBarrier));
  EXPECT_TRUE(StatusOf(0).ok() && StatusOf(1).ok());
}

TEST_F(CollectivesTest, Int64AndFloat32AreExactAndANanStays) {
  SetWorkers(2);
  const int64_t large = (int64_t{1} << 53) + 1;
  for (const uint32_t worker : {0, 1}) {
    Collective part = Part(0, 0, CollectiveType::kMax);
    part.dtype = CollectiveDtype::kInt64;
    part.shape = {1};
    part.values = Bytes<int64_t>({large + worker});
    Send(worker, std::move(part));
  }
  EXPECT_THAT(ResultOf<int64_t>(0), ElementsAre(large + 1));
  for (const uint32_t worker : {0, 1}) {
    Collective part = Part(0, 1, CollectiveType::kMax);
    part.shape = {2};
    part.values = Bytes<float>({worker == 0 ? std::nanf("") : 1.0f, 0.1f});
    Send(worker, std::move(part));
  }
  EXPECT_TRUE(std::isnan(ResultOf<float>(1)[0]));
  EXPECT_EQ(ResultOf<float>(1)[1], 0.1f);
}

TEST_F(CollectivesTest, ABroadcastHasTheRootsValues) {
  SetWorkers(3);
  for (const uint32_t worker : {0, 1, 2}) {
    Collective part = Doubles(0, 0, CollectiveType::kBroadcast, {7, 8});
    part.root = WorkerId(1);
    if (worker != 1) part.values.Clear();
    Send(worker, std::move(part));
  }
  for (const uint32_t worker : {0, 1, 2}) EXPECT_THAT(ResultOf(worker), ElementsAre(7, 8));
}

TEST_F(CollectivesTest, ALostAnswerIsGivenAgainAndALostPartIsNotTakenTwice) {
  SetWorkers(2);
  Send(0, Doubles(0, 0, CollectiveType::kSum, {1}));
  std::optional<ExchangeReply> lost;
  // Worker 0 asks again, as its connection was lost.
  Collective again = Doubles(0, 0, CollectiveType::kSum, {1});
  again.values.Clear();
  Send(0, again);
  EXPECT_TRUE(Waits(0) || absl::IsUnavailable(StatusOf(0)));
  Send(1, Doubles(0, 0, CollectiveType::kSum, {10}));
  EXPECT_THAT(ResultOf(1), ElementsAre(11));
  // Worker 1 goes on. The answer for worker 0 is still there.
  Send(1, Doubles(0, 1, CollectiveType::kSum, {20}));
  Send(0, again);
  EXPECT_THAT(ResultOf(0), ElementsAre(11));
  EXPECT_TRUE(Waits(1));
  Send(0, Doubles(0, 1, CollectiveType::kSum, {2}));
  EXPECT_THAT(ResultOf(1), ElementsAre(22));
  Send(0, again);
  EXPECT_TRUE(absl::IsFailedPrecondition(StatusOf(0))) << StatusOf(0);
}

TEST_F(CollectivesTest, WorkersThatDiffersAreNamedAndAllHearOfIt) {
  SetWorkers(3);
  Send(2, Doubles(5, 1, CollectiveType::kSum, {1, 2, 3}));
  Send(0, Doubles(5, 1, CollectiveType::kSum, {1, 2}));
  for (const uint32_t worker : {0, 2}) {
    EXPECT_TRUE(absl::IsInvalidArgument(StatusOf(worker)));
    EXPECT_THAT(std::string(StatusOf(worker).message()),
                AllOf(HasSubstr("worker 0 calls the sum of 2 float64 as operation 1 of step 5"),
                      HasSubstr("worker 2 calls the sum of 3 float64")));
  }
  // Who comes later hears of it, too.
  Send(1, Doubles(5, 1, CollectiveType::kSum, {1, 2}));
  EXPECT_THAT(std::string(StatusOf(1).message()), HasSubstr("worker 1 calls the sum of 2"));
}

TEST_F(CollectivesTest, WorkersWhoseShapesDifferAreNamedIfTheyHaveAsManyElements) {
  const std::pair<std::vector<uint64_t>, std::string> shapes[] = {{{2, 3}, "2x3 float64"},
                                                                  {{3, 2}, "3x2 float64"},
                                                                  {{6}, "6 float64"},
                                                                  {{1, 6}, "1x6 float64"}};
  for (const CollectiveType type : {CollectiveType::kMean, CollectiveType::kBroadcast}) {
    const std::string call = type == CollectiveType::kMean ? "the mean of " : "a broadcast of ";
    for (size_t i = 1; i < std::size(shapes); ++i) {
      SetWorkers(2, /*incarnation=*/10 * static_cast<uint64_t>(type) + i);
      for (const uint32_t worker : {1, 0}) {
        Collective part = Doubles(1, 0, type, {1, 2, 3, 4, 5, 6});
        part.shape = shapes[worker * i].first;
        if (type == CollectiveType::kBroadcast && worker == 1) part.values.Clear();
        Send(worker, std::move(part));
      }
      for (const uint32_t worker : {0, 1}) {
        EXPECT_TRUE(absl::IsInvalidArgument(StatusOf(worker)));
        EXPECT_THAT(std::string(StatusOf(worker).message()),
                    AllOf(HasSubstr("worker 0 calls " + call + "2x3 float64"),
                          HasSubstr("and worker 1 calls " + call + shapes[i].second)));
      }
    }
  }
}

TEST_F(CollectivesTest, AScalarIsNoTensorOfOneElement) {
  SetWorkers(2);
  Send(1, Doubles(1, 0, CollectiveType::kMean, {1}));
  Collective scalar = Doubles(1, 0, CollectiveType::kMean, {1});
  scalar.shape = {};
  Send(0, scalar);
  EXPECT_THAT(std::string(StatusOf(0).message()),
              AllOf(HasSubstr("worker 0 calls the mean of a scalar of float64 as operation 0"),
                    HasSubstr("worker 1 calls the mean of 1 float64 as operation 0")));
}

TEST_F(CollectivesTest, ATensorsValuesAreCombinedAndTheShapeMayHaveNone) {
  SetWorkers(2);
  for (const uint32_t worker : {0, 1}) {
    Collective part = Doubles(0, 0, CollectiveType::kSum, {1, 2, 3, 4});
    part.shape = {2, 1, 2};
    Send(worker, std::move(part));
  }
  EXPECT_THAT(ResultOf(1), ElementsAre(2, 4, 6, 8));
  for (const uint32_t worker : {0, 1}) {
    Collective part = Doubles(0, 1, CollectiveType::kSum, {});
    part.shape = {kLast, 0, kLast};
    Send(worker, std::move(part));
  }
  EXPECT_THAT(ResultOf(1), ElementsAre());
}

TEST_F(CollectivesTest, AWorkerThatLeavesAnOperationOutIsNamed) {
  const struct {
    Collective other;
    const char* text;
  } cases[] = {
      {Doubles(5, 1, CollectiveType::kSum, {1}),
       "worker 1 calls the sum of 1 float64 as operation 1"},
      {Doubles(6, 0, CollectiveType::kSum, {1}), "as operation 0 of step 6"},
      {Part(5, kLast, CollectiveType::kEndOfStep), "worker 1 has ended step 5"},
      {Part(kLargestStep.value(), kLast, CollectiveType::kEndOfStep), "has done all its steps"},
  };
  uint64_t life = 1;
  for (const auto& one : cases) {
    for (const bool is_first : {true, false}) {
      SetWorkers(2, ++life);
      Progress(1, 5);
      if (is_first) Send(0, Doubles(5, 0, CollectiveType::kSum, {1}));
      Send(1, one.other);
      if (!is_first) Send(0, Doubles(5, 0, CollectiveType::kSum, {1}));
      EXPECT_THAT(std::string(StatusOf(0).message()), HasSubstr(one.text));
      EXPECT_TRUE(absl::IsInvalidArgument(StatusOf(0))) << StatusOf(0);
    }
  }
  // The end of an earlier step says nothing about a later one.
  SetWorkers(2, ++life);
  Send(1, Part(4, kLast, CollectiveType::kEndOfStep));
  EXPECT_TRUE(StatusOf(1).ok());
  Send(0, Doubles(5, 0, CollectiveType::kSum, {1}));
  EXPECT_TRUE(Waits(0));
  Send(1, Doubles(5, 0, CollectiveType::kSum, {2}));
  EXPECT_THAT(ResultOf(0), ElementsAre(3));
}

TEST_F(CollectivesTest, NobodyWaitsForAWorkerThatHasGone) {
  SetWorkers(3);
  Send(0, Doubles(0, 0, CollectiveType::kMean, {1}));
  Send(1, Doubles(0, 0, CollectiveType::kMean, {2}));
  EXPECT_TRUE(Waits(0) && Waits(1));
  SetWorkers(2);
  EXPECT_THAT(ResultOf(1), ElementsAre(1.5));
  Send(1, Doubles(0, 1, CollectiveType::kMean, {2}));
  SetWorkers(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(StatusOf(1)));
}

TEST_F(CollectivesTest, AWorkerThatTakesAnothersPlaceGetsTheResultsOfTheOpenStepAndTheOneBefore) {
  SetWorkers(2);
  for (const uint32_t worker : {0, 1}) {
    Progress(worker, 3);
    Send(worker, Doubles(3, 0, CollectiveType::kSum, {1.0 + worker}));
  }
  EXPECT_THAT(ResultOf(0), ElementsAre(3));
  // Worker 1 is lost, and another process does its step 3 again.
  SetWorkers(1);
  Send(0, Doubles(3, 1, CollectiveType::kSum, {5}));
  EXPECT_THAT(ResultOf(0), ElementsAre(5));
  SetWorkers(2, /*incarnation=*/1);
  Progress(0, 4);
  Progress(1, 3);
  Send(1, Doubles(3, 0, CollectiveType::kSum, {2}));
  EXPECT_THAT(ResultOf(1), ElementsAre(3));
  Send(1, Doubles(3, 1, CollectiveType::kSum, {2}));
  EXPECT_THAT(ResultOf(1), ElementsAre(5));
  // The step is over here, but another slice may lack worker 1's push of it.
  Progress(1, 4);
  SetWorkers(1);
  SetWorkers(2);
  Progress(1, 4);
  Send(1, Doubles(3, 0, CollectiveType::kSum, {2}));
  EXPECT_THAT(ResultOf(1), ElementsAre(3));
  // Once the next one is over, too, they are gone.
  Progress(0, 5);
  Progress(1, 5);
  SetWorkers(1);
  SetWorkers(2);
  Send(1, Doubles(3, 0, CollectiveType::kSum, {2}));
  EXPECT_TRUE(absl::IsInvalidArgument(StatusOf(1))) << StatusOf(1);
}

TEST_F(CollectivesTest, NobodyWaitsForAWorkerBeforeItsFirstStep) {
  std::vector<ShardWorker> workers(2);
  workers[0].worker = WorkerId(0);
  workers[1].worker = WorkerId(1);
  workers[1].first_step = Step(5);
  ReleasedReplies released;
  collectives_.SetWorkers(workers, &released);
  Send(0, Doubles(4, 0, CollectiveType::kSum, {1}));
  EXPECT_THAT(ResultOf(0), ElementsAre(1));
  Send(1, Doubles(5, 0, CollectiveType::kSum, {2}));
  Send(0, Doubles(4, 1, CollectiveType::kSum, {1}));
  EXPECT_THAT(ResultOf(0), ElementsAre(1));
  EXPECT_TRUE(Waits(1));
  Send(0, Doubles(5, 0, CollectiveType::kSum, {1}));
  EXPECT_THAT(ResultOf(1), ElementsAre(3));
}

TEST_F(CollectivesTest, AWorkerDoesNoOperationBeforeItsFirstStep) {
  SetWorkers(2, /*incarnation=*/1, /*first_step=*/5);
  Send(1, Part(4, 0, CollectiveType::kBarrier));
  EXPECT_TRUE(absl::IsInvalidArgument(StatusOf(1))) << StatusOf(1);
  Send(0, Doubles(4, 0, CollectiveType::kSum, {1}));
  EXPECT_THAT(ResultOf(0), ElementsAre(1));
}

TEST_F(CollectivesTest, AJoinedWorkerFollowsUntilAllHaveJoined) {
  SetWorkers(3);
  Progress(0, 7);
  Progress(1, 7);
  Progress(2, 7);
  Send(0, Part(7, 0, CollectiveType::kJoin));
  EXPECT_TRUE(Waits(0));
  // The others' operations do without it.
  Send(1, Doubles(7, 0, CollectiveType::kSum, {1}));
  EXPECT_TRUE(Waits(1));
  Send(2, Doubles(7, 0, CollectiveType::kSum, {2}));
  EXPECT_THAT(ResultOf(1), ElementsAre(3));
  EXPECT_TRUE(Waits(0));
  Progress(2, 8);
  EXPECT_THAT(ResultOf<int64_t>(0), ElementsAre(-1));
  Progress(0, 8);
  Progress(1, 8);
  // Worker 2 is ahead of worker 0's next join.
  Progress(2, 9);
  Send(0, Part(8, 0, CollectiveType::kJoin));
  EXPECT_THAT(ResultOf<int64_t>(0), ElementsAre(-1));
  Send(1, Part(8, 2, CollectiveType::kJoin));
  EXPECT_THAT(ResultOf<int64_t>(1), ElementsAre(-1));
  Send(1, Part(9, 0, CollectiveType::kJoin));
  Send(0, Part(9, 0, CollectiveType::kJoin));
  EXPECT_TRUE(Waits(0) && Waits(1));
  Send(2, Part(9, 3, CollectiveType::kJoin));
  Progress(0, 9);
  Progress(1, 9);
  for (const uint32_t worker : {0, 1, 2}) {
    EXPECT_THAT(ResultOf<int64_t>(worker), ElementsAre(4)) << worker;
  }
  // Afterwards all take part again.
  Send(0, Doubles(9, 4, CollectiveType::kSum, {1}));
  Send(2, Doubles(9, 4, CollectiveType::kSum, {1}));
  EXPECT_TRUE(Waits(0));
  Send(1, Doubles(9, 4, CollectiveType::kSum, {1}));
  EXPECT_THAT(ResultOf(0), ElementsAre(3));
}

TEST_F(CollectivesTest, WhoDoesAStepAgainHearsOfEachJoinBeforeIt) {
  SetWorkers(2);
  Progress(0, 7);
  Progress(1, 7);
  Send(0, Part(7, 0, CollectiveType::kJoin));
  Send(1, Part(7, 2, CollectiveType::kJoin));
  Send(0, Part(7, 3, CollectiveType::kJoin));
  Send(1, Part(7, 3, CollectiveType::kJoin));
  SetWorkers(2, /*incarnation=*/2);
  Send(1, Part(7, 2, CollectiveType::kJoin));
  EXPECT_THAT(ResultOf<int64_t>(1), ElementsAre(3));
  Send(1, Part(7, 3, CollectiveType::kJoin));
  EXPECT_THAT(ResultOf<int64_t>(1), ElementsAre(4));
  Send(1, Part(7, 4, CollectiveType::kJoin));
  EXPECT_TRUE(Waits(1)) << "the others have not joined a third time";
}

TEST_F(CollectivesTest, AJoinDoesNotEndBeforeAPushThatIsOnItsWay) {
  SetWorkers(2);
  Send(0, Part(7, 0, CollectiveType::kJoin));
  // Worker 1's last push, of step 7, comes after its join.
  Send(1, Part(8, 0, CollectiveType::kJoin));
  EXPECT_TRUE(Waits(0) && Waits(1));
  Progress(1, 8);
  EXPECT_THAT(ResultOf<int64_t>(0), ElementsAre(-1));
  EXPECT_TRUE(Waits(1));
  Progress(0, 8);
  Send(0, Part(8, 0, CollectiveType::kJoin));
  EXPECT_THAT(ResultOf<int64_t>(0), ElementsAre(1));
}

TEST_F(CollectivesTest, AJoinDoesNotEndBeforeTheJoinedWorkersOwnPush) {
  SetWorkers(1);
  Progress(0, 6);
  Send(0, Part(7, 0, CollectiveType::kJoin));
  EXPECT_TRUE(Waits(0)) << "another worker may still do step 6 with it";
  Progress(0, 7);
  EXPECT_THAT(ResultOf<int64_t>(0), ElementsAre(1));
}

TEST_F(CollectivesTest, WhoBeginsAfterTheOthersLastStepHearsSoByTheCode) {
  const Collective end = Part(kLargestStep.value(), kLast, CollectiveType::kEndOfStep);
  uint64_t life = 1;
  for (const CollectiveType type : {CollectiveType::kJoin, CollectiveType::kBarrier}) {
    for (const int64_t others_have : {5, 6}) {
      SetWorkers(2, ++life, /*first_step=*/5);
      Progress(0, others_have);
      Send(0, end);
      Send(1, Part(others_have, 0, type));
      EXPECT_EQ(StatusOf(1).code(), others_have == 5 ? absl::StatusCode::kOutOfRange
                                                     : absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST_F(CollectivesTest, WhoEntersAfterTheOthersHaveAllJoinedWaitsForWhatTheyDo) {
  SetWorkers(2);
  Progress(0, 5);
  Progress(1, 5);
  Send(0, Part(5, 2, CollectiveType::kJoin));
  Send(1, Part(5, 0, CollectiveType::kJoin));
  EXPECT_THAT(ResultOf<int64_t>(0), ElementsAre(3));
  SetWorkers(3, /*incarnation=*/1, /*first_step=*/5);
  Send(2, Doubles(5, 0, CollectiveType::kSum, {1}));
  EXPECT_TRUE(Waits(2)) << "they may end now";
  Send(0, Part(kLargestStep.value(), kLast, CollectiveType::kEndOfStep));
  EXPECT_TRUE(absl::IsOutOfRange(StatusOf(2))) << StatusOf(2);
}

TEST_F(CollectivesTest, AJoinWhoseOthersEndWithoutOneIsRefused) {
  for (const bool is_first : {true, false}) {
    SetWorkers(2, /*incarnation=*/is_first ? 5 : 6);
    if (is_first) Send(1, Part(4, 0, CollectiveType::kJoin));
    Send(0, Part(kLargestStep.value(), kLast, CollectiveType::kEndOfStep));
    if (!is_first) Send(1, Part(4, 0, CollectiveType::kJoin));
    EXPECT_THAT(std::string(StatusOf(1).message()),
                HasSubstr("worker 1 has joined, but worker 0 has done all its steps"));
  }
}

TEST_F(CollectivesTest, ABroadcastNeedsItsRoot) {
  SetWorkers(3);
  Send(0, Part(4, 0, CollectiveType::kJoin));
  for (const uint32_t root : {0, 7}) {
    Collective part = Doubles(4, root, CollectiveType::kBroadcast, {1});
    part.root = WorkerId(root);
    part.values.Clear();
    Send(1, part);
    EXPECT_THAT(std::string(StatusOf(1).message()), HasSubstr("that worker takes no part"));
  }
}

TEST_F(CollectivesTest, AnOpenPartIsAnsweredWhenItsWorkerGoesOn) {
  SetWorkers(2);
  int answers = 0;
  ReleasedReplies released;
  collectives_.Exchange(
      WorkerId(0), Doubles(0, 0, CollectiveType::kSum, {1}),
      [&answers](const ExchangeReply& reply) {
        EXPECT_TRUE(absl::IsFailedPrecondition(reply.status)) << reply.status;
        ++answers;
      },
      &released);
  Run(released);
  Send(0, Doubles(0, 1, CollectiveType::kSum, {1}));
  EXPECT_EQ(answers, 1);
}

TEST_F(CollectivesTest, ManyResultsOfAStepAreNotAllKept) {
  SetWorkers(1);
  for (uint64_t number = 0; number < (uint64_t{1} << 17); ++number) {
    Send(0, Part(3, number, CollectiveType::kBarrier));
    ASSERT_TRUE(StatusOf(0).ok());
  }
  SetWorkers(2);
  Send(1, Part(3, 0, CollectiveType::kBarrier));
  EXPECT_TRUE(StatusOf(1).ok()) << "the first ones are kept: " << StatusOf(1);
  Send(1, Part(3, (uint64_t{1} << 17) - 2, CollectiveType::kBarrier));
  EXPECT_THAT(std::string(StatusOf(1).message()), HasSubstr("too large to be kept"));
}

TEST_F(CollectivesTest, AWrongPartIsRefusedAndLeavesItsPlaceToTheRightOne) {
  SetWorkers(1);
  Collective part = Doubles(0, 0, CollectiveType::kSum, {1});
  part.shape = {2};
  Send(0, part);
  EXPECT_THAT(std::string(StatusOf(0).message()),
              HasSubstr("expected 16 bytes for the sum of 2 float64, got 8"));
  part.shape = std::vector<uint64_t>(100'000, kLast);
  Send(0, part);
  EXPECT_THAT(std::string(StatusOf(0).message()), HasSubstr("at most 64 dimensions, got 100000"));
  Send(0, Doubles(0, 0, CollectiveType::kSum, {1}));
  EXPECT_THAT(ResultOf(0), ElementsAre(1));
}

TEST_F(CollectivesTest, WhoWaitsCanBeCancelled) {
  SetWorkers(3);
  Send(0, Doubles(0, 0, CollectiveType::kSum, {1}));
  Send(1, Part(0, 0, CollectiveType::kJoin));
  EXPECT_EQ(collectives_.num_parked(), 2);
  ReleasedReplies released;
  collectives_.Cancel(absl::UnavailableError("ends"), &released);
  Run(released);
  EXPECT_TRUE(absl::IsUnavailable(StatusOf(0)) && absl::IsUnavailable(StatusOf(1)));
  EXPECT_EQ(collectives_.num_parked(), 0);
}

}  // namespace
}  // namespace capstan
