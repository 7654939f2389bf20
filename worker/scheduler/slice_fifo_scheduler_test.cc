#include "worker/scheduler/slice_fifo_scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

namespace capstan {
namespace {

// Records the order of starts, and keeps each transfer open until told.
class Recorder {
 public:
  Transfer Make(int id, uint64_t bytes) {
    Transfer transfer;
    transfer.bytes = bytes;
    transfer.start = [this, id](absl::AnyInvocable<void()> sent) {
      started.push_back(id);
      open.push_back(std::move(sent));
    };
    return transfer;
  }
  std::vector<int> started;
  std::vector<absl::AnyInvocable<void()>> open;
};

TEST(SliceFifoSchedulerTest, StartsInOrderWhileThereIsCredit) {
  SliceFifoScheduler scheduler(/*credit_bytes=*/100);
  Recorder recorder;
  for (int id = 0; id < 5; ++id) scheduler.Submit(recorder.Make(id, /*bytes=*/60));
  EXPECT_EQ(recorder.started, (std::vector<int>{0, 1})) << "the second starts on the last credit";
  recorder.open[1]();
  EXPECT_EQ(recorder.started, (std::vector<int>{0, 1, 2}));
  recorder.open[0]();
  recorder.open[2]();
  EXPECT_EQ(recorder.started, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(SliceFifoSchedulerTest, ATransferLargerThanTheCreditGoesAlone) {
  SliceFifoScheduler scheduler(/*credit_bytes=*/10);
  Recorder recorder;
  scheduler.Submit(recorder.Make(0, /*bytes=*/1000));
  scheduler.Submit(recorder.Make(1, /*bytes=*/1));
  EXPECT_EQ(recorder.started, std::vector<int>{0});
  recorder.open[0]();
  EXPECT_EQ(recorder.started, (std::vector<int>{0, 1}));
}

TEST(SliceFifoSchedulerTest, TransfersThatAreSentAtOnceDoNotRecurse) {
  SliceFifoScheduler scheduler(/*credit_bytes=*/1);
  std::vector<absl::AnyInvocable<void()>> held;
  int started = 0;
  Transfer first;
  first.bytes = 1;
  first.start = [&](absl::AnyInvocable<void()> sent) { held.push_back(std::move(sent)); };
  scheduler.Submit(std::move(first));
  for (int i = 0; i < 200'000; ++i) {
    Transfer transfer;
    transfer.bytes = 1;
    transfer.start = [&](absl::AnyInvocable<void()> sent) {
      ++started;
      sent();
    };
    scheduler.Submit(std::move(transfer));
  }
  held[0]();
  EXPECT_EQ(started, 200'000);
}

TEST(SliceFifoSchedulerTest, EveryTransferOfManyThreadsStartsOnceWithinTheCredit) {
  SliceFifoScheduler scheduler(/*credit_bytes=*/8);
  std::atomic<int> started = 0;
  std::atomic<int> in_flight = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        Transfer transfer;
        transfer.bytes = 1;
        transfer.start = [&](absl::AnyInvocable<void()> sent) {
          ++started;
          EXPECT_LE(++in_flight, 8);
          --in_flight;
          sent();
        };
        scheduler.Submit(std::move(transfer));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(started, 8000);
}

}  // namespace
}  // namespace capstan
