#include "tests/benchmark/schedule/preemption_load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "common/base/simulated_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/scheduler/transfer_queue.h"

namespace capstan {
namespace {

constexpr uint64_t kSliceBytes = 64 << 10;
constexpr uint64_t kCreditBytes = 4 * kSliceBytes;
constexpr double kBytesPerSecond = 1e8;

absl::Duration TimeOf(uint64_t bytes) {
  return absl::Seconds(static_cast<double>(bytes) / kBytesPerSecond);
}

// A link of one rate, without latency. When a gradient has passed, it is delivered and answered.
class Link : public ParameterEndpoint {
 public:
  explicit Link(Clock* clock) : clock_(clock) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    free_at_ = std::max(free_at_, clock_->Now()) + TimeOf(PayloadBytes(request));
    clock_->RunAt(free_at_, [delivered = std::move(delivered), done = std::move(done)]() mutable {
      delivered();
      done(ExchangeReply());
    });
  }

 private:
  Clock* const clock_;
  absl::Time free_at_;
};

PreemptionTimes Measure(std::unique_ptr<TransferQueue> queue) {
  PreemptionLoad load;
  load.slice_bytes = kSliceBytes;
  load.tries = 200;
  SimulatedClock clock;
  Scheduler scheduler(kCreditBytes, std::move(queue));
  PreemptionTimes times;
  clock.Spawn([&] {
    const auto client = load.Job().MakeClient(
        {"link"}, [&](const std::string&) { return std::make_unique<Link>(&clock); }, &clock);
    times = MeasurePreemption(load, client.get(), &scheduler, &clock).value();
  });
  clock.RunUntil(absl::InfiniteFuture());
  return times;
}

TEST(PreemptionLoadTest, UnderPriorityASliceWaitsForTheCreditAndOneSliceAtMost) {
  const PreemptionTimes times = Measure(std::make_unique<PriorityQueue>());
  EXPECT_EQ(times.alone, TimeOf(kSliceBytes));
  ASSERT_EQ(times.waited.size(), 200u);
  const absl::Duration longest = *std::max_element(times.waited.begin(), times.waited.end());
  const absl::Duration shortest = *std::min_element(times.waited.begin(), times.waited.end());
  EXPECT_LE(longest, TimeOf(kCreditBytes + kSliceBytes));
  EXPECT_GT(shortest, TimeOf(kCreditBytes - kSliceBytes)) << "the link was not full";
}

TEST(PreemptionLoadTest, InFifoOrderItWaitsForAllThatIsQueued) {
  const PreemptionTimes times = Measure(std::make_unique<FifoQueue>());
  const absl::Duration shortest = *std::min_element(times.waited.begin(), times.waited.end());
  EXPECT_GT(shortest, TimeOf(30 * kSliceBytes));
}

}  // namespace
}  // namespace capstan
