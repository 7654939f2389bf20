// Receipts: each end of a gRPC stream tells the other how many payload bytes have arrived.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/scheduler/transfer_queue.h"
#include "common/transport/grpc/grpc_endpoint.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/reply_order.h"
#include "proto/parameter_service.grpc.pb.h"
#include "server/shard/shard_host.h"
#include "tests/transport/blocking_endpoint.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kElements = 4;
constexpr uint64_t kBytes = kElements * sizeof(float);

// Answers pushes at once. Answers pulls with values: at once, or after Release while it parks.
class ScriptedEndpoint : public ParameterEndpoint {
 public:
  explicit ScriptedEndpoint(bool parks = false) : parks_(parks) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    ExchangeReply reply;
    if (PullOf(request) != nullptr) reply.values = Payload(absl::MakeConstSpan(*values_), values_);
    {
      MutexLock lock(&mu_);
      if (parks_ && !reply.values.empty()) {
        parked_.emplace_back(std::move(done), std::move(reply));
        return;
      }
    }
    done(std::move(reply));
  }
  void Release() {
    std::vector<std::pair<ReplyCallback, ExchangeReply>> parked;
    {
      MutexLock lock(&mu_);
      parks_ = false;
      parked.swap(parked_);
    }
    for (auto& [done, reply] : parked) done(std::move(reply));
  }

 private:
  const std::shared_ptr<std::vector<float>> values_ =
      std::make_shared<std::vector<float>>(kElements, 1.0f);
  Mutex mu_;
  bool parks_ ABSL_GUARDED_BY(mu_);
  std::vector<std::pair<ReplyCallback, ExchangeReply>> parked_ ABSL_GUARDED_BY(mu_);
};

// The first layers first, one at a time; the tables are the layers.
ReplyOrder OneByOne() {
  ReplyOrder order;
  order.credit_bytes = 1;
  order.make_queue = [] { return std::make_unique<PriorityQueue>(); };
  order.layer_of = [](TableId table) { return static_cast<int>(table.value()); };
  return order;
}

struct Served {
  explicit Served(ParameterEndpoint* endpoint, uint64_t max_inflight_bytes = 64 << 20)
      : service(endpoint, max_inflight_bytes, OneByOne()),
        server(GrpcServer::Start("127.0.0.1:0", {&service}).value()) {}

  GrpcParameterService service;
  const std::unique_ptr<GrpcServer> server;
};

// One stream of a client with generated code.
class RawClient {
 public:
  explicit RawClient(const Served& served)
      : stub_(v1::ParameterService::NewStub(
            grpc::CreateChannel(served.server->address(), grpc::InsecureChannelCredentials()))),
        stream_(stub_->Exchange(&context_)) {}
  ~RawClient() { context_.TryCancel(); }

  // Pushes to `table`, under its number.
  void Push(uint32_t table, bool pulls, bool has_receipts = true) {
    v1::ExchangeRequest request;
    request.mutable_header()->set_request_id(table);
    request.mutable_header()->set_table(table);
    v1::Step& step = *request.mutable_header()->mutable_dense_step();
    step.set_push_step(0);
    if (pulls) step.set_pull_step(0);
    request.mutable_header()->set_has_receipts(has_receipts);
    request.mutable_header()->set_received_bytes(received_bytes_);
    request.set_payload(std::string(kBytes, '\0'));
    EXPECT_TRUE(stream_->Write(request));
  }
  void WriteReceipt(uint64_t received_bytes) {
    received_bytes_ = received_bytes;
    v1::ExchangeRequest request;
    request.mutable_header()->set_has_receipts(true);
    request.mutable_header()->set_received_bytes(received_bytes);
    EXPECT_TRUE(stream_->Write(request));
  }
  void WritesDone() { stream_->WritesDone(); }

  v1::ExchangeReply Read() {
    v1::ExchangeReply reply;
    EXPECT_TRUE(stream_->Read(&reply));
    return reply;
  }
  // The request id of the next reply. Skips receipts.
  uint64_t ReadReply() {
    while (true) {
      const v1::ExchangeReply reply = Read();
      told_bytes_ = reply.header().received_bytes();
      if (reply.header().request_id() != 0 || testing::Test::HasFailure()) {
        return reply.header().request_id();
      }
    }
  }
  // The number of bytes in the server's latest receipt.
  uint64_t told_bytes() const { return told_bytes_; }
  // Reads to the end.
  grpc::Status End() {
    v1::ExchangeReply reply;
    while (stream_->Read(&reply)) continue;
    return stream_->Finish();
  }

 private:
  const std::unique_ptr<v1::ParameterService::Stub> stub_;
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::ExchangeRequest, v1::ExchangeReply>> stream_;
  uint64_t received_bytes_ = 0;
  uint64_t told_bytes_ = 0;
};

TEST(GrpcReceiptsTest, AServerTellsWhatItHasReceivedThoughRepliesAreParked) {
  ScriptedEndpoint endpoint(/*parks=*/true);
  Served served(&endpoint);
  RawClient client(served);
  for (uint32_t table = 1; table <= 3; ++table) {
    client.Push(table, /*pulls=*/true);
    const v1::ExchangeReply receipt = client.Read();
    EXPECT_EQ(receipt.header().request_id(), 0);
    EXPECT_EQ(receipt.header().code(), 0);
    EXPECT_EQ(receipt.header().received_bytes(), table * kBytes);
  }
  endpoint.Release();
}

TEST(GrpcReceiptsTest, AClientThatAsksForNoReceiptsGetsNone) {
  ScriptedEndpoint endpoint(/*parks=*/true);
  Served served(&endpoint);
  RawClient client(served);
  for (uint32_t table = 1; table <= 3; ++table) {
    client.Push(table, /*pulls=*/true, /*has_receipts=*/false);
  }
  client.Push(/*table=*/4, /*pulls=*/false, /*has_receipts=*/false);
  EXPECT_EQ(client.Read().header().request_id(), 4);
  endpoint.Release();
  for (uint32_t table = 1; table <= 3; ++table) {
    EXPECT_EQ(client.Read().header().request_id(), table);
  }
}

TEST(GrpcReceiptsTest, TheFirstLayersGoFirstToAClientThatIsSlowToReceive) {
  ScriptedEndpoint endpoint;
  Served served(&endpoint);
  RawClient client(served);
  for (uint32_t table = 5; table >= 1; --table) client.Push(table, /*pulls=*/true);
  client.Push(/*table=*/6, /*pulls=*/false);
  EXPECT_EQ(client.ReadReply(), 5) << "it was first, and used the credit up";
  EXPECT_EQ(client.ReadReply(), 6) << "has no values; by now the others wait";
  std::vector<uint64_t> layers;
  for (uint64_t received = 1; received <= 4; ++received) {
    client.WriteReceipt(received * kBytes);
    layers.push_back(client.ReadReply());
  }
  EXPECT_THAT(layers, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(client.told_bytes(), 6 * kBytes);
}

TEST(GrpcReceiptsTest, AClientThatWillWriteNoMoreGetsItsReplies) {
  ScriptedEndpoint endpoint;
  Served served(&endpoint);
  RawClient client(served);
  for (uint32_t table = 1; table <= 5; ++table) client.Push(table, /*pulls=*/true);
  client.WritesDone();
  for (uint32_t table = 1; table <= 5; ++table) EXPECT_EQ(client.ReadReply(), table);
  EXPECT_TRUE(client.End().ok());
}

TEST(GrpcReceiptsTest, AServerThatReadsNoMoreWaitsForNoReceipts) {
  ScriptedEndpoint endpoint;
  Served served(&endpoint, /*max_inflight_bytes=*/1);
  RawClient client(served);
  for (uint32_t table = 1; table <= 20; ++table) client.Push(table, /*pulls=*/true);
  std::vector<uint64_t> answered;
  for (int i = 0; i < 20; ++i) answered.push_back(client.ReadReply());
  std::sort(answered.begin(), answered.end());
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(answered[i], 1 + i);
}

TEST(GrpcReceiptsTest, WrongReceiptsEndTheStreamAndNothingElse) {
  const std::vector<std::vector<uint64_t>> wrong = {
      {kBytes + 1}, {kBytes, kBytes - 1}, {~uint64_t{0}}};
  for (const std::vector<uint64_t>& receipts : wrong) {
    ScriptedEndpoint endpoint;
    Served served(&endpoint);
    RawClient client(served);
    client.Push(/*table=*/1, /*pulls=*/true);
    EXPECT_EQ(client.ReadReply(), 1);
    for (const uint64_t receipt : receipts) client.WriteReceipt(receipt);
    const grpc::Status status = client.End();
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("wrong receipt: expected from"));
    RawClient other(served);
    other.Push(/*table=*/2, /*pulls=*/true);
    EXPECT_EQ(other.ReadReply(), 2);
  }
}

TEST(GrpcReceiptsTest, AGradientThatWasWrittenButNotReadIsNotSent) {
  RealClock clock;
  BlockingEndpoint blocking(&clock);
  Served served(&blocking);
  OneShot<bool> pushed(&clock), written(&clock);
  GrpcEndpoint endpoint(served.server->address(), &clock);
  const auto exchange = [&endpoint](std::optional<Step> push, OneShot<bool>* delivered) {
    endpoint.Exchange(
        MakeTestRequest(0, push, Step(1), 1.0f, kElements),
        [delivered] {
          if (delivered != nullptr) delivered->Set(true);
        },
        [](ExchangeReply) {});
  };
  exchange(Step(0), nullptr);
  blocking.is_blocked.Wait();
  exchange(Step(0), &pushed);
  exchange(std::nullopt, &written);
  written.Wait();  // It was written after the push, and has no payload.
  EXPECT_FALSE(pushed.is_set());
  blocking.may_go_on.Set(true);
  pushed.Wait();
}

TEST(GrpcReceiptsTest, ALargeReplyBehindTheFirstReceiptIsNotHeldUp) {
  RealClock clock;
  const auto host = MakeTestHost(ConsistencyMode::kBsp, /*num_workers=*/1, kTestElements);
  Served served(host.get());
  std::vector<absl::Duration> times;
  for (Step step; step < Step(7); step = step + 1) {
    const absl::Time begin = clock.Now();
    GrpcEndpoint endpoint(served.server->address(), &clock);
    OneShot<ExchangeReply> reply(&clock);
    endpoint.Exchange(
        MakeTestRequest(0, step, step + 1, 1.0f, kTestElements), [] {},
        [&reply](ExchangeReply answer) { reply.Set(std::move(answer)); });
    EXPECT_TRUE(reply.Wait().status.ok());
    times.push_back(clock.Now() - begin);
  }
  std::sort(times.begin(), times.end());
  // gRPC would send withheld bytes with each connection's next ping, after 5 seconds. The median
  // leaves out what else takes so long on a busy machine.
  EXPECT_LT(times[times.size() / 2], absl::Seconds(5));
}

// A server with wrong receipts.
class LyingService : public v1::ParameterService::Service {
 public:
  grpc::Status Exchange(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::ExchangeReply, v1::ExchangeRequest>* stream) override {
    v1::ExchangeRequest request;
    stream->Read(&request);
    v1::ExchangeReply reply;
    reply.mutable_header()->set_received_bytes(request.payload().size() + 1);
    stream->Write(reply);
    while (stream->Read(&request)) continue;
    return grpc::Status::OK;
  }
};

TEST(GrpcReceiptsTest, AServerWithWrongReceiptsIsAnUnavailableOneThatSaysSo) {
  LyingService service;
  const auto server = GrpcServer::Start("127.0.0.1:0", {&service}).value();
  RealClock clock;
  GrpcEndpoint endpoint(server->address(), &clock);
  int delivered = 0;
  OneShot<ExchangeReply> reply(&clock);
  endpoint.Exchange(
      MakeTestRequest(0, Step(0), Step(1), 1.0f, kElements), [&delivered] { ++delivered; },
      [&reply](ExchangeReply answer) { reply.Set(std::move(answer)); });
  const absl::Status status = reply.Wait().status;
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("got 17"));
  EXPECT_EQ(delivered, 1);
}

}  // namespace
}  // namespace capstan
