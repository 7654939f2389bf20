#include "common/transport/reply_order.h"

#include <gtest/gtest.h>

#include "common/scheduler/transfer_queue.h"

namespace capstan {
namespace {

const auto kFirstLayer = [](TableId) { return 0; };
const auto kNotChosen = [] { return uint64_t{0}; };

// Queues a transfer of layer 2, then one of layer 1. Returns the layer of the first to start.
int FirstOfLayers(const ReplyOrder& order) {
  const auto queue = order.make_queue();
  for (const int layer : {2, 1}) {
    Transfer transfer;
    transfer.layer = layer;
    queue->Push(std::move(transfer));
  }
  return queue->Pop().layer;
}

TEST(ReplyOrderTest, FollowsThePolicyOfTheJob) {
  v1::SchedulerSpec scheduler;
  const auto layer_of = [](TableId table) { return static_cast<int>(10 * table.value()); };
  EXPECT_EQ(FirstOfLayers(ReplyOrderOfJob(scheduler, 1, layer_of, kNotChosen)), 1)
      << "priority by default";
  scheduler.set_policy(v1::SchedulerSpec::SLICE_FIFO);
  const ReplyOrder order = ReplyOrderOfJob(scheduler, 1, layer_of, kNotChosen);
  EXPECT_EQ(FirstOfLayers(order), 2);
  EXPECT_EQ(order.layer_of(TableId(7)), 70);
}

TEST(ReplyOrderTest, TheConnectionsOfAWorkerShareTheCredit) {
  v1::SchedulerSpec scheduler;
  const auto credit_of = [&scheduler](uint32_t connections) {
    return ReplyOrderOfJob(scheduler, connections, kFirstLayer, kNotChosen).credit_bytes;
  };
  scheduler.set_credit_bytes(1000);
  EXPECT_EQ(credit_of(1), 1000u);
  EXPECT_EQ(credit_of(4), 250u);
  scheduler.set_credit_bytes(1);
  EXPECT_EQ(credit_of(4), 1u) << "else nothing would ever go";
}

TEST(ReplyOrderTest, AChosenCreditTakesThePlaceOfTheJobsOwn) {
  v1::SchedulerSpec scheduler;
  uint64_t chosen = 0;
  scheduler.set_credit_bytes(1000);
  const ReplyOrder order = ReplyOrderOfJob(scheduler, 4, kFirstLayer, [&chosen] { return chosen; });
  EXPECT_EQ(order.credit_now(), 250u) << "the job's own";
  chosen = 400;
  EXPECT_EQ(order.credit_now(), 100u);
  chosen = 1;
  EXPECT_EQ(order.credit_now(), 1u) << "else nothing would ever go";
}

}  // namespace
}  // namespace capstan
