#include "server/shard/owner_threads.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/base/real_clock.h"
#include "common/exchange/payload.h"
#include "common/exchange/request_parts.h"

namespace capstan {
namespace {

constexpr size_t kSmall = OwnerThreads::kHandOverBytes - sizeof(float);
constexpr size_t kLarge = OwnerThreads::kHandOverBytes;

// Notes the thread of each exchange. Can hold up the threads of its callers.
class NotingHost : public ParameterEndpoint {
 public:
  explicit NotingHost(Clock* clock) : clock_(clock) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    {
      MutexLock lock(&mu_);
      while (is_held_ && std::this_thread::get_id() != caller_) {
        clock_->WaitUntil(mu_, changed_, absl::InfiniteFuture());
      }
      steps_[request.slice.slice.value()].push_back(PushStepOf(request).value_or(Step(-1)).value());
      threads_[request.slice.slice.value()].push_back(std::this_thread::get_id());
    }
    delivered();
    done(ExchangeReply());
  }

  void Hold(bool is_held) {
    MutexLock lock(&mu_);
    is_held_ = is_held;
    changed_.NotifyAll();
  }
  std::vector<int64_t> steps(uint32_t slice) {
    MutexLock lock(&mu_);
    return steps_[slice];
  }
  std::vector<std::thread::id> threads(uint32_t slice) {
    MutexLock lock(&mu_);
    return threads_[slice];
  }

 private:
  Clock* const clock_;
  const std::thread::id caller_ = std::this_thread::get_id();
  Mutex mu_;
  CondVar changed_;
  bool is_held_ ABSL_GUARDED_BY(mu_) = false;
  std::map<uint32_t, std::vector<int64_t>> steps_ ABSL_GUARDED_BY(mu_);
  std::map<uint32_t, std::vector<std::thread::id>> threads_ ABSL_GUARDED_BY(mu_);
};

class OwnerThreadsTest : public testing::Test {
 protected:
  void Send(OwnerThreads& threads, uint32_t slice, std::optional<Step> push_step, size_t bytes) {
    ExchangeRequest request;
    request.slice = {TableId(0), SliceIndex(slice)};
    auto values = std::make_shared<std::vector<float>>(bytes / sizeof(float));
    request.purpose =
        MakeDenseStep(push_step, std::nullopt, Payload(absl::MakeConstSpan(*values), values));
    {
      MutexLock lock(&mu_);
      ++open_;
    }
    const auto is_delivered = std::make_shared<bool>(false);  // guarded by mu_
    threads.Exchange(
        std::move(request),
        [this, is_delivered] {
          MutexLock lock(&mu_);
          *is_delivered = true;
          ++delivered_;
        },
        [this, is_delivered](ExchangeReply reply) {
          MutexLock lock(&mu_);
          EXPECT_TRUE(*is_delivered);
          if (!reply.status.ok()) refused_.push_back(reply.status);
          --open_;
          changed_.NotifyAll();
        });
  }
  int delivered() {
    MutexLock lock(&mu_);
    return delivered_;
  }
  void WaitForReplies() {
    MutexLock lock(&mu_);
    while (open_ > 0) clock_.WaitUntil(mu_, changed_, absl::InfiniteFuture());
  }
  std::vector<absl::Status> refused() {
    MutexLock lock(&mu_);
    return refused_;
  }

  RealClock clock_;
  NotingHost host_{&clock_};
  Mutex mu_;
  CondVar changed_;
  int open_ ABSL_GUARDED_BY(mu_) = 0;
  int delivered_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<absl::Status> refused_ ABSL_GUARDED_BY(mu_);
};

TEST_F(OwnerThreadsTest, SmallPushesRunOnTheCallersThread) {
  OwnerThreads threads(&host_, &clock_, /*count=*/2);
  Send(threads, /*slice=*/0, Step(0), kSmall);
  EXPECT_EQ(host_.threads(0), std::vector<std::thread::id>{std::this_thread::get_id()});
}

TEST_F(OwnerThreadsTest, WithoutOwnersAllRunsOnTheCallersThread) {
  OwnerThreads threads(&host_, &clock_, /*count=*/0);
  Send(threads, /*slice=*/0, Step(0), kLarge);
  Send(threads, /*slice=*/0, /*push_step=*/std::nullopt, /*bytes=*/0);
  const std::thread::id caller = std::this_thread::get_id();
  EXPECT_EQ(host_.threads(0), (std::vector<std::thread::id>{caller, caller}));
}

TEST_F(OwnerThreadsTest, LargePushesOfASliceRunInOrderOnOneThreadOfTheirOwn) {
  OwnerThreads threads(&host_, &clock_, /*count=*/3);
  constexpr int kSteps = 200;
  for (int step = 0; step < kSteps; ++step) {
    for (uint32_t slice = 0; slice < 8; ++slice) Send(threads, slice, Step(step), kLarge);
  }
  WaitForReplies();
  EXPECT_TRUE(refused().empty());
  for (uint32_t slice = 0; slice < 8; ++slice) {
    const std::vector<int64_t> steps = host_.steps(slice);
    ASSERT_EQ(steps.size(), size_t{kSteps});
    for (int step = 0; step < kSteps; ++step) EXPECT_EQ(steps[step], step);
    for (const std::thread::id thread : host_.threads(slice)) {
      EXPECT_EQ(thread, host_.threads(slice)[0]);
      EXPECT_NE(thread, std::this_thread::get_id());
    }
  }
}

TEST_F(OwnerThreadsTest, TheCallerWaitsForNoOwnerAndAPullOvertakesNoPush) {
  host_.Hold(true);
  OwnerThreads threads(&host_, &clock_, /*count=*/2);
  Send(threads, /*slice=*/0, Step(0), kLarge);
  Send(threads, /*slice=*/0, /*push_step=*/std::nullopt, /*bytes=*/0);
  Send(threads, /*slice=*/1, Step(0), kSmall);
  EXPECT_TRUE(host_.steps(0).empty());
  EXPECT_EQ(host_.steps(1), std::vector<int64_t>{0});
  host_.Hold(false);
  WaitForReplies();
  EXPECT_EQ(host_.steps(0), (std::vector<int64_t>{0, -1}));
}

TEST_F(OwnerThreadsTest, WhatQueuesIsNotSentBeforeTheHostTakesIt) {
  host_.Hold(true);
  OwnerThreads threads(&host_, &clock_, /*count=*/1);
  for (int step = 0; step < 3; ++step) Send(threads, /*slice=*/0, Step(step), kLarge);
  EXPECT_EQ(delivered(), 0);
  host_.Hold(false);
  WaitForReplies();
  EXPECT_EQ(delivered(), 3);
}

TEST_F(OwnerThreadsTest, TheEndAnswersWhatQueues) {
  // The host answers the running exchange, and more of them on a machine that is so busy that the
  // threads' end begins later than `delay`.
  for (absl::Duration delay = absl::Milliseconds(20); refused().size() < 4u; delay *= 2) {
    ASSERT_LT(delay, absl::Seconds(20));
    {
      MutexLock lock(&mu_);
      refused_.clear();
    }
    host_.Hold(true);
    {
      OwnerThreads threads(&host_, &clock_, /*count=*/1);
      for (int step = 0; step < 5; ++step) Send(threads, /*slice=*/0, Step(step), kLarge);
      clock_.RunAfter(delay, [this] { host_.Hold(false); });
    }
    WaitForReplies();
  }
  for (const absl::Status& status : refused()) EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

}  // namespace
}  // namespace capstan
