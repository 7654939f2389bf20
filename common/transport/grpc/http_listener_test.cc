#include "common/transport/grpc/http_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "common/base/fake_clock.h"
#include "common/transport/grpc/http_answer.h"
#include "common/transport/grpc/test_client.h"

namespace capstan {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kGetShort[] = "GET /short HTTP/1.1\r\n\r\n";
constexpr char kGetLong[] = "GET /long HTTP/1.1\r\n\r\n";

// More than the kernel takes of a connection that nobody reads.
constexpr size_t kLongBytes = 32 << 20;

// More of its tests are in health_listener_test.cc.
class HttpListenerTest : public testing::Test {
 protected:
  HttpListener::Options Options() {
    HttpListener::Options options;
    options.flag = "--some_listen";
    options.purpose = "tests";
    options.listen = "127.0.0.1:0";
    options.clock = &clock_;
    options.answer = [](absl::string_view received) {
      const HttpPath paths[] = {
          {"/short",
           [] {
             return HttpAnswer{"200 OK", "text/plain", "short"};
           }},
          {"/long",
           [] {
             return HttpAnswer{"200 OK", "text/plain", std::string(kLongBytes, 'x') + "end"};
           }},
      };
      return AnswerHttp(received, paths);
    };
    return options;
  }
  void SetUp() override {
    auto listener = HttpListener::Start(Options());
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  FakeClock clock_;
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpListenerTest, ALongAnswerComesWhole) {
  TestClient client(listener_->address());
  client.Send(kGetLong);
  const std::string answer = client.ReadToEnd();
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, kLongBytes + 3);
  EXPECT_THAT(answer.substr(answer.size() - 10), EndsWith("xend"));
}

TEST_F(HttpListenerTest, ALongAnswerComesWholeToAClientThatHasEndedItsSide) {
  TestClient client(listener_->address());
  client.Send(kGetLong);
  client.EndWriting();
  const std::string answer = client.ReadToEnd();
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, kLongBytes + 3);
}

TEST_F(HttpListenerTest, AClientThatDoesNotReadBlocksNobodyAndIsClosedInTime) {
  TestClient stuck(listener_->address());
  stuck.Send(kGetLong);
  TestClient other(listener_->address());
  other.Send(kGetShort);
  EXPECT_THAT(other.ReadToEnd(), EndsWith("\r\n\r\nshort"));
  clock_.Advance(absl::Seconds(6));
  TestClient later(listener_->address());
  later.Send(kGetShort);
  EXPECT_THAT(later.ReadToEnd(), EndsWith("\r\n\r\nshort"));
  EXPECT_LT(stuck.ReadToEnd().size(), kLongBytes);
}

TEST_F(HttpListenerTest, WithoutAServerForItHttp2IsABadRequest) {
  TestClient client(listener_->address());
  client.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpListenerTest, ErrorsNameTheFlag) {
  HttpListener::Options options = Options();
  options.listen = "localhost";
  EXPECT_THAT(HttpListener::Start(options).status().message(),
              HasSubstr("--some_listen: expected host:port"));
  options.listen = listener_->address();
  EXPECT_THAT(HttpListener::Start(options).status().message(),
              HasSubstr("choose another --some_listen"));
}

}  // namespace
}  // namespace capstan
