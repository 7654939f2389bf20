#include "server/slice/worker_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/random.h"
#include "common/codec/changed_values.h"
#include "common/codec/codec.h"
#include "common/exchange/payload_floats.h"

namespace capstan {
namespace {

using Values = std::vector<float>;

constexpr size_t kSize = 400;
constexpr uint64_t kMegabyte = 1'000'000;
const WorkerId kAlice(0), kBob(1);

Payload PayloadOf(const Values& values) {
  const auto owner = std::make_shared<Values>(values);
  return Payload(absl::MakeConstSpan(*owner), owner);
}

uint32_t WordAt(const Payload& payload, size_t i) {
  std::vector<uint8_t> bytes(payload.size_bytes());
  payload.CopyTo(absl::MakeSpan(bytes));
  uint32_t word = 0;
  for (size_t byte = 0; byte < 4; ++byte) word |= uint32_t{bytes[4 * i + byte]} << 8 * byte;
  return word;
}

float FloatAt(const Payload& payload, size_t i) { return Floats(payload)[i]; }

// A worker that does with replies what the bytes in common/codec/README.md say, for float32 values
// of topk.
struct Worker {
  WorkerId id;
  Values values = {};
  uint64_t copy = 0;
  CodecType last = CodecType::kFloat32;

  void Take(const WorkerCopies::Reply& reply) {
    last = reply.codec;
    copy = reply.copy;
    if (reply.codec == CodecType::kFloat32) {
      values = Floats(reply.values);
      return;
    }
    ASSERT_FALSE(values.empty()) << "a difference for a worker without values";
    const size_t count = reply.values.size_bytes() / 8;
    for (size_t j = 0; j < count; ++j) {
      float& value = values.at(WordAt(reply.values, j));
      const float sent = FloatAt(reply.values, count + j);
      value = reply.codec == CodecType::kChanged ? sent : value + sent;
    }
  }
};

// The values of a slice, as updates change them.
class WorkerCopiesTest : public testing::Test {
 protected:
  WorkerCopiesTest() {
    for (float& value : values_) value = random_.Normal();
  }

  // Changes `count` elements.
  void Update(size_t count) {
    ++version_;
    for (size_t i = 0; i < count; ++i) values_[random_.UniformInt(kSize)] += random_.Normal();
  }
  void UpdateAll() {
    ++version_;
    for (float& value : values_) value += random_.Normal();
  }
  absl::StatusOr<WorkerCopies::Reply> Ask(WorkerId worker, uint64_t copy, bool is_shared) {
    return copies_.Answer({worker, copy, is_shared}, PayloadOf(values_), version_);
  }
  void Pull(Worker& worker, bool is_shared) {
    const auto reply = Ask(worker.id, worker.copy, is_shared);
    ASSERT_TRUE(reply.ok()) << reply.status();
    worker.Take(*reply);
  }

  Random random_{/*seed=*/3};
  Values values_ = Values(kSize);
  uint64_t version_ = 0;
  const std::shared_ptr<const Codec> codec_ = MakeCodec("topk:0.01").value();  // 4 elements
  ReplyStateBudget budget_{kMegabyte};
  WorkerCopies copies_{codec_.get(), DrawKey(), &budget_};
  Worker alice_{kAlice};
  Worker bob_{kBob};
};

// What a worker of a shared copy must have after each version, in float32: the four elements that
// differ most from its values become more like the servers'.
void MoveLargest(const Values& values, Values& copy) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    return std::abs(values[left] - copy[left]) > std::abs(values[right] - copy[right]);
  });
  for (size_t j = 0; j < 4; ++j) copy[order[j]] += values[order[j]] - copy[order[j]];
}

TEST_F(WorkerCopiesTest, TheFirstPullGetsAWholeCopy) {
  Pull(alice_, /*is_shared=*/true);
  EXPECT_EQ(alice_.last, CodecType::kFloat32);
  EXPECT_EQ(alice_.values, values_);
  EXPECT_NE(alice_.copy, 0u);
}

TEST_F(WorkerCopiesTest, ADifferenceHasTheLargestElementsAndLosesNothing) {
  for (const bool is_shared : {true, false}) {
    Worker worker{kAlice};
    Pull(worker, is_shared);
    Values expected = worker.values;
    for (int step = 0; step < 50; ++step) {
      UpdateAll();
      Pull(worker, is_shared);
      MoveLargest(values_, expected);
      ASSERT_EQ(worker.last, CodecType::kTopkFloat32);
      ASSERT_EQ(worker.values, expected) << "step " << step << ", seed 3";
    }
    // Nothing is lost: without further updates the worker gets all of them.
    for (size_t pull = 0; pull < 2 * kSize / 4; ++pull) {
      ++version_;
      Pull(worker, is_shared);
    }
    EXPECT_EQ(worker.values, values_);
  }
}

TEST_F(WorkerCopiesTest, FewChangesAreSentExactly) {
  for (const bool is_shared : {true, false}) {
    Worker worker{kAlice};
    Pull(worker, is_shared);
    for (int step = 0; step < 20; ++step) {
      Update(/*count=*/16);  // four workers with four elements each
      Pull(worker, is_shared);
      EXPECT_EQ(worker.last, CodecType::kChanged);
      EXPECT_EQ(worker.values, values_);
    }
    Update(/*count=*/40);
    Pull(worker, is_shared);
    EXPECT_EQ(worker.last, CodecType::kTopkFloat32);
  }
}

TEST_F(WorkerCopiesTest, AllWorkersOfASharedCopyHaveTheSame) {
  Pull(alice_, /*is_shared=*/true);
  Pull(bob_, /*is_shared=*/true);
  for (int step = 0; step < 20; ++step) {
    UpdateAll();
    Pull(step % 2 == 0 ? alice_ : bob_, /*is_shared=*/true);
    Pull(step % 2 == 0 ? bob_ : alice_, /*is_shared=*/true);
    ASSERT_EQ(alice_.last, CodecType::kTopkFloat32);
    ASSERT_EQ(alice_.values, bob_.values);
    ASSERT_EQ(alice_.copy, bob_.copy);
  }
}

TEST_F(WorkerCopiesTest, ARepeatedPullOfASharedCopyGetsTheSameDifference) {
  Pull(alice_, /*is_shared=*/true);
  UpdateAll();
  const auto first = Ask(kAlice, alice_.copy, /*is_shared=*/true);
  const auto second = Ask(kAlice, alice_.copy, /*is_shared=*/true);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->codec, CodecType::kTopkFloat32);
  EXPECT_EQ(second->codec, CodecType::kTopkFloat32);
  EXPECT_EQ(Floats(first->values), Floats(second->values));
  EXPECT_EQ(first->copy, second->copy);
}

TEST_F(WorkerCopiesTest, AWorkerWithoutValuesGetsTheWholeSharedCopyAndNotTheValues) {
  Pull(alice_, /*is_shared=*/true);
  UpdateAll();
  Pull(alice_, /*is_shared=*/true);
  Pull(bob_, /*is_shared=*/true);
  EXPECT_EQ(bob_.last, CodecType::kFloat32);
  EXPECT_EQ(bob_.values, alice_.values) << "bit by bit what the others have";
  EXPECT_NE(bob_.values, values_);
  UpdateAll();
  Pull(alice_, /*is_shared=*/true);
  Pull(bob_, /*is_shared=*/true);
  EXPECT_EQ(bob_.last, CodecType::kTopkFloat32);
  EXPECT_EQ(bob_.values, alice_.values);
}

TEST_F(WorkerCopiesTest, ALostReplyOfAWorkersOwnCopyIsFollowedByAWholeOne) {
  Pull(alice_, /*is_shared=*/false);
  UpdateAll();
  ASSERT_TRUE(Ask(kAlice, alice_.copy, /*is_shared=*/false).ok());  // lost
  Pull(alice_, /*is_shared=*/false);
  EXPECT_EQ(alice_.last, CodecType::kFloat32);
  EXPECT_EQ(alice_.values, values_);
  UpdateAll();
  Pull(alice_, /*is_shared=*/false);
  EXPECT_EQ(alice_.last, CodecType::kTopkFloat32);
}

// A late duplicate makes the server believe that the worker has the exact values of this version.
// The worker, with another copy of the same version, must not be believed to have them.
TEST_F(WorkerCopiesTest, TwoCopiesOfOneVersionHaveDifferentNumbers) {
  Pull(alice_, /*is_shared=*/false);
  const uint64_t before = alice_.copy;
  UpdateAll();
  Pull(alice_, /*is_shared=*/false);
  ASSERT_TRUE(Ask(kAlice, before, /*is_shared=*/false).ok());
  UpdateAll();
  Pull(alice_, /*is_shared=*/false);
  EXPECT_EQ(alice_.last, CodecType::kFloat32);
  EXPECT_EQ(alice_.values, values_);
}

TEST_F(WorkerCopiesTest, EachWorkerHasItsOwnCopy) {
  Pull(alice_, /*is_shared=*/false);
  UpdateAll();
  Pull(alice_, /*is_shared=*/false);
  Pull(bob_, /*is_shared=*/false);
  EXPECT_EQ(bob_.values, values_);
  EXPECT_NE(alice_.copy, bob_.copy);
  Values alice = alice_.values, bob = bob_.values;
  for (int step = 0; step < 20; ++step) {
    UpdateAll();
    Pull(alice_, /*is_shared=*/false);
    MoveLargest(values_, alice);
    ASSERT_EQ(alice_.values, alice);
    if (step % 3 > 0) continue;
    Pull(bob_, /*is_shared=*/false);
    MoveLargest(values_, bob);
    ASSERT_EQ(bob_.values, bob);
  }
}

TEST_F(WorkerCopiesTest, WithoutUpdatesThereIsNothingToSend) {
  Pull(alice_, /*is_shared=*/false);
  const auto reply = Ask(kAlice, alice_.copy, /*is_shared=*/false);
  ASSERT_TRUE(reply.ok());
  EXPECT_TRUE(reply->values.empty());
  EXPECT_EQ(reply->codec, CodecType::kChanged);
}

// As after a step in which nobody had a gradient.
TEST_F(WorkerCopiesTest, AVersionPulledAgainLeavesTheSharedCopyAsItIs) {
  Pull(alice_, /*is_shared=*/true);
  Pull(bob_, /*is_shared=*/true);
  UpdateAll();
  Pull(alice_, /*is_shared=*/true);
  const Values before = alice_.values;
  const auto again = Ask(kAlice, alice_.copy, /*is_shared=*/true);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->values.empty());
  EXPECT_EQ(again->codec, CodecType::kChanged);
  alice_.Take(*again);
  EXPECT_EQ(alice_.values, before);
  EXPECT_NE(alice_.values, values_);
  Pull(bob_, /*is_shared=*/true);
  EXPECT_EQ(bob_.values, before) << "the difference is still there";
  UpdateAll();
  Pull(alice_, /*is_shared=*/true);
  Pull(bob_, /*is_shared=*/true);
  EXPECT_EQ(alice_.last, CodecType::kTopkFloat32);
  EXPECT_EQ(bob_.values, alice_.values);
}

TEST_F(WorkerCopiesTest, BeyondTheBudgetAWorkerGetsTheValues) {
  ReplyStateBudget one(kSize * sizeof(float) + 1);
  WorkerCopies copies(codec_.get(), DrawKey(), &one);
  const auto ask = [&](WorkerId worker) {
    return copies.Answer({worker, /*copy=*/0, /*is_shared=*/false}, PayloadOf(values_), version_);
  };
  EXPECT_NE(ask(kAlice)->copy, 0u);
  const auto bob = ask(kBob);
  EXPECT_EQ(bob->copy, 0u);
  EXPECT_EQ(Floats(bob->values), values_);
  copies.Forget(kAlice);
  EXPECT_NE(ask(kBob)->copy, 0u) << "there is room again";
  EXPECT_NE(ask(kBob)->copy, 0u) << "its own room";
}

TEST(ReplyStateBudgetTest, HasRoomUpToTheLastByte) {
  ReplyStateBudget budget(std::numeric_limits<uint64_t>::max());
  EXPECT_TRUE(budget.Take(5));
  EXPECT_TRUE(budget.Take(std::numeric_limits<uint64_t>::max() - 5));
  EXPECT_FALSE(budget.Take(1));
  budget.Return(1);
  EXPECT_FALSE(budget.Take(2));
  EXPECT_TRUE(budget.Take(1));
}

TEST_F(WorkerCopiesTest, CopiesGiveTheirMemoryBack) {
  constexpr uint64_t kBytes = kSize * sizeof(float);
  ReplyStateBudget budget(2 * kBytes);
  {
    WorkerCopies copies(codec_.get(), DrawKey(), &budget);
    for (const WorkerId worker : {kAlice, kBob}) {
      ASSERT_TRUE(copies.Answer({worker, 0, /*is_shared=*/false}, PayloadOf(values_), 0).ok());
    }
    EXPECT_FALSE(budget.Take(1));
    ASSERT_TRUE(copies.Answer({kAlice, 0, /*is_shared=*/true}, PayloadOf(values_), 0).ok());
    EXPECT_TRUE(budget.Take(2 * kBytes)) << "a shared copy is a part of the shard";
    budget.Return(2 * kBytes);
    ASSERT_TRUE(copies.Answer({kAlice, 0, /*is_shared=*/false}, PayloadOf(values_), 0).ok());
    EXPECT_FALSE(budget.Take(2 * kBytes));
  }
  EXPECT_TRUE(budget.Take(2 * kBytes));
}

TEST_F(WorkerCopiesTest, ARestoredCopyGoesOnWithTheSameBits) {
  Pull(alice_, /*is_shared=*/true);
  for (int step = 0; step < 5; ++step) {
    UpdateAll();
    Pull(alice_, /*is_shared=*/true);
  }
  const auto snapshot = copies_.shared();
  ASSERT_TRUE(snapshot.has_value());
  EXPECT_EQ(snapshot->version, version_);
  WorkerCopies restored(codec_.get(), DrawKey(), &budget_);
  ASSERT_TRUE(restored.Restore(*snapshot).ok());
  UpdateAll();
  Pull(alice_, /*is_shared=*/true);
  const auto reply = restored.Answer({kBob, 0, /*is_shared=*/true}, PayloadOf(values_), version_);
  ASSERT_TRUE(reply.ok());
  bob_.Take(*reply);
  EXPECT_EQ(bob_.values, alice_.values);
}

TEST_F(WorkerCopiesTest, OwnCopiesAreNotPartOfASnapshot) {
  EXPECT_FALSE(copies_.shared().has_value());
  Pull(alice_, /*is_shared=*/false);
  EXPECT_FALSE(copies_.shared().has_value());
}

TEST_F(WorkerCopiesTest, AnInfinityIsRefusedAndChangesNothing) {
  for (const bool is_shared : {true, false}) {
    Worker worker{kAlice};
    Pull(worker, is_shared);
    UpdateAll();
    const float value = values_[7];
    values_[7] = std::numeric_limits<float>::infinity();
    const absl::Status status = Ask(kAlice, worker.copy, is_shared).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find("cannot be sent as topk:0.01"), std::string::npos) << status;
    values_[7] = value;
    Values expected = worker.values;
    Pull(worker, is_shared);
    MoveLargest(values_, expected);
    EXPECT_EQ(worker.values, expected);
  }
}

TEST_F(WorkerCopiesTest, RoundedDifferencesDoNotAddUp) {
  const std::shared_ptr<const Codec> int8 = MakeCodec("topk:0.1:int8").value();
  WorkerCopies copies(int8.get(), DrawKey(), &budget_);
  Values worker = values_;
  int differences = 0;
  uint64_t copy = copies.Answer({kAlice, 0, true}, PayloadOf(values_), version_)->copy;
  for (int step = 0; step < 200; ++step) {
    ++version_;
    if (step < 100) UpdateAll();
    const auto reply = copies.Answer({kAlice, copy, true}, PayloadOf(values_), version_);
    ASSERT_TRUE(reply.ok());
    copy = reply->copy;
    if (reply->codec == CodecType::kChanged) {
      ApplyChanged(reply->values.piece(), absl::MakeSpan(worker));
      continue;
    }
    ASSERT_EQ(reply->codec, CodecType::kTopkInt8);
    ++differences;
    int8->DecodeAdd(reply->values.piece(), kSize, /*begin=*/0, absl::MakeSpan(worker));
  }
  EXPECT_GE(differences, 100) << "as long as all elements change";
  // After 100 updates and 100 differences more, all but a small part of the last one has come.
  for (size_t i = 0; i < kSize; ++i) EXPECT_NEAR(worker[i], values_[i], 0.01) << i;
}

}  // namespace
}  // namespace capstan
