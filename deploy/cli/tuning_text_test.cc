#include "deploy/cli/tuning_text.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::nlohmann::json;

void Set(v1::TuningReport::Point& point, uint64_t partition, uint64_t credit, double seconds) {
  point.set_partition_bytes(partition);
  point.set_credit_bytes(credit);
  point.set_step_seconds(seconds);
}

TEST(TuningTextTest, TellsWhatWasChosenAndWhy) {
  v1::TuningReport tuning;
  Set(*tuning.add_tried(), 1 << 20, 4 << 20, 0.23);
  Set(*tuning.mutable_chosen(), 2 << 20, 8 << 20, 0.212);
  tuning.set_reason("8.0 % faster");
  EXPECT_EQ(TuningText(tuning), "partition 2MiB, credit 8MiB, 212.0 ms a step: 8.0 % faster");
}

TEST(TuningTextTest, TellsHowFarItHasCome) {
  v1::TuningReport tuning;
  EXPECT_EQ(TuningText(tuning), "nothing measured yet");
  Set(*tuning.add_tried(), 1 << 20, 4 << 20, 0.23);
  Set(*tuning.add_tried(), 1 << 18, 1 << 20, 0.2);
  EXPECT_EQ(TuningText(tuning),
            "not at its end: 2 measurements, the last one partition 256KiB, credit 1MiB, 200.0 ms "
            "a step");
}

TEST(TuningTextTest, ASummaryTellsTheSame) {
  const json summary = json::parse(R"({"tuning": {
      "chosen": {"partition_bytes": 2097152, "credit_bytes": 8388608, "step_seconds": 0.212},
      "reason": "8.0 % faster",
      "tried": [{"partition_bytes": 1048576, "credit_bytes": 4194304, "step_seconds": 0.23}]}})");
  EXPECT_EQ(SummaryTuningText(summary),
            "partition 2MiB, credit 8MiB, 212.0 ms a step: 8.0 % faster");
  EXPECT_EQ(SummaryTuningText(json::parse(R"({"tuning": {"tried": []}})")), "nothing measured yet");
  EXPECT_EQ(SummaryTuningText(json::parse(R"({"job": "x"})")), "");
}

}  // namespace
}  // namespace capstan
