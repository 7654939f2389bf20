#include "common/transport/grpc/call_guard.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/fake_clock.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Keeps the lines that the test's thread logs.
class KeptLines : public google::LogSink {
 public:
  KeptLines() { google::AddLogSink(this); }
  ~KeptLines() override { google::RemoveLogSink(this); }

  using google::LogSink::send;
  void send(google::LogSeverity, const char*, const char*, int, const google::LogMessageTime&,
            const char* message, size_t size) override {
    lines.emplace_back(message, size);
  }

  std::vector<std::string> lines;
};

class CallGuardTest : public testing::Test {
 protected:
  CallGuardTest() : guard_(OptionsWith(&clock_)) {}

  static CallGuard::Options OptionsWith(Clock* clock) {
    CallGuard::Options options;
    options.clock = clock;
    return options;
  }
  void Refuse(int times) {
    for (int i = 0; i < times; ++i) {
      EXPECT_EQ(guard_.Refuse(context_, "Exchange", absl::PermissionDeniedError("no right")),
                absl::PermissionDeniedError("no right"));
    }
  }

  FakeClock clock_;
  CallGuard guard_;
  const grpc::ServerContext context_;  // of a caller without a name
};

TEST_F(CallGuardTest, RefusalsOfASecondAreOneLineThatCountsThem) {
  const KeptLines log;
  Refuse(100);
  EXPECT_THAT(log.lines, ElementsAre("refused Exchange of : no right"));
  clock_.Advance(absl::Milliseconds(999));
  Refuse(1);
  EXPECT_EQ(log.lines.size(), 1u);
  clock_.Advance(absl::Milliseconds(1));
  Refuse(1);
  ASSERT_EQ(log.lines.size(), 2u);
  EXPECT_THAT(log.lines[1], HasSubstr("no right; 100 more since the last line"));
  clock_.Advance(absl::Hours(1));
  Refuse(1);
  ASSERT_EQ(log.lines.size(), 3u);
  EXPECT_EQ(log.lines[2], "refused Exchange of : no right");
  EXPECT_EQ(guard_.refused_calls(), 103);
}

TEST_F(CallGuardTest, AFloodOfRefusalsIsALineASecond) {
  const KeptLines log;
  for (int i = 0; i < 1000; ++i) {
    Refuse(1);
    clock_.Advance(absl::Milliseconds(10));
  }
  EXPECT_EQ(log.lines.size(), 10u);
}

}  // namespace
}  // namespace capstan
