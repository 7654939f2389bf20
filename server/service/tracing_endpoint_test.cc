#include "server/service/tracing_endpoint.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/fake_clock.h"
#include "common/exchange/request_parts.h"
#include "common/trace/traced_text.h"

namespace capstan {
namespace {

// Takes 5 us to apply a push; the test answers it. Answers a pull alone after 1 us.
class SlowEndpoint : public ParameterEndpoint {
 public:
  explicit SlowEndpoint(FakeClock* clock) : clock_(*clock) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    clock_.Advance(absl::Microseconds(PushOf(request) != nullptr ? 5 : 1));
    if (PushOf(request) == nullptr) return done(ExchangeReply());
    parked_.push_back(std::move(done));
  }

  void AnswerAll(const ExchangeReply& reply = {}) {
    for (ReplyCallback& done : std::exchange(parked_, {})) done(reply);
  }

 private:
  FakeClock& clock_;
  std::vector<ReplyCallback> parked_;
};

class TracingEndpointTest : public testing::Test {
 protected:
  TracingEndpointTest() : inner_(&clock_) {
    Tracer::Options options;
    options.path = path_;
    options.clock = &clock_;
    tracer_ = Tracer::Create(options).value();
  }

  static ExchangeReply HeldSince(absl::Time time) {
    ExchangeReply reply;
    reply.held_since = time;
    return reply;
  }

  void Send(TableId table, std::optional<Step> push_step) {
    TracingEndpoint endpoint(tracer_.get(), {{"fc1.weight", 0}, {"fc2.weight", 1}}, &inner_);
    ExchangeRequest request;
    request.sender.worker = WorkerId(3);
    request.slice = {table, SliceIndex(2)};
    request.purpose = MakeDenseStep(push_step, Step(7));
    endpoint.Exchange(
        std::move(request), [this] { ++delivered_; },
        [this](const ExchangeReply& reply) {
          ++answered_;
          reply.trace.End();
        });
  }

  std::string Finish() {
    EXPECT_TRUE(tracer_->Finish().ok());
    return TracedText(path_);
  }

  const std::string path_ = testing::TempDir() + "tracing_endpoint";
  FakeClock clock_;
  std::unique_ptr<Tracer> tracer_;
  SlowEndpoint inner_;
  int delivered_ = 0;
  int answered_ = 0;
};

TEST_F(TracingEndpointTest, APushIsAppliedAndThenParked) {
  Send(TableId(1), Step(6));
  clock_.Advance(absl::Microseconds(40));
  inner_.AnswerAll();
  EXPECT_EQ(delivered_, 1);
  EXPECT_EQ(answered_, 1);
  EXPECT_EQ(Finish(),
            R"(b fc2.weight 0.0 {"bytes_pushed":0,"layer":1,"pull_step":7,"push_step":6,"slice":2,)"
            "\"worker\":3}\n"
            "b apply 0.0\ne apply 5.0\n"
            "b parked 5.0\ne parked 45.0\n"
            "e fc2.weight 45.0\n");
}

TEST_F(TracingEndpointTest, AReplyThatWaitsForItsCopyIsReplicated) {
  Send(TableId(1), Step(6));
  clock_.Advance(absl::Microseconds(30));
  const ExchangeReply reply = HeldSince(clock_.Now());
  clock_.Advance(absl::Microseconds(10));
  inner_.AnswerAll(reply);
  EXPECT_EQ(Finish(),
            R"(b fc2.weight 0.0 {"bytes_pushed":0,"layer":1,"pull_step":7,"push_step":6,"slice":2,)"
            "\"worker\":3}\n"
            "b apply 0.0\ne apply 5.0\n"
            "b parked 5.0\ne parked 35.0\n"
            "b replicate 35.0\ne replicate 45.0\n"
            "e fc2.weight 45.0\n");
}

TEST_F(TracingEndpointTest, APullThatIsAnsweredAtOnceIsNotParked) {
  Send(TableId(0), std::nullopt);
  EXPECT_EQ(
      Finish(),
      R"(b fc1.weight 0.0 {"bytes_pushed":0,"layer":0,"pull_step":7,"push_step":-1,"slice":2,)"
      "\"worker\":3}\n"
      "b read 0.0\ne read 1.0\n"
      "e fc1.weight 1.0\n");
}

TEST_F(TracingEndpointTest, AnUnknownTableIsLeftToTheEndpoint) {
  Send(TableId(2), std::nullopt);
  EXPECT_EQ(answered_, 1);
  EXPECT_EQ(Finish(), "");
}

}  // namespace
}  // namespace capstan
