#include "server/coordinator/grpc_coordinator_service.h"

#include <glog/logging.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/one_shot.h"
#include "common/base/printable_text.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/membership/grpc_coordinator_client.h"
#include "common/membership/member_agent.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/trust/job_token.h"
#include "server/coordinator/coordinator.h"

namespace capstan {
namespace {

// A real coordinator of a job with one server and one worker, behind a real connection.
class GrpcCoordinatorServiceTest : public ::testing::Test {
 protected:
  GrpcCoordinatorServiceTest() {
    Coordinator::Options options;
    options.job.set_name("small");
    options.job.mutable_cluster()->set_num_servers(1);
    options.job.mutable_cluster()->set_num_workers(1);
    options.job.mutable_cluster()->set_shard_count(3);
    options.job_fingerprint = 99;
    coordinator_ = std::make_unique<Coordinator>(std::move(options), clock_);
    service_ = std::make_unique<GrpcCoordinatorService>(
        *coordinator_, /*guard=*/nullptr,
        [this](const v1::AttendRequest& member, bool is_heartbeat) {
          if (!is_heartbeat && !broken_.is_set()) broken_.Set(member);
          coordinator_->NoteBroken(member, is_heartbeat);
        });
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.SetMaxReceiveMessageSize(static_cast<int>(v1::LimitsSpec().message_bytes()));
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
    client_ = std::make_unique<GrpcCoordinatorClient>(std::vector<std::string>{address_}, clock_);
  }

  template <typename Request>
  absl::StatusOr<ReplyOf<Request>> Call(const Request& request) {
    return AwaitReply(*client_, request, clock_);
  }

  absl::Status RegisterBoth(int num_tables = 1) {
    v1::RegisterServerRequest server;
    server.set_incarnation(1);
    server.set_address("127.0.0.1:4567");
    const auto server_reply = Call(server);
    if (!server_reply.ok()) return server_reply.status();
    v1::RegisterWorkerRequest worker;
    worker.set_incarnation(2);
    for (int i = 0; i < num_tables; ++i) {
      v1::TableSpec* table = worker.add_tables();
      table->set_name(absl::StrCat("base_model.model.model.layers.", i / 384, ".mlp.experts.",
                                   i % 384, ".a_projection_with_a_long_name.lora_A.weight"));
      table->add_shape(4);
      table->mutable_optimizer()->set_learning_rate(0.1);
    }
    return Call(worker).status();
  }

  v1::JobView Heartbeat(v1::HeartbeatRequest::Role role, uint64_t view_version,
                        int64_t steps_done = 0) {
    v1::HeartbeatRequest request;
    request.set_role(role);
    request.set_incarnation(role == v1::HeartbeatRequest::SERVER ? 1 : 2);
    request.set_view_version(view_version);
    request.mutable_progress()->set_steps_done(steps_done);
    request.mutable_progress()->set_steps_total(5);
    const auto reply = Call(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? ViewOf(*reply).value() : v1::JobView();
  }

  RealClock clock_;
  OneShot<v1::AttendRequest> broken_{&clock_};  // the first one
  std::string address_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<GrpcCoordinatorService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<GrpcCoordinatorClient> client_;
};

TEST_F(GrpcCoordinatorServiceTest, CarriesAJobFromBeginningToEnd) {
  const auto job = Call(v1::GetJobRequest());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->job().name(), "small");
  EXPECT_EQ(job->job_fingerprint(), 99u);
  ASSERT_TRUE(RegisterBoth().ok());
  v1::JobView view = Heartbeat(v1::HeartbeatRequest::SERVER, /*view_version=*/0);
  EXPECT_EQ(view.phase(), v1::PLACING);
  view = Heartbeat(v1::HeartbeatRequest::SERVER, view.version());
  EXPECT_EQ(view.phase(), v1::TRAINING);
  view = Heartbeat(v1::HeartbeatRequest::WORKER, view.version(), /*steps_done=*/5);
  EXPECT_EQ(view.phase(), v1::EVALUATING);
  v1::ReportResultRequest result;
  result.set_incarnation(2);
  EXPECT_TRUE(Call(result).ok());
  const auto status = Call(v1::GetStatusRequest());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->view().phase(), v1::DONE);
  EXPECT_EQ(status->progress(0).steps_done(), 5);
}

TEST_F(GrpcCoordinatorServiceTest, AMemberOfAnotherWireVersionIsRefusedByName) {
  const auto stub = v1::CoordinatorService::NewStub(
      grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  v1::RegisterWorkerRequest worker;
  worker.set_incarnation(2);
  v1::RegisterServerRequest server;
  server.set_incarnation(1);
  server.set_address("127.0.0.1:4567");
  for (const uint32_t version : {0u, kWireVersion + 1}) {  // 0: programs that do not tell it
    worker.set_wire_version(version);
    server.set_wire_version(version);
    v1::RegisterReply reply;
    grpc::ClientContext of_worker, of_server;
    const grpc::Status status = stub->RegisterWorker(&of_worker, worker, &reply);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_NE(status.error_message().find(
                  absl::StrCat("expected a member with messages of version ", kWireVersion)),
              std::string::npos)
        << status.error_message();
    EXPECT_NE(status.error_message().find(absl::StrCat("got ", version == 0 ? 1 : version, ";")),
              std::string::npos)
        << status.error_message();
    EXPECT_EQ(stub->RegisterServer(&of_server, server, &reply).error_code(),
              grpc::StatusCode::FAILED_PRECONDITION);
  }
  EXPECT_TRUE(RegisterBoth().ok());
}

TEST_F(GrpcCoordinatorServiceTest, CarriesFortyThousandTables) {
  ASSERT_TRUE(RegisterBoth(/*num_tables=*/40'000).ok());
  const v1::JobView view = Heartbeat(v1::HeartbeatRequest::SERVER, /*view_version=*/0);
  EXPECT_EQ(view.tables_size(), 40'000);
  EXPECT_GT(view.ByteSizeLong(), 4u << 20) << "more than gRPC takes by default";
}

TEST_F(GrpcCoordinatorServiceTest, TellsWhatAModelWithMoreTablesNeeds) {
  const absl::Status status = RegisterBoth(/*num_tables=*/200'000);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << "no worker waits for its end";
  EXPECT_NE(status.message().find("needs a job with a larger limits.message_bytes"),
            std::string::npos)
      << status;
}

TEST_F(GrpcCoordinatorServiceTest, CarriesAFailureWithALongReasonInShort) {
  ASSERT_TRUE(RegisterBoth().ok());
  ReportFailure(*client_, v1::HeartbeatRequest::WORKER, /*id=*/0, Incarnation(2),
                absl::UnknownError("ValueError: " + std::string(6 << 20, 'x')), clock_);
  const v1::JobView view = Heartbeat(v1::HeartbeatRequest::SERVER, 0);
  EXPECT_EQ(view.phase(), v1::FAILED);
  EXPECT_EQ(view.reason().substr(0, 22), "worker 0: ValueError: ");
  EXPECT_LE(view.reason().size(), kMostTextBytes);
}

TEST_F(GrpcCoordinatorServiceTest, CutsALongReasonOfAnotherClient) {
  ASSERT_TRUE(RegisterBoth().ok());
  v1::ReportFailureRequest failure;
  failure.set_role(v1::HeartbeatRequest::WORKER);
  failure.set_incarnation(2);
  failure.set_reason(std::string(1 << 20, '\x01'));
  EXPECT_TRUE(Call(failure).ok());
  EXPECT_LE(Heartbeat(v1::HeartbeatRequest::SERVER, 0).reason().size(), kMostTextBytes);
}

TEST_F(GrpcCoordinatorServiceTest, CarriesAFailure) {
  ASSERT_TRUE(RegisterBoth().ok());
  v1::ReportFailureRequest failure;
  failure.set_role(v1::HeartbeatRequest::WORKER);
  failure.set_incarnation(2);
  failure.set_reason("disk full");
  EXPECT_TRUE(Call(failure).ok());
  EXPECT_EQ(Heartbeat(v1::HeartbeatRequest::SERVER, 0).reason(), "worker 0: disk full");
}

TEST_F(GrpcCoordinatorServiceTest, CarriesItsClock) {
  const absl::Time before = clock_.Now();
  const auto reply = Call(v1::ReadClockRequest());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_GE(absl::FromUnixNanos(reply->nanoseconds()), before);
  EXPECT_LE(absl::FromUnixNanos(reply->nanoseconds()), clock_.Now());
}

TEST_F(GrpcCoordinatorServiceTest, CarriesErrors) {
  const auto reply = Call(v1::HeartbeatRequest());
  EXPECT_EQ(reply.status(), absl::InvalidArgumentError("role 0 is not SERVER or WORKER"));
}

// Between the answer to a heartbeat and the next one there is another call that breaks.
TEST_F(GrpcCoordinatorServiceTest, AMemberWhoseHeartbeatsHaveBeenAnsweredIsMissedAtOnce) {
  ASSERT_TRUE(RegisterBoth().ok());
  const v1::JobView view = Heartbeat(v1::HeartbeatRequest::WORKER, 0);
  EXPECT_GT(Heartbeat(v1::HeartbeatRequest::SERVER, 0).version(), 0u);
  Heartbeat(v1::HeartbeatRequest::WORKER, view.version());
  EXPECT_FALSE(broken_.is_set());
  client_.reset();
  const v1::AttendRequest member = broken_.Wait();
  EXPECT_EQ(member.incarnation(), member.role() == v1::HeartbeatRequest::SERVER ? 1u : 2u);
}

TEST_F(GrpcCoordinatorServiceTest, ShutsDownWhileAHeartbeatIsParked) {
  ASSERT_TRUE(RegisterBoth().ok());
  const v1::JobView view = Heartbeat(v1::HeartbeatRequest::WORKER, 0);
  v1::HeartbeatRequest request;
  request.set_role(v1::HeartbeatRequest::WORKER);
  request.set_incarnation(2);
  request.set_view_version(view.version());
  OneShot<absl::Status> answer(&clock_);
  CallCoordinator(*client_, request, [&](const absl::StatusOr<v1::HeartbeatReply>& reply) {
    answer.Set(reply.status());
  });
  server_->Shutdown(absl::ToChronoTime(clock_.Now()));
  EXPECT_EQ(answer.Wait().code(), absl::StatusCode::kUnavailable);
}

// Answers a call when the test says so, and nothing else.
class ParkingCoordinator : public CoordinatorEndpoint {
 public:
  explicit ParkingCoordinator(Clock& clock) : parked_(&clock) {}

  void Call(CoordinatorRequest /*request*/, Callback<CoordinatorReply> done) override {
    parked_.Set(std::move(done));
  }
  // Waits for the call.
  Callback<CoordinatorReply> TakeParked() { return parked_.Wait(); }

 private:
  OneShot<Callback<CoordinatorReply>> parked_;
};

// With a token, which calls over plaintext prove.
std::shared_ptr<const GrpcSecurity> SecurityWithToken(Clock* clock) {
  std::string folder = testing::TempDir() + "/keys-XXXXXX";
  CHECK(mkdtemp(folder.data()) != nullptr);
  std::ofstream(folder + "/token") << MakeToken() << "\n";
  chmod((folder + "/token").c_str(), 0600);
  return GrpcSecurity::Open({folder, /*is_insecure=*/true, clock}).value();
}

// The call Attend over a real connection.
class AttendTest : public ::testing::Test {
 protected:
  AttendTest() {
    security_->Authorize(guard_.audience(), "Attend", context_);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = v1::CoordinatorService::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }
  // Each call is over once it returns.
  ~AttendTest() override { server_->Shutdown(); }

  void Send() {
    request_.set_role(v1::HeartbeatRequest::WORKER);
    request_.set_id(3);
    request_.set_incarnation(7);
    stub_->async()->Attend(&context_, &request_, &reply_, [this](const grpc::Status& status) {
      answer_.Set(status.error_code());
    });
  }

  RealClock clock_;
  OneShot<v1::AttendRequest> broken_{&clock_};
  bool is_heartbeat_ = false;  // what has broken
  OneShot<grpc::StatusCode> answer_{&clock_};
  const std::shared_ptr<const GrpcSecurity> security_ = SecurityWithToken(&clock_);
  CallGuard guard_{{security_, &clock_}};
  ParkingCoordinator coordinator_{clock_};
  GrpcCoordinatorService service_{coordinator_, &guard_,
                                  [this](const v1::AttendRequest& member, bool is_heartbeat) {
                                    is_heartbeat_ = is_heartbeat;
                                    broken_.Set(member);
                                  }};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::CoordinatorService::Stub> stub_;
  grpc::ClientContext context_;
  v1::AttendRequest request_;
  v1::AttendReply reply_;
};

TEST_F(AttendTest, ACallThatBreaksIsReportedWithItsMember) {
  Send();
  auto done = coordinator_.TakeParked();
  EXPECT_FALSE(broken_.is_set());
  context_.TryCancel();
  const v1::AttendRequest member = broken_.Wait();
  EXPECT_EQ(member.role(), v1::HeartbeatRequest::WORKER);
  EXPECT_EQ(member.id(), 3u);
  EXPECT_EQ(member.incarnation(), 7u);
  EXPECT_FALSE(is_heartbeat_);
  done(CoordinatorReply(v1::AttendReply()));
  EXPECT_EQ(answer_.Wait(), grpc::StatusCode::CANCELLED);
}

TEST_F(AttendTest, SoIsAHeartbeatThatBreaks) {
  v1::HeartbeatRequest request;
  request.set_role(v1::HeartbeatRequest::WORKER);
  request.set_id(3);
  request.set_incarnation(7);
  v1::HeartbeatReply reply;
  grpc::ClientContext context;
  security_->Authorize(guard_.audience(), "Heartbeat", context);
  stub_->async()->Heartbeat(&context, &request, &reply, [this](const grpc::Status& status) {
    answer_.Set(status.error_code());
  });
  auto done = coordinator_.TakeParked();
  context.TryCancel();
  EXPECT_EQ(broken_.Wait().incarnation(), 7u);
  EXPECT_TRUE(is_heartbeat_);
  done(CoordinatorReply(v1::HeartbeatReply()));
  EXPECT_EQ(answer_.Wait(), grpc::StatusCode::CANCELLED);
}

TEST_F(AttendTest, ACallThatHasBeenAnsweredIsNot) {
  Send();
  coordinator_.TakeParked()(CoordinatorReply(v1::AttendReply()));
  EXPECT_EQ(answer_.Wait(), grpc::StatusCode::OK);
  stub_.reset();  // with its connection
  server_->Shutdown();
  server_->Wait();
  EXPECT_FALSE(broken_.is_set());
}

}  // namespace
}  // namespace capstan
