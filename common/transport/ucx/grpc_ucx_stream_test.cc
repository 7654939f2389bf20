#include "common/transport/ucx/grpc_ucx_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "common/base/one_shot.h"
#include "common/base/real_clock.h"

namespace capstan {
namespace {

using StreamPointer = GrpcUcxStream::StreamPointer;

TEST(GrpcUcxOpenerTest, WaitsUntilAnEndedStreamIsDestroyed) {
  RealClock clock;
  GrpcUcxOpener opener("127.0.0.1:1", &clock);  // Nothing listens there.
  OneShot<absl::Status> end(&clock);
  GrpcUcxStream::Callbacks callbacks;
  callbacks.on_invitation = [](const StreamPointer&, const v1::UcxInvitation&) {};
  callbacks.on_end = [&end](const StreamPointer&, const absl::Status& status) { end.Set(status); };
  StreamPointer stream = opener.Open(std::move(callbacks));
  const absl::Status status = end.Wait();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;

  std::atomic<bool> is_destroyed = false;
  std::thread last_user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    is_destroyed = true;
    stream.reset();
  });
  opener.AwaitEnd();
  EXPECT_TRUE(is_destroyed);
  last_user.join();
}

}  // namespace
}  // namespace capstan
