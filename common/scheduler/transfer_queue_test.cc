#include "common/scheduler/transfer_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "proto/job.pb.h"

namespace capstan {
namespace {

using Policy = v1::SchedulerSpec::Policy;

// A slow, independent implementation of each policy: a list in order of arrival.
class NaiveQueue {
 public:
  explicit NaiveQueue(Policy policy) : is_priority_(policy == v1::SchedulerSpec::PRIORITY) {}

  void Push(int layer, uint64_t bytes) { waiting_.emplace_back(layer, bytes); }
  std::pair<int, uint64_t> Pop() {
    const auto by_layer = [](const auto& a, const auto& b) { return a.first < b.first; };
    const auto next = is_priority_ ? std::min_element(waiting_.begin(), waiting_.end(), by_layer)
                                   : waiting_.begin();
    const std::pair<int, uint64_t> transfer = *next;
    waiting_.erase(next);
    return transfer;
  }
  bool is_empty() const { return waiting_.empty(); }

 private:
  const bool is_priority_;
  std::vector<std::pair<int, uint64_t>> waiting_;
};

class TransferQueueTest : public testing::TestWithParam<Policy> {};

TEST_P(TransferQueueTest, RandomOperationsAgreeWithANaiveQueue) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::unique_ptr<TransferQueue> queue = MakeTransferQueue(GetParam());
    NaiveQueue naive(GetParam());
    for (uint64_t id = 0; id < 1000; ++id) {
      ASSERT_EQ(queue->is_empty(), naive.is_empty());
      if (naive.is_empty() || random.Bernoulli(0.55)) {
        const int layer = static_cast<int>(random.UniformInt(8));
        queue->Push({layer, /*bytes=*/id, nullptr});
        naive.Push(layer, id);
        continue;
      }
      const uint64_t next = queue->Next().bytes;
      const Transfer transfer = queue->Pop();
      ASSERT_EQ(next, transfer.bytes);
      ASSERT_EQ(std::make_pair(transfer.layer, transfer.bytes), naive.Pop()) << "operation " << id;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachPolicy, TransferQueueTest,
                         testing::Values(v1::SchedulerSpec::TENSOR_FIFO,
                                         v1::SchedulerSpec::SLICE_FIFO,
                                         v1::SchedulerSpec::PRIORITY),
                         [](const auto& info) {
                           return v1::SchedulerSpec::Policy_Name(info.param);
                         });

}  // namespace
}  // namespace capstan
