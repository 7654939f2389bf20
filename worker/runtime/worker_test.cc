#include "worker/runtime/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/simulated_clock.h"
#include "common/membership/coordinator_endpoint.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

// Refuses workers with `refusal` until a time, and gives them place 3 from then on. If the refusal
// is OK, place 1 is to be taken first.
class BusyCoordinator : public CoordinatorEndpoint {
 public:
  BusyCoordinator(Clock* clock, absl::Status refusal, absl::Time until)
      : clock_(*clock), refusal_(std::move(refusal)), until_(until) {}

  void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) override {
    last_request = std::get<v1::RegisterWorkerRequest>(std::move(request));
    if (++requests == away_at) {
      // As a connection to it does, which waits for its return.
      clock_.RunAfter(kAway, [this, done = std::move(done)]() mutable { done(refusal_); });
      return;
    }
    if (clock_.Now() < until_ && !refusal_.ok()) return done(refusal_);
    v1::RegisterReply reply;
    reply.set_is_early(clock_.Now() < until_);
    reply.set_id(reply.is_early() ? 1 : 3);
    done(reply);
  }

  static constexpr absl::Duration kAway = absl::Minutes(5);

  v1::RegisterWorkerRequest last_request;
  int requests = 0;
  int away_at = 0;  // this request finds it away; 0: none does

 private:
  Clock& clock_;
  const absl::Status refusal_;
  const absl::Time until_;
};

// Leases of 4 s, a heartbeat every second.
v1::JobSpec Job() {
  v1::JobSpec job;
  job.mutable_membership()->set_lease_seconds(4);
  job.mutable_membership()->set_heartbeat_seconds(1);
  return job;
}

class RegisterWorkerTest : public testing::Test {
 protected:
  // In virtual time; `busy` is how long the coordinator refuses.
  absl::StatusOr<WorkerId> Register(absl::Status refusal, absl::Duration busy,
                                    const RegisterOptions& options = {}, int away_at = 0) {
    coordinator_.emplace(&clock_, std::move(refusal), clock_.Now() + busy);
    coordinator_->away_at = away_at;
    absl::StatusOr<WorkerId> id;
    const absl::Time begin = clock_.Now();
    clock_.Spawn([&] {
      v1::TableSpec table;
      table.set_name("w");
      id = RegisterWorker(Job(), Incarnation(7), {table}, /*own_arrays=*/3, "a host", *coordinator_,
                          clock_, options);
      waited_ = clock_.Now() - begin;
    });
    clock_.RunUntil(begin + absl::Hours(1));
    return id;
  }

  SimulatedClock clock_;
  std::optional<BusyCoordinator> coordinator_;
  absl::Duration waited_;
};

TEST_F(RegisterWorkerTest, AFreePlaceIsTakenAtOnce) {
  EXPECT_EQ(Register(absl::OkStatus(), absl::ZeroDuration()).value(), WorkerId(3));
  EXPECT_EQ(waited_, absl::ZeroDuration());
  EXPECT_EQ(coordinator_->requests, 1);
  EXPECT_EQ(coordinator_->last_request.incarnation(), 7u);
  EXPECT_TRUE(coordinator_->last_request.may_enter_late());
  ASSERT_EQ(coordinator_->last_request.tables_size(), 1);
  EXPECT_EQ(coordinator_->last_request.tables(0).name(), "w");
  EXPECT_EQ(coordinator_->last_request.own_arrays(), 3u);
  EXPECT_EQ(coordinator_->last_request.host(), "a host");
  EXPECT_FALSE(coordinator_->last_request.has_local_steps());
}

TEST_F(RegisterWorkerTest, TheCoordinatorHearsOfLocalSteps) {
  v1::LocalSteps local_steps;
  local_steps.set_sync_every(50);
  RegisterOptions options;
  options.local_steps = &local_steps;
  ASSERT_TRUE(Register(absl::OkStatus(), absl::ZeroDuration(), options).ok());
  EXPECT_EQ(coordinator_->last_request.local_steps().sync_every(), 50);
}

TEST_F(RegisterWorkerTest, APlaceIsTakenWithinAHeartbeatAfterTheLeaseOfALostWorker) {
  EXPECT_EQ(Register(absl::ResourceExhaustedError("all live"), absl::Seconds(4.5)).value(),
            WorkerId(3));
  EXPECT_GE(waited_, absl::Seconds(4.5));
  EXPECT_LE(waited_, absl::Seconds(5.5));
}

TEST_F(RegisterWorkerTest, WaitsForNoLongerThanALostWorkersLeaseCanLast) {
  const absl::Status status =
      Register(absl::ResourceExhaustedError("all live"), absl::InfiniteDuration()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has waited 6 s"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("all live"));
  EXPECT_GE(waited_, absl::Seconds(6));
  EXPECT_LE(waited_, absl::Seconds(7));
}

TEST_F(RegisterWorkerTest, ThatTimeBeginsAnewWhenTheCoordinatorIsBack) {
  EXPECT_EQ(Register(absl::ResourceExhaustedError("all live"),
                     BusyCoordinator::kAway + absl::Seconds(5), /*options=*/{}, /*away_at=*/3)
                .value(),
            WorkerId(3));
}

TEST_F(RegisterWorkerTest, AWorkerWithARankAsksUntilItIsItsTurn) {
  RegisterOptions options;
  options.rank = 3;
  EXPECT_EQ(Register(absl::OkStatus(), absl::Seconds(60), options).value(), WorkerId(3));
  EXPECT_EQ(coordinator_->last_request.rank(), 3u);
  EXPECT_LT(waited_, absl::Seconds(61)) << "longer than a lease, but no longer than needed";
  EXPECT_EQ(coordinator_->requests, 601) << "two places away: every 100 ms";
}

TEST_F(RegisterWorkerTest, AWorkerThatIsAskedToEndGivesUp) {
  EndRequest end;
  end.Await();
  ASSERT_TRUE(end.Ask());
  RegisterOptions options;
  options.end = &end;
  EXPECT_TRUE(absl::IsCancelled(
      Register(absl::ResourceExhaustedError("all live"), absl::Seconds(3), options).status()));
}

TEST_F(RegisterWorkerTest, OtherRefusalsAreFinal) {
  EXPECT_EQ(Register(absl::FailedPreconditionError("it is done"), absl::Hours(2)).status(),
            absl::FailedPreconditionError("it is done"));
  EXPECT_EQ(coordinator_->requests, 1);
}

}  // namespace
}  // namespace capstan
