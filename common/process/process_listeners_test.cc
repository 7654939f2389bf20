#include "common/process/process_listeners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/real_clock.h"
#include "common/net/test_client.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ProcessListenersTest : public testing::Test {
 protected:
  absl::StatusOr<ProcessListeners> Start(const std::string& health, const std::string& metrics) {
    return StartProcessListeners(health, metrics, readiness_, sources_, &clock_);
  }

  RealClock clock_;
  Readiness readiness_{absl::UnavailableError("waits")};
  MetricsSources sources_;
};

TEST_F(ProcessListenersTest, MetricsAreTheTextOfTheMoment) {
  std::atomic<int> loss = 0;
  const auto registration =
      sources_.Add([&loss](MetricsPage& page) { page.Add("capstan_loss", loss); });
  const auto listeners = Start("", "127.0.0.1:0");
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  EXPECT_EQ(listeners->health, nullptr);
  for (loss = 1; loss < 3; ++loss) {
    absl::SleepFor(RecentText::kLifetime);
    TestClient client(listeners->metrics->address());
    client.Send("GET /metrics HTTP/1.1\r\nHost: me\r\n\r\n");
    const std::string answer = client.ReadToEnd();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4;"));
    EXPECT_THAT(answer, HasSubstr(absl::StrCat("\ncapstan_loss ", loss.load(), "\n")));
  }
  TestClient client(listeners->metrics->address());
  client.Send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.ReadToEnd(), HasSubstr("expected /metrics\n"));
}

// With a port for probes.
class ProbesTest : public ProcessListenersTest {
 protected:
  void SetUp() override {
    auto listeners = Start("127.0.0.1:0", "");
    ASSERT_TRUE(listeners.ok()) << listeners.status();
    listeners_ = *std::move(listeners);
  }
  // The answer to "GET /readyz", as an example.
  std::string Ask(const std::string& call) {
    TestClient client(listeners_.health->address());
    client.Send(call + " HTTP/1.1\r\nHost: me\r\n\r\n");
    return client.ReadToEnd();
  }

  ProcessListeners listeners_;
};

TEST_F(ProbesTest, AProcessIsHealthyAlsoWhileItIsNotReady) {
  EXPECT_EQ(listeners_.metrics, nullptr);
  EXPECT_THAT(Ask("GET /healthz"), EndsWith("\r\n\r\nok\n"));
  EXPECT_THAT(Ask("GET /readyz"), AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("\r\n\r\nwaits\n")));
  readiness_.Set(absl::OkStatus());
  for (const std::string call : {"GET /healthz", "GET /readyz", "GET /readyz?verbose"}) {
    EXPECT_THAT(Ask(call), AllOf(StartsWith("HTTP/1.1 200 OK"), EndsWith("\r\n\r\nok\n"))) << call;
  }
}

TEST_F(ProbesTest, TheReasonIsOneShortLine) {
  readiness_.Set(absl::UnavailableError("waits for \x1b[31m\nworkers"));
  EXPECT_THAT(Ask("GET /readyz"), EndsWith("\r\n\r\nwaits for \\x1b[31m\\x0aworkers\n"));
  readiness_.Set(absl::UnavailableError(std::string(100'000, 'x')));
  EXPECT_LT(Ask("GET /readyz").size(), 1000);
}

TEST_F(ProbesTest, HeadHasTheHeadersOfGetAndNoBody) {
  const std::string get = Ask("GET /readyz");
  EXPECT_EQ(Ask("HEAD /readyz"), get.substr(0, get.find("\r\n\r\n") + 4));
}

TEST_F(ProbesTest, OtherPathsAndMethodsAreRefusedAndNotRepeated) {
  for (const std::string target :
       {"/", "/secret", "/healthz/secret", "secret", "/healthz%00", "*"}) {
    EXPECT_THAT(Ask("GET " + target),
                AllOf(StartsWith("HTTP/1.1 404 "), EndsWith("\nexpected /healthz or /readyz\n"),
                      Not(HasSubstr("secret"))))
        << target;
  }
  for (const std::string method : {"get", "DELETE", "SECRET"}) {
    EXPECT_THAT(Ask(method + " /healthz"),
                AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("\r\nAllow: GET, HEAD\r\n"),
                      Not(HasSubstr("SECRET"))))
        << method;
  }
}

TEST_F(ProcessListenersTest, AWrongAddressIsNamedWithItsFlag) {
  EXPECT_THAT(std::string(Start("localhost", "").status().message()),
              HasSubstr("--health_listen: expected host:port"));
  EXPECT_THAT(std::string(Start("", "localhost").status().message()),
              HasSubstr("--metrics_listen: expected host:port"));
}

}  // namespace
}  // namespace capstan
