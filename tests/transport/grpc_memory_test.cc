// Clients push as fast as they can, and never read the server's replies.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/client_callback.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/one_shot.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/exchange/request_parts.h"
#include "common/membership/scripted_coordinator.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_endpoint.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_payload.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/grpc/grpc_setup.h"
#include "common/transport/grpc/stream_limit.h"
#include "common/transport/reply_order.h"
#include "common/wire/frame.h"
#include "server/coordinator/grpc_coordinator_service.h"
#include "tests/process/forked_process.h"
#include "tests/process/peak_memory.h"
#include "tests/transport/test_keys.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {
namespace {

constexpr int kClients = 64;
constexpr uint64_t kElements = 256 << 10;
constexpr int64_t kSliceBytes = kElements * sizeof(float);
constexpr int64_t kMaxInflightBytes = 2 << 20;
constexpr int kStreamsPerConnection = 4;

// Keys of this process and of its servers. Empty: plaintext.
SecurityPointer Secured(const std::string& keys, Clock* clock) {
  return GrpcSecurity::Open({keys, /*is_insecure=*/false, clock}).value();
}

// Tells its address, then its peak memory on every request.
void Serve(const std::string& keys, ForkedProcess::Parent& parent) {
  KeepFreedMemory();
  RealClock clock;
  CallGuard::Options guarded;
  guarded.clock = &clock;
  guarded.security = Secured(keys, &clock);
  CallGuard guard(guarded);
  const auto host = MakeTestHost(ConsistencyMode::kAsync, 2 * kClients + 1, kElements);
  StreamLimit streams(kClients + 1);
  GrpcParameterService service(host.get(), kMaxInflightBytes, ReplyOrder(), &streams, &guard);
  ScriptedCoordinator coordinator;
  GrpcCoordinatorService coordinator_service(coordinator);
  GrpcServer::Options options;
  options.guard = &guard;
  options.max_connections = 2 * kClients;
  const auto server =
      GrpcServer::Start("127.0.0.1:0", {&service, &coordinator_service}, options).value();
  parent.WriteLine(server->address());
  while (!parent.ReadLine().empty()) parent.WriteLine(absl::StrCat(PeakMemoryBytes()));
}

int64_t PeakMemoryOf(ForkedProcess& server) {
  server.WriteLine("memory?");
  int64_t bytes = 0;
  EXPECT_TRUE(absl::SimpleAtoi(server.ReadLine(), &bytes));
  return bytes;
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const GrpcSecurity& security) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, security.channel_credentials(), arguments);
}

// Writes exchanges of one worker one after the other. Reads only after a call of the test. Every
// other client claims to write receipts, and never does.
class RudeClient : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  RudeClient(int worker, const GrpcSecurity& security,
             const std::shared_ptr<grpc::Channel>& channel)
      : worker_(worker), stub_(channel) {
    security.Authorize(/*audience=*/"", kExchangeCall, context_);
    stub_.PrepareBidiStreamingCall(&context_, "/capstan.v1.ParameterService/Exchange",
                                   grpc::StubOptions(), this);
    AddHold();
    StartCall();
    WriteNext();
  }
  ~RudeClient() override {
    {
      MutexLock lock(&mu_);
      is_ending_ = true;
    }
    context_.TryCancel();
    LetEnd();
    is_done_.Wait();
  }

  int written() const {
    MutexLock lock(&mu_);
    return written_;
  }
  int read() const {
    MutexLock lock(&mu_);
    return read_;
  }
  void BeginToRead() { StartRead(&incoming_); }

  void OnWriteDone(bool ok) override {
    if (!ok) return LetEnd();
    {
      MutexLock lock(&mu_);
      ++written_;
      if (is_ending_) return;
    }
    WriteNext();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    const auto reply = DecodeReply(FromByteBuffer(incoming_));
    EXPECT_TRUE(reply.ok() && reply->reply.status.ok());
    if (!reply->is_receipt()) {
      EXPECT_EQ(reply->reply.values.size_bytes(), kSliceBytes);
      MutexLock lock(&mu_);
      ++read_;
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }
  // Ok until the stream has ended.
  grpc::Status status() const {
    MutexLock lock(&mu_);
    return status_;
  }
  void OnDone(const grpc::Status& status) override {
    {
      MutexLock lock(&mu_);
      status_ = status;
    }
    is_done_.Set(true);
  }

 private:
  // OnDone comes after the stream's end.
  void LetEnd() {
    {
      MutexLock lock(&mu_);
      if (!std::exchange(is_held_, false)) return;
    }
    RemoveHold();
  }
  void WriteNext() {
    ExchangeRequest request = MakeTestRequest(worker_, step_, step_ + 1, 1.0f, kElements);
    const std::optional<uint64_t> received_bytes =
        worker_ % 2 == 0 ? std::optional<uint64_t>(0) : std::nullopt;
    message_ =
        ToByteBuffer(EncodePrefix(1 + step_.value(), request, received_bytes), BroughtBy(request));
    step_ = step_ + 1;
    StartWrite(&message_);
  }

  const int worker_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  Step step_ = Step(0);  // used by writes alone
  grpc::ByteBuffer message_;
  grpc::ByteBuffer incoming_;
  RealClock clock_;
  OneShot<bool> is_done_{&clock_};

  mutable Mutex mu_;
  int written_ ABSL_GUARDED_BY(mu_) = 0;
  int read_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_ending_ ABSL_GUARDED_BY(mu_) = false;
  bool is_held_ ABSL_GUARDED_BY(mu_) = true;
  grpc::Status status_ ABSL_GUARDED_BY(mu_);
};

int WrittenBy(const std::vector<std::unique_ptr<RudeClient>>& clients) {
  int sum = 0;
  for (const auto& client : clients) sum += client->written();
  return sum;
}

// Waits at most a minute for the condition. False: it did not come true.
bool BecomesTrue(const std::function<bool()>& is_true) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (!is_true() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
  return is_true();
}

// Returns after a second without any finished write.
void AwaitStandstill(const std::vector<std::unique_ptr<RudeClient>>& clients) {
  int before = -1;
  for (int now = 0; now != before || now < kClients; now = WrittenBy(clients)) {
    before = now;
    absl::SleepFor(absl::Seconds(1));
  }
}

struct IdleServer {
  std::string keys;  // its folder; empty: plaintext
  std::unique_ptr<ForkedProcess> process;
};

// The measured servers. They are forked before this process has threads.
class GrpcMemoryTest : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    TestKeys keys;
    keys.authority = MakeTestAuthority();
    keys.token = MakeToken();
    for (const bool is_tls : {false, false, true, true}) {
      const std::string dir = is_tls ? WriteTestKeys(keys) : "";
      auto serve = [dir](ForkedProcess::Parent& parent) { Serve(dir, parent); };
      idle_servers_.push_back({dir, std::make_unique<ForkedProcess>(serve)});
    }
  }
  static void TearDownTestSuite() { idle_servers_.clear(); }

  GrpcMemoryTest() {
    const bool is_tls = GetParam() == std::string("Tls");
    const auto idle =
        std::find_if(idle_servers_.begin(), idle_servers_.end(),
                     [is_tls](const IdleServer& server) { return server.keys.empty() != is_tls; });
    security_ = Secured(idle->keys, &clock_);
    server_ = std::move(idle->process);
    idle_servers_.erase(idle);
    address_ = server_->ReadLine();
    memory_before_ = PeakMemoryOf(*server_);
  }
  int64_t Grown() { return PeakMemoryOf(*server_) - memory_before_; }

  // Clients of the workers from `first` on. They share connections.
  std::vector<std::unique_ptr<RudeClient>> StartClients(int first) {
    std::vector<std::unique_ptr<RudeClient>> clients;
    std::shared_ptr<grpc::Channel> channel;
    for (int i = 0; i < kClients; ++i) {
      if (i % kStreamsPerConnection == 0) channel = MakeChannel(address_, *security_);
      clients.push_back(std::make_unique<RudeClient>(first + i, *security_, channel));
    }
    return clients;
  }

  RealClock clock_;
  SecurityPointer security_;
  std::unique_ptr<ForkedProcess> server_;
  std::string address_;
  int64_t memory_before_ = 0;

 private:
  static inline std::vector<IdleServer> idle_servers_;
};

INSTANTIATE_TEST_SUITE_P(Grpc, GrpcMemoryTest, testing::Values("Plaintext", "Tls"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(GrpcMemoryTest, AServerOfStreamsThatNeverReadStaysWithinItsBoundAndServesOthers) {
  const std::vector<std::unique_ptr<RudeClient>> clients = StartClients(/*first=*/1);
  AwaitStandstill(clients);
  GrpcEndpoint polite(address_, &clock_, security_);
  for (Step step; step < Step(3); step = step + 1) {
    OneShot<ExchangeReply> reply(&clock_);
    polite.Exchange(
        MakeTestRequest(0, step, step + 1, 1.0f, kElements), [] {},
        [&reply](ExchangeReply answer) { reply.Set(std::move(answer)); });
    const ExchangeReply answer = reply.Wait();
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_GT(answer.version, step.value());
  }
  const std::vector<std::unique_ptr<RudeClient>> surplus = StartClients(/*first=*/1 + kClients);
  for (const auto& client : surplus) {
    ASSERT_TRUE(BecomesTrue([&client] { return !client->status().ok(); })) << "is not refused";
  }

  const int64_t grown = Grown();
  // Each stream holds waiting replies, one request, and the library's read-ahead.
  const int64_t bound =
      (kClients + 1) * (kMaxInflightBytes + kSliceBytes + GrpcServer::kStreamBytes);
  RecordProperty("grown_bytes", absl::StrCat(grown));
  RecordProperty("bound_bytes", absl::StrCat(bound));
  RecordProperty("written_bytes", absl::StrCat(WrittenBy(clients) * kSliceBytes));
  EXPECT_LE(grown, bound);
  EXPECT_GE(grown, kClients * kSliceBytes) << "the server was not put to the test";
  for (const auto& client : surplus) {
    const grpc::Status status = client->status();
    EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_NE(status.error_message().find("larger --max_connections"), std::string::npos)
        << status.error_message();
  }

  const int unread = clients[0]->written();
  clients[0]->BeginToRead();
  EXPECT_TRUE(BecomesTrue([&] { return clients[0]->read() >= 2 * unread; }));
}

// The end of a call with one compressed message of many zeros.
grpc::Status SendCompressed(const std::string& address, const GrpcSecurity& security,
                            const std::string& method, int mebibytes) {
  grpc::GenericStub stub(MakeChannel(address, security));
  grpc::ClientContext context;
  security.Authorize(/*audience=*/"", kExchangeCall, context);
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  const std::vector<grpc::Slice> zeros(mebibytes, grpc::Slice(std::string(1 << 20, '\0')));
  grpc::ByteBuffer message(zeros.data(), zeros.size());
  grpc::ByteBuffer reply;
  RealClock clock;
  OneShot<grpc::Status> ended(&clock);
  stub.UnaryCall(&context, method, grpc::StubOptions(), &message, &reply,
                 [&ended](grpc::Status status) { ended.Set(std::move(status)); });
  return ended.Wait();
}

TEST_P(GrpcMemoryTest, ACompressedMessageIsRefusedBeforeItIsDecompressed) {
  for (const char* const method :
       {"/capstan.v1.ParameterService/Exchange", "/capstan.v1.CoordinatorService/Heartbeat"}) {
    const grpc::Status status = SendCompressed(address_, *security_, method, /*mebibytes=*/64);
    EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED) << method << status.error_message();
  }
  const int64_t grown = Grown();
  RecordProperty("grown_bytes", absl::StrCat(grown));
  EXPECT_LE(grown, GrpcServer::kStreamBytes);
}

}  // namespace
}  // namespace capstan
