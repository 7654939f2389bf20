#include "common/transport/retrying_endpoint.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/fake_clock.h"

namespace capstan {
namespace {

// Answers each exchange with the next scripted status; keeps it open when the script is empty.
class ScriptedEndpoint : public ParameterEndpoint {
 public:
  struct Script {
    std::deque<absl::Status> statuses;
    int calls = 0;
    ReplyCallback open;
  };
  explicit ScriptedEndpoint(Script* script) : script_(script) {}
  ~ScriptedEndpoint() override {
    if (script_->open) script_->open(ErrorReply(absl::UnavailableError("destroyed")));
  }

  void Exchange(ExchangeRequest, SentCallback sent, ReplyCallback done) override {
    ++script_->calls;
    sent();
    if (script_->statuses.empty()) {
      script_->open = std::move(done);
      return;
    }
    const absl::Status status = script_->statuses.front();
    script_->statuses.pop_front();
    done(ErrorReply(status));
  }

 private:
  Script* const script_;
};

class RetryingEndpointTest : public testing::Test {
 protected:
  RetryingEndpointTest() {
    RetryingEndpoint::Options options;
    options.clock = &clock_;
    options.peer = "server 1 (127.0.0.1:4000)";
    options.rpc_deadline = absl::Seconds(5);
    endpoint_ =
        std::make_unique<RetryingEndpoint>(options, std::make_unique<ScriptedEndpoint>(&script_));
  }
  void Exchange() {
    endpoint_->Exchange(
        {}, [this] { ++sent_; },
        [this](ExchangeReply reply) {
          EXPECT_FALSE(result_.has_value()) << "answered twice";
          result_ = std::move(reply.status);
        });
  }

  FakeClock clock_;
  ScriptedEndpoint::Script script_;
  std::unique_ptr<RetryingEndpoint> endpoint_;
  int sent_ = 0;
  std::optional<absl::Status> result_;
};

TEST_F(RetryingEndpointTest, SendsAgainUntilTheAnswerComes) {
  script_.statuses = {absl::UnavailableError("lost"), absl::ResourceExhaustedError("full"),
                      absl::OkStatus()};
  Exchange();
  EXPECT_EQ(script_.calls, 1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(script_.calls, 3);
  EXPECT_EQ(sent_, 1);
  EXPECT_TRUE(result_->ok());
}

TEST_F(RetryingEndpointTest, DoesNotRepeatWhatTheServerRefused) {
  script_.statuses = {absl::InvalidArgumentError("wrong length")};
  Exchange();
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(script_.calls, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(*result_));
}

TEST_F(RetryingEndpointTest, GivesUpAfterTheDeadlineAndNamesThePeer) {
  for (int i = 0; i < 1000; ++i) script_.statuses.push_back(absl::UnavailableError("refused"));
  Exchange();
  clock_.Advance(absl::Seconds(4));
  EXPECT_FALSE(result_.has_value());
  clock_.Advance(absl::Seconds(3));
  ASSERT_TRUE(result_.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*result_));
  EXPECT_NE(result_->message().find("server 1 (127.0.0.1:4000) has been unreachable for 5s"),
            absl::string_view::npos)
      << *result_;
}

TEST_F(RetryingEndpointTest, WaitingForOtherWorkersDoesNotCountAsUnreachable) {
  Exchange();
  clock_.Advance(absl::Hours(1));
  EXPECT_FALSE(result_.has_value());
  // The connection breaks after an hour, twice, and comes back each time.
  for (int i = 0; i < 2; ++i) {
    std::exchange(script_.open, nullptr)(ErrorReply(absl::UnavailableError("broke")));
    clock_.Advance(absl::Hours(1));
    EXPECT_FALSE(result_.has_value());
  }
  std::exchange(script_.open, nullptr)(ExchangeReply());
  EXPECT_TRUE(result_->ok());
}

TEST_F(RetryingEndpointTest, DestructionAnswersWhatWaitsToBeSentAgain) {
  script_.statuses = {absl::UnavailableError("lost")};
  Exchange();
  endpoint_.reset();
  EXPECT_TRUE(absl::IsCancelled(*result_));
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(script_.calls, 1);
}

TEST_F(RetryingEndpointTest, DestructionAnswersWhatIsOpen) {
  Exchange();
  endpoint_.reset();
  EXPECT_TRUE(absl::IsCancelled(*result_));
}

}  // namespace
}  // namespace capstan
