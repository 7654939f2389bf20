#include "deploy/cli/grpc_status_client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

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
};

TEST(GrpcStatusClientTest, ReplyOfTheCoordinatorIsReturnedAsItMayBePrinted) {
  RealClock clock;
  FakeCoordinator coordinator;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&coordinator);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto reply = GrpcStatusClient(absl::StrCat("127.0.0.1:", port), &clock).GetStatus();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->job_name(), "digits\\x1b[2J");
  EXPECT_EQ(reply->view().reason(), "\\x0d");
  EXPECT_EQ(reply->view().servers(0).address(), "\\x07");
}

TEST(GrpcStatusClientTest, AddressWhereNobodyListensIsAnErrorThatNamesIt) {
  RealClock clock;
  const auto reply = GrpcStatusClient("127.0.0.1:1", &clock).GetStatus();
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace capstan
