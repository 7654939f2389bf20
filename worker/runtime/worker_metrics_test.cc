#include "worker/runtime/worker_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "common/codec/codec.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string TextOf(const WorkerCounts& counts) {
  MetricsPage page;
  AddWorkerMetrics(counts, page);
  return page.Text();
}

TEST(WorkerMetricsTest, CountsHaveTheirNames) {
  WorkerCounts counts;
  counts.progress.set_steps_done(1);
  counts.progress.set_samples(2);
  counts.progress.set_local_steps(50);
  counts.progress.set_drift(0.25);
  counts.progress.set_loss(std::nan(""));
  counts.step_parts = {absl::Seconds(3), absl::Seconds(4), absl::Seconds(5)};
  counts.traffic.exchanges = 6;
  counts.traffic.pushed_by_codec.Add(CodecType::kTopkInt8, 7);
  counts.traffic.pulled_by_codec.Add(CodecType::kFloat32, 8);
  counts.traffic.coding = absl::Seconds(9);
  counts.retries = 10;
  counts.waiting[2] = {11, absl::Seconds(12)};
  const std::string text = TextOf(counts);
  for (const char* const sample : {
           "steps_total 1",
           "samples_total 2",
           "local_steps_total 50",
           "local_drift 0.25",
           "loss Nan",
           "step_seconds_total{part=\"compute\"} 3",
           "step_seconds_total{part=\"wait\"} 4",
           "step_seconds_total{part=\"send\"} 5",
           "exchanges_total 6",
           "pushed_bytes_total{codec=\"float32\"} 0",
           "pushed_bytes_total{codec=\"topk_int8\"} 7",
           "pulled_bytes_total{codec=\"float32\"} 8",
           "codec_seconds_total 9",
           "retries_total 10",
           "scheduler_queue_length{priority=\"2\"} 11",
           "scheduler_queue_seconds_total{priority=\"2\"} 12",
       }) {
    EXPECT_THAT(text, HasSubstr(std::string("\ncapstan_") + sample + "\n"));
  }
  EXPECT_THAT(text, Not(HasSubstr("gpu")));
}

TEST(WorkerMetricsTest, CopiesAreThereOnlyWithAGpu) {
  WorkerCounts counts;
  counts.copied = {1, 2};
  const std::string text = TextOf(counts);
  EXPECT_THAT(text, HasSubstr("\ncapstan_gpu_copied_bytes_total{direction=\"to_gpu\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\ncapstan_gpu_copied_bytes_total{direction=\"to_host\"} 2\n"));
}

TEST(WorkerMetricsTest, StalenessFallsIntoItsBucket) {
  WorkerCounts counts;
  // 3 replies of 0 steps, 2 of 3 steps, 1 of 4 steps, 5 of 65 steps.
  counts.traffic.replies_of_staleness = {3, 0, 0, 2, 1};
  counts.traffic.replies_of_staleness.resize(66);
  counts.traffic.replies_of_staleness[65] = 5;
  counts.traffic.mean_staleness_seen = (2 * 3 + 4 + 5 * 65) / 11.0;
  const std::string text = TextOf(counts);
  for (const char* const sample :
       {"bucket{le=\"0\"} 3", "bucket{le=\"2\"} 3", "bucket{le=\"4\"} 6", "bucket{le=\"64\"} 6",
        "bucket{le=\"+Inf\"} 11", "count 11", "sum 335"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\ncapstan_staleness_steps_") + sample + "\n"));
  }
}

}  // namespace
}  // namespace capstan
