// Clients push more than the server granted, and never take its replies.
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/one_shot.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/exchange/request_parts.h"
#include "common/transport/grpc/grpc_setup.h"
#include "common/transport/ucx/ucx_protocol.h"
#include "common/transport/ucx/ucx_transport.h"
#include "common/wire/exchange_header.h"
#include "proto/ucx_service.grpc.pb.h"
#include "tests/process/forked_process.h"
#include "tests/process/peak_memory.h"
#include "tests/transport/test_shard_host.h"
#include "tests/transport/ucx_test_server.h"

namespace capstan {
namespace {

using Parent = ForkedProcess::Parent;

constexpr int kClients = 64;
constexpr uint64_t kElements = 256 << 10;
constexpr int64_t kSliceBytes = kElements * sizeof(float);
constexpr int64_t kMaxInflightBytes = 2 << 20;
constexpr int kPushes = 40;  // of each client: 20 times its grant

// Tells its address, then its peak memory on every request.
void Serve(Parent& parent) {
  KeepFreedMemory();
  RealClock clock;
  const auto host = MakeTestHost(ConsistencyMode::kAsync, kClients + 1, kElements);
  UcxTransport::Options options;
  options.clock = &clock;
  options.max_inflight_bytes = kMaxInflightBytes;
  const auto ucx = StartUcxTransport(options).value();
  const UcxTestServer listener(ucx.get(), host.get());
  parent.WriteLine(listener.address());
  while (!parent.ReadLine().empty()) parent.WriteLine(absl::StrCat(PeakMemoryBytes()));
}

int64_t PeakMemoryOf(ForkedProcess& server) {
  server.WriteLine("memory?");
  int64_t bytes = 0;
  EXPECT_TRUE(absl::SimpleAtoi(server.ReadLine(), &bytes));
  return bytes;
}

// Clients with the right messages (ucx_protocol.h), but against all their rules.
class RudeClients {
 public:
  // A stub of the server at `address`.
  explicit RudeClients(std::string address) : address_(std::move(address)) {
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM;
    ucp_context_h context;
    EXPECT_EQ(ucp_init(&params, nullptr, &context), UCS_OK);
    ucp_worker_params_t worker = {};
    EXPECT_EQ(ucp_worker_create(context, &worker, &worker_), UCS_OK);
    for (const unsigned id : {kUcxMessage, kUcxGrant}) {
      ucp_am_handler_param_t handler = {};
      handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                           UCP_AM_HANDLER_PARAM_FIELD_ARG;
      handler.id = id;
      handler.cb = id == kUcxGrant ? &OnGrant : &Ignore;
      handler.arg = this;
      EXPECT_EQ(ucp_worker_set_am_recv_handler(worker_, &handler), UCS_OK);
    }
  }

  // Another client. It greets with `greeting` and the secret. The server answers only a greeting
  // with a reply endpoint.
  void Connect(UcxGreeting greeting = {}, unsigned flags = UCP_AM_SEND_FLAG_REPLY) {
    streams_.push_back(std::make_unique<Stream>());
    Stream& stream = *streams_.back();
    stream.stub = v1::UcxService::NewStub(MakeGrpcChannel(address_, *NoSecurity()));
    stream.reader = stream.stub->OpenUcx(&stream.context, v1::OpenUcxRequest());
    v1::UcxInvitation invitation;
    EXPECT_TRUE(stream.reader->Read(&invitation));
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.address = reinterpret_cast<const ucp_address_t*>(invitation.worker_address().data());
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    ucp_ep_h endpoint;
    EXPECT_EQ(ucp_ep_create(worker_, &params, &endpoint), UCS_OK);
    endpoints_.push_back(endpoint);
    if (greeting.secret.empty()) greeting.secret = invitation.secret();
    Send(endpoint, kUcxGreeting, EncodeGreeting(greeting), Payload(), flags);
  }
  int grants() const { return grants_; }
  void AwaitGrants() {
    while (grants_ < static_cast<int>(endpoints_.size())) Progress();
  }

  void AwaitReply() {
    while (replies_ == 0) Progress();
  }
  // Waits for the end of a client's stream, and returns its status. UCX makes no progress
  // meanwhile.
  grpc::Status EndOf(int client) {
    v1::UcxInvitation invitation;
    while (streams_[client]->reader->Read(&invitation)) {
    }
    return streams_[client]->reader->Finish();
  }

  void Pull(int client) {
    const ExchangeRequest request = MakeTestRequest(client, std::nullopt, Step(0), 0.0f, kElements);
    std::string header;
    EncodeHeader(/*request_id=*/1, request, &header);
    Send(endpoints_[client], kUcxMessage, header, Payload());
  }

  // Push number `step` of every client, whether it was granted or not.
  void PushAll(Step step) {
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      ExchangeRequest request =
          MakeTestRequest(static_cast<int>(i), step, step + 1, 1.0f, kElements);
      std::string header;
      EncodeHeader(1 + step.value(), request, &header);
      Send(endpoints_[i], kUcxMessage, header, BroughtBy(request));
    }
  }
  void Progress() { ucp_worker_progress(worker_); }

 private:
  struct Stream {
    std::unique_ptr<v1::UcxService::Stub> stub;
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::UcxInvitation>> reader;
  };

  static ucs_status_t OnGrant(void* clients, const void*, size_t, void*, size_t,
                              const ucp_am_recv_param_t*) {
    ++static_cast<RudeClients*>(clients)->grants_;
    return UCS_OK;
  }
  // Neither takes a payload nor refuses it.
  static ucs_status_t Ignore(void* clients, const void*, size_t, void*, size_t,
                             const ucp_am_recv_param_t* param) {
    ++static_cast<RudeClients*>(clients)->replies_;
    return (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0 ? UCS_INPROGRESS : UCS_OK;
  }
  // Sent bytes stay unchanged to the end of the process.
  void Send(ucp_ep_h endpoint, unsigned id, std::string header, Payload payload,
            unsigned flags = UCP_AM_SEND_FLAG_REPLY) {
    kept_.push_back(std::make_unique<std::pair<std::string, Payload>>(header, payload));
    const auto& [kept_header, kept_payload] = *kept_.back();
    const bool is_empty = kept_payload.empty();
    ucp_request_param_t params = {};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = flags;
    ucp_am_send_nbx(endpoint, id, kept_header.data(), kept_header.size(),
                    is_empty ? nullptr : kept_payload.fragments()[0].data(),
                    kept_payload.size_bytes(), &params);
  }

  const std::string address_;
  ucp_worker_h worker_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<ucp_ep_h> endpoints_;
  std::vector<std::unique_ptr<std::pair<std::string, Payload>>> kept_;
  int grants_ = 0;
  int replies_ = 0;
};

// Pushes until it is killed. Tells the parent some time after UCX has taken everything.
void PushRudely(Parent& parent) {
  RudeClients clients(parent.ReadLine());
  for (int i = 0; i < kClients; ++i) clients.Connect();
  clients.AwaitGrants();
  for (Step step; step < Step(kPushes); step = step + 1) clients.PushAll(step);
  const absl::Time end = absl::Now() + absl::Seconds(3);
  while (absl::Now() < end) clients.Progress();
  parent.WriteLine("pushed");
  while (true) clients.Progress();
}

// Sends wrong greetings, and a right one at last. Tells the number of answered greetings once the
// last client has a reply: replies come after all grants.
void GreetWrongly(Parent& parent) {
  RudeClients clients(parent.ReadLine());
  clients.Connect(UcxGreeting(), /*flags=*/0);
  clients.Connect({UcxGreeting::kVersion, std::string(UcxGreeting::kSecretBytes, 'x')});
  clients.Connect({UcxGreeting::kVersion, "short"});
  clients.Connect({UcxGreeting::kVersion + 1, ""});
  clients.Connect();
  while (clients.grants() == 0) clients.Progress();
  clients.Pull(/*client=*/4);
  clients.AwaitReply();
  parent.WriteLine(absl::StrCat("greetings answered: ", clients.grants()));
  parent.WriteLine(clients.EndOf(/*client=*/3).error_message());
}

TEST(UcxGreetingTest, AGreetingWithoutAReplyEndpointASecretOrTheVersionIsNotAnswered) {
  ForkedProcess server(&Serve);
  ForkedProcess rude(&GreetWrongly);
  rude.WriteLine(server.ReadLine());
  ASSERT_EQ(rude.ReadLine(), "greetings answered: 1");
  EXPECT_EQ(rude.ReadLine(),
            "the server speaks version 1 of the protocol over UCX, and the worker version 2");
  EXPECT_GT(PeakMemoryOf(server), 0) << "the server is gone";
}

TEST(UcxMemoryTest, AServerOfClientsThatTakeMoreThanTheyAreGrantedStaysWithinItsBound) {
  ForkedProcess server(&Serve);
  ForkedProcess rude(&PushRudely);
  const std::string address = server.ReadLine();
  const int64_t memory_before = PeakMemoryOf(server);
  rude.WriteLine(address);
  ASSERT_EQ(rude.ReadLine(), "pushed");

  const int64_t grown = PeakMemoryOf(server) - memory_before;
  // For each client: its grant, its untaken replies, and UCX's own endpoint.
  const int64_t of_endpoint = 1 << 20;
  const int64_t bound = kClients * (2 * kMaxInflightBytes + of_endpoint);
  RecordProperty("grown_bytes", absl::StrCat(grown));
  RecordProperty("bound_bytes", absl::StrCat(bound));
  EXPECT_LE(grown, bound);
  EXPECT_GE(grown, kClients * kSliceBytes) << "the server was not put to the test";

  RealClock clock;
  UcxTransport::Options options;
  options.clock = &clock;
  const auto ucx = StartUcxTransport(options).value();
  const auto polite = ucx->Connect(address);
  OneShot<ExchangeReply> reply(&clock);
  polite->Exchange(
      MakeTestRequest(kClients, Step(0), Step(1), 1.0f, kElements), [] {},
      [&reply](ExchangeReply answer) { reply.Set(std::move(answer)); });
  EXPECT_TRUE(reply.Wait().status.ok());
}

}  // namespace
}  // namespace capstan
