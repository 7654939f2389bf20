#include "worker/engine/step_trace.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/real_clock.h"
#include "kernels/cuda/device_buffer.h"

namespace capstan {
namespace {

constexpr size_t kBytes = 8 << 20;

class StepTraceTest : public testing::Test {
 protected:
  StepTraceTest() {
    device_ = CudaDevice::Open(/*number=*/0).value();
    stream_ = CudaStream::Create(*device_, CudaStream::Blas::kNone).value();
    memory_ = DeviceBuffer::Allocate(*device_, kBytes, "a part that takes time").value();
  }

  void Work() { ASSERT_TRUE(stream_->SetBytes(/*value=*/1, kBytes, memory_.data<void>()).ok()); }

  RealClock clock_;
  StepTrace trace_{&clock_};
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaStream> stream_;
  DeviceBuffer memory_;
};

TEST_F(StepTraceTest, PartsFollowOneAnotherOnOneTimeLine) {
  ASSERT_TRUE(trace_.Start(*device_, *stream_).ok());
  ASSERT_TRUE(trace_.Begin("compute", "first", *stream_).ok());
  Work();
  ASSERT_TRUE(trace_.End("compute", *stream_).ok());
  ASSERT_TRUE(trace_.Begin("compute", "second", *stream_).ok());
  Work();
  ASSERT_TRUE(trace_.End("compute", *stream_).ok());
  const absl::Time begin = clock_.Now();
  ASSERT_TRUE(stream_->Synchronize().ok());
  trace_.AddHost("host", "wait", begin);

  const std::vector<StepTrace::Span> spans = trace_.Finish().value();

  ASSERT_EQ(spans.size(), 3u);
  const StepTrace::Span *first = nullptr, *second = nullptr, *wait = nullptr;
  for (const StepTrace::Span& span : spans) {
    (span.name == "first" ? first : span.name == "second" ? second : wait) = &span;
  }
  EXPECT_GE(first->begin, absl::ZeroDuration());
  EXPECT_LT(first->begin, first->end);
  EXPECT_LE(first->end, second->begin);
  EXPECT_LT(second->begin, second->end);
  // The clocks of host and GPU differ by much less than this.
  EXPECT_LE(second->end, wait->end + absl::Seconds(1));
  EXPECT_EQ(wait->track, "host");
}

TEST_F(StepTraceTest, NothingIsWrittenDownBeforeTheStartOrAfterTheEnd) {
  ASSERT_TRUE(trace_.Begin("compute", "too early", *stream_).ok());
  ASSERT_TRUE(trace_.End("compute", *stream_).ok());
  const absl::Time before = clock_.Now() - absl::Seconds(1);
  ASSERT_TRUE(trace_.Start(*device_, *stream_).ok());
  trace_.AddHost("host", "began too early", before);
  ASSERT_TRUE(trace_.Begin("compute", "never ended", *stream_).ok());
  EXPECT_TRUE(trace_.Finish().value().empty());
  trace_.AddHost("host", "too late", clock_.Now());
  EXPECT_TRUE(trace_.Finish().value().empty());
}

TEST_F(StepTraceTest, ATraceOfAllStepsIsTakenAStepLater) {
  ASSERT_TRUE(trace_.Start(*device_, *stream_).ok());
  std::vector<std::string> taken;
  absl::Duration end_before;
  for (const std::string step : {"step 0", "step 1", "step 2"}) {
    ASSERT_TRUE(trace_.Begin("compute", step, *stream_).ok());
    Work();
    ASSERT_TRUE(trace_.End("compute", *stream_).ok());
    const auto spans = trace_.Take();
    ASSERT_TRUE(spans.ok()) << spans.status();
    for (const StepTrace::Span& span : *spans) {
      EXPECT_LE(end_before, span.begin);
      EXPECT_LT(span.begin, span.end);
      end_before = span.end;
      taken.push_back(span.name);
    }
  }
  EXPECT_EQ(taken, (std::vector<std::string>{"step 0", "step 1"}));
  EXPECT_EQ(trace_.Take()->size(), 1u);
  EXPECT_TRUE(trace_.Take()->empty());
  EXPECT_LE(trace_.origin(), clock_.Now());
}

TEST(DrawSpansTest, BarsLieWhereTheirTimesAre) {
  const std::vector<StepTrace::Span> spans = {
      {"compute", "a", absl::Milliseconds(2), absl::Milliseconds(4)},
      {"copy out", "b", absl::Milliseconds(4), absl::Milliseconds(12)}};
  EXPECT_EQ(DrawSpans(spans, /*width=*/11),
            "compute   a                   0.000      2.000 ms |###        |\n"
            "copy out  b                   2.000     10.000 ms |  #########|\n");
  EXPECT_EQ(DrawSpans({}, /*width=*/10), "");
}

}  // namespace
}  // namespace capstan
