#include "common/membership/start_trace.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"
#include "common/base/fake_clock.h"
#include "common/membership/scripted_coordinator.h"
#include "common/trace/trace_reader.h"

namespace capstan {
namespace {

// A coordinator nearby whose clock is 3 s ahead.
class NearCoordinator : public ScriptedCoordinator {
 public:
  explicit NearCoordinator(FakeClock* clock) : clock_(*clock) {}

  void ReadClock(v1::ReadClockRequest, Callback<v1::ReadClockReply> done) override {
    clock_.Advance(absl::Microseconds(10));
    v1::ReadClockReply reply;
    reply.set_nanoseconds(absl::ToUnixNanos(clock_.Now() + absl::Seconds(3)));
    clock_.Advance(absl::Microseconds(10));
    done(reply);
  }

 private:
  FakeClock& clock_;
};

TEST(StartTraceTest, TheTraceKnowsHowFarItsClockIsOff) {
  FakeClock clock;
  NearCoordinator coordinator(&clock);
  const std::string path = testing::TempDir() + "start_trace";
  const auto tracer = StartTrace(path, coordinator, &clock);
  ASSERT_TRUE(tracer.ok()) << tracer.status();
  ASSERT_TRUE((*tracer)->Finish().ok());
  const auto trace = TraceReader::Open(path);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->begin(), clock.Now());
  EXPECT_EQ(trace->clock_offset().offset, absl::Seconds(3));
  EXPECT_EQ(trace->clock_offset().uncertainty, absl::Microseconds(10));
}

TEST(StartTraceTest, AFileThatCannotBeWrittenIsAnError) {
  FakeClock clock;
  NearCoordinator coordinator(&clock);
  EXPECT_TRUE(absl::IsUnavailable(StartTrace("/nonexistent/trace", coordinator, &clock).status()));
}

}  // namespace
}  // namespace capstan
