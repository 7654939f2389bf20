#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_endpoint.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_server.h"
#include "deploy/launch/child_process.h"
#include "tests/transport/test_keys.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {
namespace {

constexpr uint64_t kElements = 1024;
constexpr float kMark = 0.8470947265625f;  // of no value by chance

std::string Bytes(float value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Captures what travels over loopback with tshark, while a worker pushes a marked gradient.
class CaptureTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "capturing packets needs root";
  }

  // The captured packets of one push with `security` at both ends.
  std::string CapturePush(const SecurityPointer& security) {
    CallGuard::Options guarded;
    guarded.clock = &clock_;
    guarded.security = security;
    CallGuard guard(guarded);
    const auto host = MakeTestHost(ConsistencyMode::kAsync, /*num_workers=*/1, kElements);
    GrpcParameterService service(host.get(), 64 << 20, ReplyOrder(), /*streams=*/nullptr, &guard);
    GrpcServer::Options options;
    options.guard = &guard;
    options.max_connections = 8;
    const auto server = GrpcServer::Start("127.0.0.1:0", {&service}, options).value();
    const std::string port = server->address().substr(server->address().rfind(':') + 1);
    const std::string file = absl::StrCat(testing::TempDir(), "/", port, ".pcapng");
    const std::string log = file + ".log";
    const auto tshark =
        ChildProcess::Start({"/usr/bin/tshark",
                             {"-i", "lo", "-f", absl::StrCat("tcp port ", port), "-w", file, "-q"},
                             log})
            .value();
    Await([&] { return ReadBytes(log).find("Capturing on") != std::string::npos; });
    GrpcEndpoint endpoint(server->address(), &clock_, security);
    // tshark says that it captures a moment before it does. So pushes go on until one was seen.
    for (int64_t step = 0; ReadBytes(file).size() < 3 * kElements * sizeof(float); ++step) {
      OneShot<ExchangeReply> reply(&clock_);
      endpoint.Exchange(
          MakeTestRequest(0, Step(step), std::nullopt, kMark, kElements), [] {},
          [&reply](ExchangeReply answer) { reply.Set(std::move(answer)); });
      const absl::Status status = reply.Wait().status;
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok() || step > kMostPushes) break;
    }
    tshark->Signal(SIGINT);
    Await([&] { return tshark->Poll().has_value(); });
    return ReadBytes(file);
  }

  static constexpr int64_t kMostPushes = 20'000;

  RealClock clock_;

 private:
  void Await(const std::function<bool()>& is_true) {
    const absl::Time deadline = clock_.Now() + absl::Seconds(30);
    while (!is_true()) {
      ASSERT_LT(clock_.Now(), deadline) << "tshark does not work";
      SleepUntil(clock_, clock_.Now() + absl::Milliseconds(20));
    }
  }
};

TEST_F(CaptureTest, AGradientIsSeenInPlaintextAndNotOverTls) {
  const std::string mark = Bytes(kMark, 4);
  EXPECT_NE(CapturePush(NoSecurity()).find(mark), std::string::npos);
  TestKeys keys;
  keys.authority = MakeTestAuthority();
  keys.token = MakeToken();
  const auto security = GrpcSecurity::Open({WriteTestKeys(keys), false, &clock_}).value();
  const std::string captured = CapturePush(security);
  EXPECT_GE(captured.size(), 3 * kElements * sizeof(float)) << "nothing was captured";
  EXPECT_EQ(captured.find(mark), std::string::npos);
  EXPECT_EQ(captured.find(keys.token), std::string::npos);
}

}  // namespace
}  // namespace capstan
