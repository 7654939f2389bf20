#include "common/membership/start_trace.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/fake_clock.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/trace/trace_reader.h"

namespace capstan {
namespace {

// The times of a request and of its reply on their way.
struct Trip {
  absl::Duration there;
  absl::Duration back;
};

// A coordinator with a clock `ahead`, and with these trips in turn.
class DistantCoordinator : public CoordinatorEndpoint {
 public:
  DistantCoordinator(FakeClock* clock, absl::Duration ahead, std::vector<Trip> trips)
      : clock_(*clock), ahead_(ahead), trips_(std::move(trips)) {}

  void Call(CoordinatorRequest, Callback<CoordinatorReply> done) override {
    const Trip trip = trips_[calls_++ % trips_.size()];
    clock_.Advance(trip.there);
    v1::ReadClockReply reply;
    reply.set_nanoseconds(absl::ToUnixNanos(clock_.Now() + ahead_));
    clock_.Advance(trip.back);
    done(reply);
  }

 private:
  FakeClock& clock_;
  const absl::Duration ahead_;
  const std::vector<Trip> trips_;
  size_t calls_ = 0;
};

TEST(MeasureClockOffsetTest, WhenBothWaysAreAlikeTheOffsetIsExact) {
  for (const absl::Duration ahead : {absl::Hours(2), -absl::Milliseconds(7)}) {
    FakeClock clock;
    DistantCoordinator coordinator(&clock, ahead,
                                   {{absl::Microseconds(50), absl::Microseconds(50)}});
    const auto measured = MeasureClockOffset(coordinator, clock);
    ASSERT_TRUE(measured.ok()) << measured.status();
    EXPECT_EQ(measured->offset, ahead);
    EXPECT_EQ(measured->uncertainty, absl::Microseconds(50));
  }
}

TEST(MeasureClockOffsetTest, TheFastestAnswerCounts) {
  FakeClock clock;
  DistantCoordinator coordinator(&clock, absl::Milliseconds(3),
                                 {{absl::Seconds(2), absl::Microseconds(40)},
                                  {absl::Microseconds(30), absl::Microseconds(30)},
                                  {absl::Microseconds(40), absl::Milliseconds(9)}});
  const ClockOffset measured = MeasureClockOffset(coordinator, clock).value();
  EXPECT_EQ(measured.offset, absl::Milliseconds(3));
  EXPECT_EQ(measured.uncertainty, absl::Microseconds(30));
}

TEST(MeasureClockOffsetTest, HoweverTheWaysDifferItIsWithinItsUncertainty) {
  const absl::Duration ahead = absl::Milliseconds(3);
  for (const Trip& trip : {Trip{absl::Microseconds(90), absl::ZeroDuration()},
                           Trip{absl::ZeroDuration(), absl::Microseconds(90)},
                           Trip{absl::Microseconds(20), absl::Microseconds(60)}}) {
    FakeClock clock;
    DistantCoordinator coordinator(&clock, ahead, {trip});
    const ClockOffset measured = MeasureClockOffset(coordinator, clock).value();
    EXPECT_NE(measured.offset, ahead);
    EXPECT_LE(absl::AbsDuration(measured.offset - ahead), measured.uncertainty);
    EXPECT_EQ(measured.uncertainty, (trip.there + trip.back) / 2);
  }
}

// An unreachable coordinator.
class LostCoordinator : public CoordinatorEndpoint {
 public:
  void Call(CoordinatorRequest, Callback<CoordinatorReply> done) override {
    done(absl::UnavailableError("unreachable"));
  }
};

TEST(MeasureClockOffsetTest, TheCoordinatorsErrorIsPassedOn) {
  FakeClock clock;
  LostCoordinator coordinator;
  EXPECT_EQ(MeasureClockOffset(coordinator, clock).status(), absl::UnavailableError("unreachable"));
}

// A coordinator nearby with a clock 3 s ahead.
class NearCoordinator : public CoordinatorEndpoint {
 public:
  explicit NearCoordinator(FakeClock* clock) : clock_(*clock) {}

  void Call(CoordinatorRequest, Callback<CoordinatorReply> done) override {
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
