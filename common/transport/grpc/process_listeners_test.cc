#include "common/transport/grpc/process_listeners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/real_clock.h"
#include "common/transport/grpc/test_client.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
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

TEST_F(ProcessListenersTest, ProbesHearTheReadiness) {
  const auto listeners = Start("127.0.0.1:0", "");
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  EXPECT_EQ(listeners->metrics, nullptr);
  TestClient client(listeners->health->address());
  client.Send("GET /readyz HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.ReadToEnd(), HasSubstr("waits"));
  readiness_.Set(absl::OkStatus());
  TestClient later(listeners->health->address());
  later.Send("GET /readyz HTTP/1.1\r\n\r\n");
  EXPECT_THAT(later.ReadToEnd(), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(ProcessListenersTest, AWrongAddressIsNamedWithItsFlag) {
  EXPECT_THAT(std::string(Start("localhost", "").status().message()),
              HasSubstr("--health_listen: expected host:port"));
  EXPECT_THAT(std::string(Start("", "localhost").status().message()),
              HasSubstr("--metrics_listen: expected host:port"));
}

}  // namespace
}  // namespace capstan
