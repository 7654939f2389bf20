// BoundedReplies with many threads at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/scheduler/transfer_queue.h"
#include "common/transport/bounded_replies.h"
#include "common/transport/reply_order.h"

namespace capstan {
namespace {

constexpr uint64_t kValueBytes = 1024 - BoundedReplies::kOverheadBytes;

// One thread releases replies by ReleaseNext, another delivers them by DeliverNext.
class ThreadedConnection : public BoundedReplies::Sender {
 public:
  ThreadedConnection(ParameterEndpoint* endpoint, uint64_t max_bytes, ReplyOrder order)
      : replies(endpoint, max_bytes, std::move(order), this) {}

  void SendReply(uint64_t, ExchangeReply reply, uint64_t bytes,
                 absl::AnyInvocable<void()> delivered) override {
    MutexLock lock(&mu_);
    undelivered_bytes_ += reply.values.size_bytes();
    most_bytes_ = std::max(most_bytes_, undelivered_bytes_);
    to_release_.emplace_back(std::move(reply), bytes);
    to_deliver_.push_back(std::move(delivered));
  }
  bool ReleaseNext() {
    std::pair<ExchangeReply, uint64_t> next;
    {
      MutexLock lock(&mu_);
      if (to_release_.empty()) return false;
      next = std::move(to_release_.front());
      to_release_.pop_front();
    }
    next.first.values.Clear();
    replies.Released(next.second);
    return true;
  }
  bool DeliverNext() {
    absl::AnyInvocable<void()> delivered;
    {
      MutexLock lock(&mu_);
      if (to_deliver_.empty()) return false;
      delivered = std::move(to_deliver_.front());
      to_deliver_.pop_front();
      undelivered_bytes_ -= kValueBytes;
      ++delivered_count_;
    }
    delivered();
    return true;
  }
  int delivered_count() const {
    MutexLock lock(&mu_);
    return delivered_count_;
  }
  uint64_t most_bytes() const {
    MutexLock lock(&mu_);
    return most_bytes_;
  }

  BoundedReplies replies;

 private:
  mutable Mutex mu_;
  std::deque<std::pair<ExchangeReply, uint64_t>> to_release_ ABSL_GUARDED_BY(mu_);
  std::deque<absl::AnyInvocable<void()>> to_deliver_ ABSL_GUARDED_BY(mu_);
  uint64_t undelivered_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t most_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int delivered_count_ ABSL_GUARDED_BY(mu_) = 0;
};

// Answers within Exchange, on any thread.
class ValuesAtOnce : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest&&, DeliveredCallback delivered, ReplyCallback done) override {
    delivered();
    ExchangeReply reply;
    reply.values = Payload(absl::MakeConstSpan(*values_), values_);
    done(std::move(reply));
  }

 private:
  const std::shared_ptr<std::vector<float>> values_ =
      std::make_shared<std::vector<float>>(kValueBytes / sizeof(float), 1.0f);
};

TEST(BoundedRepliesThreadsTest, RepliesOfManyThreadsAreEachSentOnceWithinTheCredit) {
  constexpr int kThreads = 3, kOfEach = 2000;
  ValuesAtOnce endpoint;
  ReplyOrder order;
  order.credit_bytes = 3 * kValueBytes;
  order.make_queue = [] { return std::make_unique<PriorityQueue>(); };
  order.layer_of = [](TableId table) { return static_cast<int>(table.value()); };
  const auto connection =
      std::make_shared<ThreadedConnection>(&endpoint, /*max_bytes=*/8 * 1024, order);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&connection, thread] {
      Random random(/*seed=*/1 + thread);
      for (int i = 0; i < kOfEach; ++i) {
        RequestFrame pull;
        ExchangeRequest& request = pull.request.emplace();
        request.slice.table = TableId(static_cast<uint32_t>(random.UniformInt(5)));
        request.purpose = DenseStep{std::nullopt, StepPull{Step(4)}};
        connection->replies.Exchange(std::move(pull), [] {});
      }
    });
  }
  threads.emplace_back([&] {
    while (connection->delivered_count() < kThreads * kOfEach) {
      if (!connection->DeliverNext()) std::this_thread::yield();
    }
  });
  while (connection->delivered_count() < kThreads * kOfEach) {
    if (!connection->ReleaseNext()) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  while (connection->ReleaseNext()) continue;
  EXPECT_EQ(connection->replies.held_bytes(), 0u);
  EXPECT_LE(connection->most_bytes(), 3 * kValueBytes);
}

}  // namespace
}  // namespace capstan
