// Each call of each port, with a token of each right.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/base/readiness.h"
#include "common/base/real_clock.h"
#include "common/metrics/metrics_sources.h"
#include "common/net/test_client.h"
#include "common/process/process_listeners.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_replica_service.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/ucx/grpc_ucx_service.h"
#include "common/trust/call_rights.h"
#include "proto/coordinator_service.grpc.pb.h"
#include "proto/parameter_service.grpc.pb.h"
#include "proto/reader_service.grpc.pb.h"
#include "proto/replica_service.grpc.pb.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/grpc_coordinator_service.h"
#include "server/page/live_page.h"
#include "server/service/grpc_reader_service.h"
#include "server/service/parameter_server.h"
#include "tests/transport/test_keys.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr Right kAllRights[] = {Right::kLook, Right::kRead, Right::kTakePart, Right::kOperate};

// Who may do what, written down once more: the table of the code must say the same.
const std::map<std::string, std::optional<Right>>& Expected() {
  static const auto& expected = *new std::map<std::string, std::optional<Right>>{
      {"CoordinatorService/GetJob", Right::kLook},
      {"CoordinatorService/GetStatus", Right::kLook},
      {"CoordinatorService/ReadClock", Right::kLook},
      {"CoordinatorService/RegisterServer", Right::kOperate},
      {"CoordinatorService/RegisterWorker", Right::kTakePart},
      {"CoordinatorService/Heartbeat", Right::kTakePart},
      {"CoordinatorService/Attend", Right::kTakePart},
      {"CoordinatorService/ReportFailure", Right::kTakePart},
      {"CoordinatorService/ReportResult", Right::kTakePart},
      {"CoordinatorService/SetConsistency", Right::kOperate},
      {"CoordinatorService/Checkpoint", Right::kOperate},
      {"ParameterService/Exchange", Right::kTakePart},
      {"ReaderService/ReadRows", Right::kRead},
      {"ReplicaService/Replicate", Right::kOperate},
      {"UcxService/OpenUcx", Right::kTakePart},
      {"GET /", std::nullopt},
      {"GET /live.css", std::nullopt},
      {"GET /live.js", std::nullopt},
      {"GET /d3.js", std::nullopt},
      {"GET /status.json", Right::kLook},
      {"POST /login", std::nullopt},
      {"POST /logout", std::nullopt},
      {"POST /consistency", Right::kOperate},
      {"GET /healthz", std::nullopt},
      {"GET /readyz", std::nullopt},
      {"GET /metrics", std::nullopt},
  };
  return expected;
}

std::string NameOf(const std::string& call) { return call.substr(call.find('/') + 1); }
bool IsHttp(const std::string& call) { return absl::StrContains(call, ' '); }

// Ends each guest at once.
class ClosedListener : public UcxTransport::Listener {
 public:
  void Invite(std::shared_ptr<UcxTransport::Guest> guest) override {
    guest->OnEnd(absl::UnavailableError("not in this test"));
  }
  void End(UcxTransport::Guest* /*guest*/) override {}
  void EndAll() override {}
};

// A coordinator and a server in one process, with keys.
class RightsTest : public testing::Test {
 protected:
  RightsTest() {
    keys_.authority = MakeTestAuthority();
    keys_.token = MakeToken();
    Coordinator::Options options;
    options.job.mutable_cluster()->set_num_servers(1);
    options.job.mutable_cluster()->set_num_workers(1);
    coordinator_ = std::make_unique<Coordinator>(std::move(options), clock_);
    CallGuard::Options guarded;
    guarded.clock = &clock_;
    guarded.security = GrpcSecurity::Open({WriteTestKeys(keys_), false, &clock_}).value();
    guard_ = std::make_unique<CallGuard>(guarded);
    coordinator_service_ = std::make_unique<GrpcCoordinatorService>(*coordinator_, guard_.get());
    exchange_service_ = std::make_unique<GrpcParameterService>(host_.get(), 64 << 20, ReplyOrder(),
                                                               /*streams=*/nullptr, guard_.get());
    replica_service_ =
        std::make_unique<GrpcReplicaService>(host_.get(), /*streams=*/nullptr, guard_.get());
    reader_service_ = std::make_unique<GrpcReaderService>(&parameter_server_, guard_.get());
    ucx_service_ = std::make_unique<GrpcUcxService>(&listener_, /*streams=*/nullptr, guard_.get());
    GrpcServer::Options served;
    served.guard = guard_.get();
    served.max_connections = 64;
    server_ = GrpcServer::Start("127.0.0.1:0",
                                {coordinator_service_.get(), exchange_service_.get(),
                                 reader_service_.get(), replica_service_.get(), ucx_service_.get()},
                                served)
                  .value();
    for (const Right right : kAllRights) {
      TestKeys with_right = keys_;
      with_right.token = TokenOf(right);
      securities_[right] = GrpcSecurity::Open({WriteTestKeys(with_right), false, &clock_}).value();
    }
  }

  std::string TokenOf(Right right) const {
    return right == Right::kOperate ? keys_.token : WeakerToken(keys_.token, right);
  }

  grpc::Status Call(const std::string& call, Right right) {
    return CallMethod(absl::StrCat("capstan.v1.", call), right);
  }
  // The status of the method with an empty message.
  grpc::Status CallMethod(const std::string& path, Right right) {
    const SecurityPointer& security = securities_[right];
    grpc::GenericStub stub(
        grpc::CreateChannel(server_->address(), security->channel_credentials()));
    grpc::ClientContext context;
    security->Authorize(server_->address(), NameOf(path), context);
    grpc::CompletionQueue queue;
    const grpc::Slice empty("");
    const auto call = stub.PrepareUnaryCall(&context, absl::StrCat("/", path),
                                            grpc::ByteBuffer(&empty, 1), &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
    queue.Shutdown();
    return status;
  }

  // The answer of the live page to a call. No right: without having logged in.
  HttpAnswer AskPage(const std::string& call, std::optional<Right> right) {
    LivePage::Options options;
    options.coordinator = coordinator_.get();
    options.clock = &clock_;
    options.log = &log_;
    options.tokens = [this] { return guard_->security()->tokens(); };
    options.is_tls = true;
    options.host = "localhost";
    LivePage page(options);
    HttpRequest request;
    request.host = "localhost:4080";
    request.origin = "https://localhost:4080";
    request.method = "POST";
    if (right.has_value()) {
      request.path = "/login";
      request.fields = {{"token", TokenOf(*right)}};
      for (const auto& [name, value] : page.Answer(request).headers) {
        if (name == "Set-Cookie") request.cookie = value.substr(0, value.find(';'));
      }
    }
    const std::vector<std::string> parts = absl::StrSplit(call, ' ');
    request.method = parts[0];
    request.path = parts[1];
    request.fields = {{"mode", "none"}};
    return page.Answer(request);
  }

  RealClock clock_;
  LogRing log_;
  TestKeys keys_;
  ClosedListener listener_;
  std::map<Right, SecurityPointer> securities_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<ShardHost> host_ =
      MakeTestHost(ConsistencyMode::kAsync, /*num_workers=*/1, /*elements=*/4);
  ParameterServer parameter_server_ = ParameterServer(ParameterServer::Options());
  std::unique_ptr<CallGuard> guard_;
  std::unique_ptr<GrpcCoordinatorService> coordinator_service_;
  std::unique_ptr<GrpcParameterService> exchange_service_;
  std::unique_ptr<GrpcReaderService> reader_service_;
  std::unique_ptr<GrpcReplicaService> replica_service_;
  std::unique_ptr<GrpcUcxService> ucx_service_;
  std::unique_ptr<GrpcServer> server_;  // Destroyed first.
};

TEST_F(RightsTest, EachCallOfAMemberNeedsItsRight) {
  for (const auto& [call, needed] : Expected()) {
    if (IsHttp(call)) continue;
    for (const Right right : kAllRights) {
      const grpc::Status status = Call(call, right);
      const bool is_denied = status.error_code() == grpc::PERMISSION_DENIED;
      EXPECT_EQ(is_denied, right < *needed)
          << call << " with the right " << RightName(right) << ": " << status.error_message();
      EXPECT_NE(status.error_code(), grpc::UNAUTHENTICATED) << status.error_message();
      EXPECT_NE(status.error_code(), grpc::UNIMPLEMENTED) << call;
    }
  }
}

TEST_F(RightsTest, EachCallOfTheLivePageNeedsItsRight) {
  for (const auto& [call, needed] : Expected()) {
    if (!IsHttp(call) || call == "GET /metrics" || absl::EndsWith(call, "z")) continue;
    // The login itself is refused without a token of the job.
    if (call != "POST /login") {
      EXPECT_EQ(AskPage(call, std::nullopt).status == 401, needed.has_value()) << call;
    }
    for (const Right right : kAllRights) {
      const int status = AskPage(call, right).status;
      EXPECT_NE(status, 404) << call;
      if (call == "POST /login") continue;
      EXPECT_EQ(status == 403, needed.has_value() && right < *needed)
          << call << " with the right " << RightName(right) << ": " << status;
    }
  }
}

TEST_F(RightsTest, ProbesAndMetricsAskForNoToken) {
  Readiness readiness{absl::OkStatus()};
  MetricsSources sources;
  const auto listeners =
      StartProcessListeners("127.0.0.1:0", "127.0.0.1:0", readiness, sources, &clock_);
  ASSERT_TRUE(listeners.ok()) << listeners.status();
  for (const std::string path : {"/healthz", "/readyz", "/metrics"}) {
    TestClient client(path == "/metrics" ? listeners->metrics->address()
                                         : listeners->health->address());
    client.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: me\r\n\r\n"));
    EXPECT_THAT(client.ReadToEnd(), HasSubstr(" 200 OK")) << path;
  }
}

// They would ask for no token.
TEST_F(RightsTest, ThePortOfMembersHasNeitherHealthNorReflection) {
  for (const char* const path : {"grpc.health.v1.Health/Check",
                                 "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(CallMethod(path, Right::kOperate).error_code(), grpc::UNIMPLEMENTED) << path;
  }
}

TEST_F(RightsTest, NoCallIsForgotten) {
  std::set<std::string> expected, in_table, in_services;
  for (const auto& [call, right] : Expected()) {
    const std::string name = IsHttp(call) ? call : NameOf(call);
    expected.insert(name);
    const CallRight* const row = FindCall(name);
    ASSERT_NE(row, nullptr) << call;
    EXPECT_EQ(row->right, right) << call;
    if (!IsHttp(call)) in_services.insert(call);
  }
  for (const CallRight& row : CallRights()) in_table.emplace(row.call);
  EXPECT_EQ(in_table, expected);
  std::set<std::string> described;
  const auto* const pool = google::protobuf::DescriptorPool::generated_pool();
  for (const google::protobuf::FileDescriptor* file :
       {v1::GetJobRequest::descriptor()->file(), v1::ReadRowsRequest::descriptor()->file(),
        v1::OpenUcxRequest::descriptor()->file(),
        pool->FindFileByName("proto/parameter_service.proto"),
        pool->FindFileByName("proto/replica_service.proto")}) {
    ASSERT_NE(file, nullptr);
    for (int i = 0; i < file->service_count(); ++i) {
      const google::protobuf::ServiceDescriptor& service = *file->service(i);
      for (int j = 0; j < service.method_count(); ++j) {
        described.insert(absl::StrCat(service.name(), "/", service.method(j)->name()));
      }
    }
  }
  EXPECT_EQ(described, in_services);
}

// "capstan set, capstan checkpoint" as the guide has it: each command between backquotes.
TEST_F(RightsTest, TheGuideNamesTheCallersOfEachRight) {
  std::stringstream guide;
  guide << std::ifstream("deploy/guide/security.md").rdbuf();
  for (const Right right : kAllRights) {
    const std::string begin = absl::StrCat("\n| `", RightName(right), "`");
    const size_t at = guide.str().find(begin);
    ASSERT_NE(at, std::string::npos) << begin;
    const std::string row =
        absl::StrReplaceAll(guide.str().substr(at + 1, guide.str().find('\n', at + 1) - at - 1),
                            {{"`", ""}, {"[", ""}, {"](watching.md#live-page)", ""}});
    EXPECT_THAT(row, HasSubstr(CallersWith(right)));
  }
}

}  // namespace
}  // namespace capstan
