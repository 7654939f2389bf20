// Processes exchange over UCX, and one of them dies.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/reply_order.h"
#include "common/transport/ucx/grpc_ucx_service.h"
#include "common/transport/ucx/ucx_transport.h"
#include "tests/process/forked_process.h"
#include "tests/transport/test_shard_host.h"
#include "tests/transport/ucx_test_server.h"

namespace capstan {
namespace {

using Parent = ForkedProcess::Parent;

std::unique_ptr<UcxTransport> Start(Clock* clock) {
  UcxTransport::Options options;
  options.clock = clock;
  return StartUcxTransport(options).value();
}

// Serves two workers. Tells its address, and goes on until it is killed.
void Serve(uint64_t elements, Parent& parent) {
  RealClock clock;
  const auto host = MakeTestHost(ConsistencyMode::kAsync, /*num_workers=*/2, elements);
  const auto ucx = Start(&clock);
  const UcxTestServer listener(ucx.get(), host.get());
  parent.WriteLine(listener.address());
  parent.ReadLine();
}

enum class Then { kGoesOn, kRests };

// Pushes at once. Large ones then wait until the server fetches them.
constexpr int kPushes = 4;

// Pushes, tells the parent after the first replies, and goes on until an error. Then tells the
// error.
void Push(int worker, Step first_step, uint64_t elements, const std::string& address,
          Parent& parent, Then then = Then::kGoesOn) {
  RealClock clock;
  const auto ucx = Start(&clock);
  const auto endpoint = ucx->Connect(address);
  for (Step step = first_step;; step = step + kPushes) {
    std::deque<OneShot<ExchangeReply>> replies;
    for (int i = 0; i < kPushes; ++i) {
      endpoint->Exchange(
          MakeTestRequest(worker, step + i, step + i + 1, 1.0f, elements), [] {},
          [&reply = replies.emplace_back(&clock)](ExchangeReply answer) {
            reply.Set(std::move(answer));
          });
    }
    absl::Status status;
    for (OneShot<ExchangeReply>& reply : replies) status.Update(reply.Wait().status);
    if (!status.ok()) {
      parent.WriteLine(absl::StrCat("ended: ", status.ToString()));
      return;
    }
    if (step == first_step) parent.WriteLine("pushes");
    if (then == Then::kRests) {
      parent.ReadLine();
      return;
    }
  }
}

// The smaller size is sent eagerly, the larger by rendezvous.
class UcxDeathTest : public testing::TestWithParam<uint64_t> {};

TEST_P(UcxDeathTest, AServerOutlivesItsWorkers) {
  const uint64_t elements = GetParam();
  // A process killed during a write into the queue of UCX 1.13's shared memory blocks it for all.
  // This is likely with small messages. With large ones, processes die in the middle of a payload.
  const Then then = elements < kTestElements ? Then::kRests : Then::kGoesOn;
  ForkedProcess server([&](Parent& parent) { Serve(elements, parent); });
  const std::string address = server.ReadLine();
  ForkedProcess lasting(
      [&](Parent& parent) { Push(/*worker=*/1, Step(0), elements, address, parent); });
  ASSERT_EQ(lasting.ReadLine(), "pushes");
  for (int life = 0; life < 5; ++life) {
    // Each life pushes from step 0 on. The server refuses it if an earlier one got further.
    ForkedProcess worker(
        [&](Parent& parent) { Push(/*worker=*/0, Step(0), elements, address, parent, then); });
    const std::string line = worker.ReadLine();
    EXPECT_TRUE(line == "pushes" || absl::StrContains(line, "FAILED_PRECONDITION")) << line;
    worker.Kill();
  }
  // The other worker has received nothing but replies.
  lasting.Kill();
  EXPECT_EQ(lasting.ReadLine(), "");
}

TEST_P(UcxDeathTest, AWorkerIsToldThatItsServerIsGone) {
  const uint64_t elements = GetParam();
  auto server = std::make_unique<ForkedProcess>([&](Parent& parent) { Serve(elements, parent); });
  const std::string address = server->ReadLine();
  ForkedProcess worker(
      [&](Parent& parent) { Push(/*worker=*/0, Step(0), elements, address, parent); });
  ASSERT_EQ(worker.ReadLine(), "pushes");
  server->Kill();
  EXPECT_TRUE(absl::StartsWith(worker.ReadLine(), "ended: UNAVAILABLE"));
}

// Tells the parent about the end of a worker.
class NotingListener : public UcxTransport::Listener {
 public:
  NotingListener(UcxTransport::Listener* inner, Parent* parent) : inner_(inner), parent_(parent) {}
  void Invite(std::shared_ptr<UcxTransport::Guest> guest) override {
    inner_->Invite(std::move(guest));
  }
  void End(UcxTransport::Guest* guest) override {
    parent_->WriteLine("a worker has gone");
    inner_->End(guest);
  }
  void EndAll() override { inner_->EndAll(); }

 private:
  UcxTransport::Listener* const inner_;
  Parent* const parent_;
};

// As Serve. Also tells the parent about the end of a worker.
void ServeAndNote(uint64_t elements, Parent& parent) {
  RealClock clock;
  const auto host = MakeTestHost(ConsistencyMode::kAsync, /*num_workers=*/2, elements);
  const auto ucx = Start(&clock);
  const auto listener = ucx->Listen(host.get(), ReplyOrder());
  NotingListener noting(listener.get(), &parent);
  GrpcUcxService service(&noting);
  const auto server = GrpcServer::Start("127.0.0.1:0", {&service}).value();
  parent.WriteLine(server->address());
  parent.ReadLine();
}

TEST(UcxHangTest, AConnectionWhoseOtherEndHangsEndsAtEitherEnd) {
  constexpr uint64_t kElements = 256;
  ForkedProcess server([](Parent& parent) { ServeAndNote(kElements, parent); });
  ForkedProcess hanging_server([](Parent& parent) { Serve(kElements, parent); });
  const std::string address = server.ReadLine();
  const std::string hanging_address = hanging_server.ReadLine();
  ForkedProcess hanging_worker(
      [&](Parent& parent) { Push(/*worker=*/0, Step(0), kElements, address, parent); });
  ForkedProcess worker(
      [&](Parent& parent) { Push(/*worker=*/0, Step(0), kElements, hanging_address, parent); });
  ASSERT_EQ(hanging_worker.ReadLine(), "pushes");
  ASSERT_EQ(worker.ReadLine(), "pushes");
  hanging_worker.Stop();
  hanging_server.Stop();
  EXPECT_EQ(server.ReadLine(), "a worker has gone");
  EXPECT_TRUE(absl::StartsWith(worker.ReadLine(), "ended: UNAVAILABLE"));
}

INSTANTIATE_TEST_SUITE_P(Sizes, UcxDeathTest, testing::Values(256, kTestElements));

}  // namespace
}  // namespace capstan
