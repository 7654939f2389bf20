#include "worker/client/link_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/simulated_clock.h"

namespace capstan {
namespace {

constexpr double kLongTraining = 1e12;  // bytes

struct Link {
  double bytes_per_second = 0;
  absl::Duration round_trip;
  int64_t lost = 0;  // the first exchanges are lost
};

// A server at the other end of a link of its own, in virtual time. Each direction carries one
// message after the other.
class FarServer : public ParameterEndpoint {
 public:
  FarServer(SimulatedClock& clock, const Link& link, int64_t& sent)
      : clock_(clock), link_(link), sent_(sent), free_(clock.Now()) {}

  ~FarServer() override {
    for (auto& [id, waiting] : waiting_) {
      clock_.Cancel(waiting.timer);
      waiting.done(ErrorReply(absl::UnavailableError("the connection ends")));
    }
  }

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    ASSERT_TRUE(std::holds_alternative<Probe>(request.purpose));
    delivered();
    if (sent_++ < link_.lost) return done(ErrorReply(absl::UnavailableError("lost")));
    const double bytes = static_cast<double>(PayloadBytes(request));
    free_ = std::max(free_, clock_.Now()) + absl::Seconds(bytes / link_.bytes_per_second);
    const int64_t id = ++last_id_;
    Waiting& waiting = waiting_[id];
    waiting.done = std::move(done);
    waiting.reply.values = std::get<Probe>(request.purpose).bytes;
    waiting.timer = clock_.RunAt(free_ + link_.round_trip, [this, id] {
      Waiting due = std::move(waiting_.extract(id).mapped());
      due.done(std::move(due.reply));
    });
  }

 private:
  struct Waiting {
    ReplyCallback done;
    ExchangeReply reply;
    Clock::TimerId timer = 0;
  };

  SimulatedClock& clock_;
  const Link link_;
  int64_t& sent_;
  absl::Time free_;
  int64_t last_id_ = 0;
  std::map<int64_t, Waiting> waiting_;
};

// Nobody answers before the connection ends.
class SilentServer : public ParameterEndpoint {
 public:
  ~SilentServer() override {
    for (ReplyCallback& done : open_) done(ErrorReply(absl::UnavailableError("it ends")));
  }
  void Exchange(ExchangeRequest&&, DeliveredCallback delivered, ReplyCallback done) override {
    delivered();
    open_.push_back(std::move(done));
  }

 private:
  std::vector<ReplyCallback> open_;
};

class LinkProbeTest : public testing::Test {
 protected:
  v1::LinkMeasurement Measure(const std::vector<Link>& links, double training_bytes) {
    std::vector<std::unique_ptr<ParameterEndpoint>> servers;
    for (const Link& link : links) {
      servers.push_back(std::make_unique<FarServer>(clock_, link, sent_));
    }
    return Run(std::move(servers), training_bytes);
  }
  v1::LinkMeasurement Run(std::vector<std::unique_ptr<ParameterEndpoint>> servers,
                          double training_bytes) {
    v1::LinkMeasurement measured;
    clock_.Spawn([&] { measured = MeasureLinks(std::move(servers), training_bytes, clock_); });
    clock_.RunUntil(clock_.Now() + absl::Hours(1));
    return measured;
  }

  SimulatedClock clock_;
  int64_t sent_ = 0;  // probes
};

TEST_F(LinkProbeTest, TheRateIsOfAllLinksTogether) {
  const v1::LinkMeasurement links =
      Measure({{12.5e6, absl::Milliseconds(1)}, {12.5e6, absl::Milliseconds(3)}}, kLongTraining);
  EXPECT_NEAR(links.bytes_per_second(), 25e6, 1e6);
  EXPECT_NEAR(links.round_trip_seconds(), 0.003, 1e-5) << "of the slower one";
  EXPECT_NEAR(links.seconds(), 0.5, 0.1);
}

TEST_F(LinkProbeTest, ALongWayDoesNotHideTheRate) {
  const v1::LinkMeasurement links =
      Measure({{62.5e6, absl::Milliseconds(50)}, {62.5e6, absl::Milliseconds(50)}}, kLongTraining);
  EXPECT_NEAR(links.bytes_per_second(), 125e6, 12e6);
  EXPECT_LT(links.seconds(), 2);
}

TEST_F(LinkProbeTest, TheSlowestServerCountsForAll) {
  const v1::LinkMeasurement links =
      Measure({{500e6, absl::Milliseconds(1)}, {12.5e6, absl::Milliseconds(1)}}, kLongTraining);
  EXPECT_NEAR(links.bytes_per_second(), 25e6, 2e6);
}

TEST_F(LinkProbeTest, AServerThatIsSilentHasNoRate) {
  std::vector<std::unique_ptr<ParameterEndpoint>> servers;
  servers.push_back(std::make_unique<SilentServer>());
  servers.push_back(
      std::make_unique<FarServer>(clock_, Link{12.5e6, absl::Milliseconds(1)}, sent_));
  EXPECT_EQ(Run(std::move(servers), kLongTraining).bytes_per_second(), 0);
}

TEST_F(LinkProbeTest, ALinkTooSlowForAnyProbeHasTheMostThatItCanCarry) {
  const v1::LinkMeasurement links =
      Measure({{12.5e6, absl::Milliseconds(1)}, {1000, absl::Milliseconds(1)}}, kLongTraining);
  EXPECT_NEAR(links.bytes_per_second(), 2 * 65536 / 2.0, 1000);
  EXPECT_NEAR(links.seconds(), 2, 0.01);
}

TEST_F(LinkProbeTest, AShortTrainingIsMeasuredForAFiftiethOfItsTime) {
  // 200 MB take 1.6 s each way.
  const v1::LinkMeasurement links = Measure({{125e6, absl::ZeroDuration()}}, 200e6);
  EXPECT_NEAR(links.bytes_per_second(), 125e6, 1e6);
  EXPECT_NEAR(links.seconds(), 0.032, 0.002);
}

TEST_F(LinkProbeTest, ATrainingOfAFewBytesIsNotMeasured) {
  const v1::LinkMeasurement links = Measure({{125e6, absl::ZeroDuration()}}, 30e6);
  EXPECT_EQ(links.bytes_per_second(), 0);
  EXPECT_EQ(links.seconds(), 0);
  EXPECT_EQ(sent_, 0);
}

TEST_F(LinkProbeTest, AVerySlowLinkTakesTwoSeconds) {
  const v1::LinkMeasurement links = Measure({{200e3, absl::Milliseconds(100)}}, kLongTraining);
  EXPECT_NEAR(links.bytes_per_second(), 200e3, 80e3);
  EXPECT_NEAR(links.seconds(), 2, 0.01);
}

TEST_F(LinkProbeTest, LostProbesAreSentAgain) {
  const v1::LinkMeasurement links =
      Measure({{12.5e6, absl::Milliseconds(1), /*lost=*/5}}, kLongTraining);
  EXPECT_NEAR(links.bytes_per_second(), 12.5e6, 1e6);
  EXPECT_NEAR(links.round_trip_seconds(), 0.001, 1e-5);
}

TEST_F(LinkProbeTest, WithoutAnAnswerThereIsNoRate) {
  std::vector<std::unique_ptr<ParameterEndpoint>> servers;
  servers.push_back(std::make_unique<SilentServer>());
  const v1::LinkMeasurement links = Run(std::move(servers), kLongTraining);
  EXPECT_EQ(links.bytes_per_second(), 0);
  EXPECT_NEAR(links.seconds(), 2, 0.01);
}

}  // namespace
}  // namespace capstan
