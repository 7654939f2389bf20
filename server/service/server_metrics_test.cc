#include "server/service/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/metrics/metric_list.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

TEST(ServerMetricsTest, CountsHaveTheirNames) {
  ShardCounts counts;
  counts.pushes = 1;
  counts.pulls = 2;
  counts.push_pulls = 3;
  counts.own_states = 4;
  counts.initial_values = 18;
  counts.collectives = 20;
  counts.received.Add(CodecType::kInt8, 5);
  counts.sent.Add(CodecType::kFloat32, 6);
  counts.duplicate_pushes = 7;
  counts.lock_wait = absl::Seconds(8);
  counts.lock_held = absl::Seconds(9);
  counts.parked = 10;
  counts.memory = {11, 12, 13, 14, 19};
  MetricsPage page;
  AddShardMetrics(counts, {{WorkerId(1), 15}}, /*num_workers=*/2, page);
  AddReplyMetrics(16, 17, page);
  for (const char* const sample : {
           "exchanges_total{kind=\"push\"} 1",
           "exchanges_total{kind=\"pull\"} 2",
           "exchanges_total{kind=\"push_pull\"} 3",
           "exchanges_total{kind=\"own_state\"} 4",
           "exchanges_total{kind=\"initial_values\"} 18",
           "exchanges_total{kind=\"collective\"} 20",
           "received_bytes_total{codec=\"float32\"} 0",
           "received_bytes_total{codec=\"int8\"} 5",
           "sent_bytes_total{codec=\"float32\"} 6",
           "duplicate_pushes_total 7",
           "lock_wait_seconds_total 8",
           "apply_seconds_total 9",
           "parked_replies 10",
           "memory_bytes{use=\"parameters\"} 11",
           "memory_bytes{use=\"optimizer\"} 12",
           "memory_bytes{use=\"accumulators\"} 13",
           "memory_bytes{use=\"copies\"} 14",
           "rows 19",
           "non_finite_pushes_total{worker=\"0\"} 0",
           "non_finite_pushes_total{worker=\"1\"} 15",
           "memory_bytes{use=\"replies\"} 16",
           "reply_limit_bytes 17",
       }) {
    EXPECT_THAT(page.Text(), HasSubstr(std::string("\ncapstan_server_") + sample + "\n"));
  }
}

}  // namespace
}  // namespace capstan
