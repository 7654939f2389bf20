#include "deploy/cli/grpc_status_client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/real_clock.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

class FakeCoordinator : public v1::CoordinatorService::Service {
 public:
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusReply* reply) override {
    reply->set_job_name("digits\x1b[2J");
    reply->mutable_view()->set_reason("\r");
    reply->mutable_view()->add_servers()->set_address("\a");
    return grpc::Status::OK;
  }
  grpc::Status ReportFailure(grpc::ServerContext*, const v1::ReportFailureRequest* request,
                             v1::ReportFailureReply*) override {
    reported = *request;
    return grpc::Status::OK;
  }

  v1::ReportFailureRequest reported;
};

std::unique_ptr<grpc::Server> Serve(FakeCoordinator& coordinator, int& port) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&coordinator);
  return builder.BuildAndStart();
}

TEST(GrpcStatusClientTest, ReplyOfTheCoordinatorIsReturnedAsItMayBePrinted) {
  RealClock clock;
  FakeCoordinator coordinator;
  int port = 0;
  const std::unique_ptr<grpc::Server> server = Serve(coordinator, port);
  const auto reply = GrpcStatusClient(absl::StrCat("127.0.0.1:", port), &clock).GetStatus();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->job_name(), "digits\\x1b[2J");
  EXPECT_EQ(reply->view().reason(), "\\x0d");
  EXPECT_EQ(reply->view().servers(0).address(), "\\x07");
}

TEST(GrpcStatusClientTest, FailureBeforeRegistrationIsReported) {
  RealClock clock;
  FakeCoordinator coordinator;
  int port = 0;
  const std::unique_ptr<grpc::Server> server = Serve(coordinator, port);
  GrpcStatusClient client(absl::StrCat("127.0.0.1:", port), &clock);
  const absl::Status status = client.ReportEarlyFailure(v1::HeartbeatRequest::WORKER, "no memory");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(coordinator.reported.role(), v1::HeartbeatRequest::WORKER);
  EXPECT_EQ(coordinator.reported.reason(), "no memory");
  EXPECT_TRUE(coordinator.reported.before_registering());
}

TEST(GrpcStatusClientTest, AddressWhereNobodyListensIsAnErrorThatNamesIt) {
  RealClock clock;
  const auto reply = GrpcStatusClient("127.0.0.1:1", &clock).GetStatus();
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("127.0.0.1:1"));
}

TEST(GrpcStatusClientTest, SeveralAddressesAreAskedInTurn) {
  RealClock clock;
  FakeCoordinator coordinator;
  int port = 0;
  const std::unique_ptr<grpc::Server> server = Serve(coordinator, port);
  GrpcStatusClient client(absl::StrCat("127.0.0.1:1,127.0.0.1:", port), &clock);
  for (int i = 0; i < 2; ++i) {
    const auto reply = client.GetStatus();
    ASSERT_TRUE(reply.ok()) << reply.status();
  }
  EXPECT_TRUE(client.ReportEarlyFailure(v1::HeartbeatRequest::WORKER, "no memory").ok());
}

TEST(GrpcStatusClientTest, IfNobodyAnswersAtAnyAddressTheErrorNamesAll) {
  RealClock clock;
  const auto reply = GrpcStatusClient("127.0.0.1:1,127.0.0.1:2", &clock).GetStatus();
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(reply.status().message()),
              HasSubstr("coordinator 127.0.0.1:1,127.0.0.1:2: expected its status, got"));
}

}  // namespace
}  // namespace capstan
