#include "common/scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/fake_clock.h"
#include "common/base/random.h"
#include "common/scheduler/transfer_queue.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Records the order of starts. Keeps each transfer in flight until the test credits it.
class Recorder {
 public:
  Transfer Make(int id, uint64_t bytes, int layer = 0) {
    Transfer transfer;
    transfer.layer = layer;
    transfer.bytes = bytes;
    transfer.start = [this, id](absl::AnyInvocable<void()> credited) {
      started.push_back(id);
      open.push_back(std::move(credited));
    };
    return transfer;
  }
  std::vector<int> started;
  std::vector<absl::AnyInvocable<void()>> open;
};

TEST(SchedulerTest, StartsInOrderWhileThereIsCredit) {
  Scheduler scheduler(/*credit_bytes=*/100, std::make_unique<FifoQueue>());
  Recorder recorder;
  for (int id = 0; id < 5; ++id) scheduler.Submit(recorder.Make(id, /*bytes=*/60));
  EXPECT_EQ(recorder.started, (std::vector<int>{0, 1})) << "the second starts on the last credit";
  recorder.open[1]();
  EXPECT_EQ(recorder.started, (std::vector<int>{0, 1, 2}));
  recorder.open[0]();
  recorder.open[2]();
  EXPECT_EQ(recorder.started, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(SchedulerTest, ALargerCreditStartsWhatItAllowsAndASmallerOneWaits) {
  Scheduler scheduler(/*credit_bytes=*/1, std::make_unique<FifoQueue>());
  Recorder recorder;
  for (int id = 0; id < 5; ++id) scheduler.Submit(recorder.Make(id, /*bytes=*/10));
  EXPECT_EQ(recorder.started, std::vector<int>{0});
  scheduler.SetCredit(25);
  EXPECT_EQ(recorder.started, (std::vector<int>{0, 1, 2}));
  scheduler.SetCredit(10);
  recorder.open[0]();
  recorder.open[1]();
  EXPECT_EQ(recorder.started, (std::vector<int>{0, 1, 2})) << "one is still on its way";
  recorder.open[2]();
  EXPECT_EQ(recorder.started, (std::vector<int>{0, 1, 2, 3}));
}

TEST(SchedulerTest, WhatNeedNotWaitCountsAgainstTheCreditAndOvertakesNothing) {
  Scheduler scheduler(/*credit_bytes=*/100, std::make_unique<FifoQueue>());
  Recorder recorder;
  EXPECT_TRUE(scheduler.TryStart(60));
  EXPECT_TRUE(scheduler.TryStart(60));
  EXPECT_FALSE(scheduler.TryStart(1)) << "no credit is left";
  scheduler.Submit(recorder.Make(0, /*bytes=*/70));
  EXPECT_THAT(recorder.started, IsEmpty());
  scheduler.ReturnCredit(60);
  EXPECT_THAT(recorder.started, ElementsAre(0));
  scheduler.Submit(recorder.Make(1, /*bytes=*/10));
  scheduler.SetCredit(50);
  recorder.open[0]();
  EXPECT_FALSE(scheduler.TryStart(1)) << "another one waits";
  scheduler.ReturnCredit(60);
  EXPECT_THAT(recorder.started, ElementsAre(0, 1));
  EXPECT_TRUE(scheduler.TryStart(1));
  scheduler.Close();
  EXPECT_FALSE(scheduler.TryStart(1));
}

TEST(SchedulerTest, ATransferLargerThanTheCreditGoesAlone) {
  Scheduler scheduler(/*credit_bytes=*/10, std::make_unique<FifoQueue>());
  Recorder recorder;
  scheduler.Submit(recorder.Make(0, /*bytes=*/1000));
  scheduler.Submit(recorder.Make(1, /*bytes=*/1));
  EXPECT_EQ(recorder.started, std::vector<int>{0});
  recorder.open[0]();
  EXPECT_EQ(recorder.started, (std::vector<int>{0, 1}));
}

TEST(SchedulerTest, ASmallTransferDoesNotOvertakeALargeOneOfHigherPriority) {
  Scheduler scheduler(/*credit_bytes=*/10, std::make_unique<PriorityQueue>());
  Recorder recorder;
  scheduler.Submit(recorder.Make(0, /*bytes=*/10, /*layer=*/2));
  scheduler.Submit(recorder.Make(1, /*bytes=*/1, /*layer=*/1));
  scheduler.Submit(recorder.Make(2, /*bytes=*/1000, /*layer=*/0));
  EXPECT_EQ(recorder.started, std::vector<int>{0}) << "the credit is used up";
  recorder.open[0]();
  EXPECT_EQ(recorder.started, (std::vector<int>{0, 2}));
}

TEST(SchedulerTest, PullsWithoutBytesWaitTheirTurnToo) {
  Scheduler scheduler(/*credit_bytes=*/10, std::make_unique<PriorityQueue>());
  Recorder recorder;
  scheduler.Submit(recorder.Make(0, /*bytes=*/10, /*layer=*/1));
  scheduler.Submit(recorder.Make(1, /*bytes=*/0, /*layer=*/1));
  scheduler.Submit(recorder.Make(2, /*bytes=*/0, /*layer=*/0));
  EXPECT_EQ(recorder.started, std::vector<int>{0});
  recorder.open[0]();
  EXPECT_EQ(recorder.started, (std::vector<int>{0, 2, 1}));
}

TEST(SchedulerTest, TransfersThatAreSentAtOnceDoNotRecurse) {
  Scheduler scheduler(/*credit_bytes=*/1, std::make_unique<FifoQueue>());
  std::vector<absl::AnyInvocable<void()>> held;
  int started = 0;
  Transfer first;
  first.bytes = 1;
  first.start = [&](absl::AnyInvocable<void()> credited) { held.push_back(std::move(credited)); };
  scheduler.Submit(std::move(first));
  for (int i = 0; i < 200'000; ++i) {
    Transfer transfer;
    transfer.bytes = 1;
    transfer.start = [&](absl::AnyInvocable<void()> credited) {
      ++started;
      credited();
    };
    scheduler.Submit(std::move(transfer));
  }
  held[0]();
  EXPECT_EQ(started, 200'000);
}

TEST(SchedulerTest, NothingStartsOrIsKeptOnceItIsClosed) {
  Scheduler scheduler(/*credit_bytes=*/10, std::make_unique<FifoQueue>());
  Recorder recorder;
  const auto kept = std::make_shared<int>(0);
  for (int id = 0; id < 2; ++id) {
    Transfer transfer = recorder.Make(id, /*bytes=*/10);
    transfer.start =
        [kept, start = std::move(transfer.start)](absl::AnyInvocable<void()> credited) mutable {
          start(std::move(credited));
        };
    scheduler.Submit(std::move(transfer));
  }
  scheduler.Close();
  EXPECT_EQ(kept.use_count(), 1) << "of what has started, and of what has not";
  scheduler.Submit(recorder.Make(2, /*bytes=*/10));
  recorder.open[0]();
  EXPECT_EQ(recorder.started, std::vector<int>{0});
}

// An independent implementation of the same rule: a list of waiting transfers in order of arrival.
class NaiveScheduler {
 public:
  explicit NaiveScheduler(uint64_t credit_bytes) : credit_bytes_(credit_bytes) {}

  void Submit(int id, uint64_t bytes, int layer) {
    waiting_.push_back({id, bytes, layer});
    StartReady();
  }
  // Credits the transfer that started as the `index`-th.
  void Credit(size_t index) {
    in_flight_bytes_ -= started_bytes_[index];
    StartReady();
  }
  const std::vector<int>& started() const { return started_; }

 private:
  struct Waiting {
    int id;
    uint64_t bytes;
    int layer;
  };
  void StartReady() {
    while (!waiting_.empty() && in_flight_bytes_ < credit_bytes_) {
      const auto next =
          std::min_element(waiting_.begin(), waiting_.end(),
                           [](const Waiting& a, const Waiting& b) { return a.layer < b.layer; });
      in_flight_bytes_ += next->bytes;
      started_.push_back(next->id);
      started_bytes_.push_back(next->bytes);
      waiting_.erase(next);
    }
  }

  const uint64_t credit_bytes_;
  uint64_t in_flight_bytes_ = 0;
  std::vector<Waiting> waiting_;
  std::vector<int> started_;
  std::vector<uint64_t> started_bytes_;
};

TEST(SchedulerTest, RandomOperationsAgreeWithANaiveScheduler) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const uint64_t credit = 1 + random.UniformInt(100);
    Scheduler scheduler(credit, std::make_unique<PriorityQueue>());
    NaiveScheduler naive(credit);
    Recorder recorder;
    std::vector<size_t> open;  // indices of the transfers in flight
    size_t seen = 0;
    for (int id = 0; id < 500; ++id) {
      if (open.empty() || random.Bernoulli(0.5)) {
        const uint64_t bytes = random.UniformInt(60);
        const int layer = static_cast<int>(random.UniformInt(6));
        scheduler.Submit(recorder.Make(id, bytes, layer));
        naive.Submit(id, bytes, layer);
      } else {
        const size_t which = random.UniformInt(open.size());
        const size_t index = open[which];
        open.erase(open.begin() + static_cast<int64_t>(which));
        std::exchange(recorder.open[index], nullptr)();
        naive.Credit(index);
      }
      ASSERT_EQ(recorder.started, naive.started()) << "operation " << id;
      for (; seen < recorder.started.size(); ++seen) open.push_back(seen);
    }
  }
}

TEST(SchedulerTest, EveryTransferOfManyThreadsStartsOnceWithinTheCredit) {
  Scheduler scheduler(/*credit_bytes=*/8, std::make_unique<PriorityQueue>());
  std::atomic<int> started = 0;
  std::atomic<int> in_flight = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        Transfer transfer;
        transfer.layer = (t + i) % 5;
        transfer.bytes = 1;
        transfer.start = [&](absl::AnyInvocable<void()> credited) {
          ++started;
          EXPECT_LE(++in_flight, 8);
          --in_flight;
          credited();
        };
        scheduler.Submit(std::move(transfer));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(started, 8000);
}

TEST(JoinedCreditTest, RunsOnceAtTheLastCallOfAnyCopy) {
  int runs = 0;
  const JoinedCredit joined(3, [&runs] { ++runs; });
  const JoinedCredit copy = joined;
  joined();
  copy();
  EXPECT_EQ(runs, 0);
  joined();
  EXPECT_EQ(runs, 1);
}

TEST(JoinedCreditTest, TheLastOfManyThreadsRunsIt) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> runs = 0;
    std::atomic<int> calls = 0;
    const JoinedCredit joined(4, [&] {
      EXPECT_EQ(calls, 4);
      ++runs;
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&calls, joined] {
        ++calls;
        joined();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(runs, 1);
  }
}

TEST(SchedulerTest, WaitingIsCountedAndTimedByLayer) {
  FakeClock clock;
  Recorder recorder;
  Scheduler scheduler(/*credit_bytes=*/1, std::make_unique<PriorityQueue>(), &clock);
  scheduler.Submit(recorder.Make(/*id=*/0, /*bytes=*/1, /*layer=*/7));  // starts at once
  scheduler.Submit(recorder.Make(/*id=*/1, /*bytes=*/1, /*layer=*/7));
  clock.Advance(absl::Seconds(2));
  scheduler.Submit(recorder.Make(/*id=*/2, /*bytes=*/1, /*layer=*/7));
  scheduler.Submit(recorder.Make(/*id=*/3, /*bytes=*/1, /*layer=*/3));
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(scheduler.waiting().at(7).count, 2);
  EXPECT_EQ(scheduler.waiting().at(7).time, absl::Seconds(3 + 1));
  EXPECT_EQ(scheduler.waiting().at(3).count, 1);
  for (int i = 0; i < 4; ++i) recorder.open[i]();
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(scheduler.waiting().at(7).count, 0);
  EXPECT_EQ(scheduler.waiting().at(7).time, absl::Seconds(3 + 1));
  EXPECT_EQ(scheduler.waiting().at(3).count, 0);
  EXPECT_EQ(scheduler.waiting().at(3).time, absl::Seconds(1));
}

TEST(SchedulerTest, WhatIsDroppedDoesNotWaitAnyMore) {
  FakeClock clock;
  Recorder recorder;
  Scheduler scheduler(/*credit_bytes=*/1, std::make_unique<FifoQueue>(), &clock);
  scheduler.Submit(recorder.Make(/*id=*/0, /*bytes=*/1));
  scheduler.Submit(recorder.Make(/*id=*/1, /*bytes=*/1));
  clock.Advance(absl::Seconds(1));
  scheduler.Close();
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(scheduler.waiting().at(0).count, 0);
  EXPECT_EQ(scheduler.waiting().at(0).time, absl::Seconds(1));
}

}  // namespace
}  // namespace capstan
