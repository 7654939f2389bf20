#include "common/membership/grpc_coordinator_client.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/fake_clock.h"
#include "common/base/one_shot.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"

namespace capstan {
namespace {

// Parks one heartbeat, or one change of the consistency, until the test releases it. Answers
// GetJob, and knows no other call.
class ParkingService : public v1::CoordinatorService::CallbackService {
 public:
  explicit ParkingService(Clock& clock) : parked_(&clock) {}

  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* context,
                                      const v1::HeartbeatRequest*, v1::HeartbeatReply*) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    parked_.Set(reactor);
    return reactor;
  }
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context, const v1::GetJobRequest*,
                                   v1::GetJobReply* reply) override {
    reply->set_version(version);
    reply->set_wire_version(wire_version);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  std::string version = kVersion;
  uint32_t wire_version = kWireVersion;

  grpc::ServerUnaryReactor* WaitForHeartbeat() { return parked_.Wait(); }

  grpc::ServerUnaryReactor* SetConsistency(grpc::CallbackServerContext* context,
                                           const v1::SetConsistencyRequest*,
                                           v1::SetConsistencyReply*) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    parked_.Set(reactor);
    return reactor;
  }
  grpc::ServerUnaryReactor* WaitForChange() { return parked_.Wait(); }

 private:
  OneShot<grpc::ServerUnaryReactor*> parked_;
};

class GrpcCoordinatorClientTest : public ::testing::Test {
 protected:
  GrpcCoordinatorClientTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    client_ = std::make_unique<GrpcCoordinatorClient>(absl::StrCat("127.0.0.1:", port_), clock_);
  }

  void StopServer() { server_->Shutdown(absl::ToChronoTime(clock_.Now())); }
  void SendHeartbeat() {
    CallCoordinator(
        *client_, v1::HeartbeatRequest(),
        [this](const absl::StatusOr<v1::HeartbeatReply>& reply) { answer_.Set(reply.status()); });
  }

  RealClock clock_;
  ParkingService service_{clock_};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  OneShot<absl::Status> answer_{&clock_};
  std::unique_ptr<GrpcCoordinatorClient> client_;
};

TEST_F(GrpcCoordinatorClientTest, UnreachableCoordinatorIsUnavailable) {
  StopServer();
  SendHeartbeat();
  EXPECT_EQ(answer_.Wait().code(), absl::StatusCode::kUnavailable);
}

TEST_F(GrpcCoordinatorClientTest, ParkedHeartbeatIsUnavailableWhenTheServerShutsDown) {
  SendHeartbeat();
  grpc::ServerUnaryReactor* const parked = service_.WaitForHeartbeat();
  std::thread shutdown([this] { StopServer(); });  // Returns when the service has answered.
  EXPECT_EQ(answer_.Wait().code(), absl::StatusCode::kUnavailable);
  parked->Finish(grpc::Status::OK);
  shutdown.join();
}

TEST_F(GrpcCoordinatorClientTest, CancelsOpenCallsWhenItIsDestroyed) {
  SendHeartbeat();
  grpc::ServerUnaryReactor* const parked = service_.WaitForHeartbeat();
  client_.reset();
  ASSERT_TRUE(answer_.is_set());
  EXPECT_EQ(answer_.Wait().code(), absl::StatusCode::kCancelled);
  parked->Finish(grpc::Status::OK);
}

TEST_F(GrpcCoordinatorClientTest, ACoordinatorOfAnotherVersionIsRefused) {
  const auto get_job = [this] {
    OneShot<absl::Status> answer(&clock_);
    CallCoordinator(
        *client_, v1::GetJobRequest(),
        [&answer](const absl::StatusOr<v1::GetJobReply>& reply) { answer.Set(reply.status()); });
    return answer.Wait();
  };
  EXPECT_TRUE(get_job().ok());
  service_.version = "9.9.9";
  EXPECT_EQ(get_job(), absl::FailedPreconditionError(absl::StrCat(
                           "coordinator 127.0.0.1:", port_, ": expected version ", kVersion,
                           " with messages of version 3, as this program has it, got 9.9.9 with 3; "
                           "use programs of one version on all machines")));
  service_.version = kVersion;
  service_.wire_version = 0;  // as of programs that do not tell it
  EXPECT_NE(get_job().message().find(absl::StrCat("got ", kVersion, " with 1;")),
            std::string::npos);
  service_.version = "";
  EXPECT_NE(get_job().message().find("got an older one"), std::string::npos);
}

TEST_F(GrpcCoordinatorClientTest, PassesErrorsOfTheServiceOn) {
  SendHeartbeat();
  service_.WaitForHeartbeat()->Finish(
      grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "worker 1 was\x1b[2J declared dead"));
  EXPECT_EQ(answer_.Wait(), absl::FailedPreconditionError("worker 1 was\\x1b[2J declared dead"))
      << "as it may be printed";
}

TEST_F(GrpcCoordinatorClientTest, AChangeThatIsNotAgreedOnIsNoUnreachableCoordinator) {
  // By its clock, the half minute is over in two seconds.
  FakeClock behind;
  behind.Advance(clock_.Now() - absl::Seconds(28) - behind.Now());
  GrpcCoordinatorClient client(absl::StrCat("127.0.0.1:", port_), behind);
  CallCoordinator(client, v1::SetConsistencyRequest(),
                  [this](const absl::StatusOr<v1::SetConsistencyReply>& reply) {
                    answer_.Set(reply.status());
                  });
  const absl::Status status = answer_.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << "so that nobody tries again";
  EXPECT_NE(status.message().find("has not told for 30s that all servers have agreed"),
            std::string::npos)
      << status;
  service_.WaitForChange()->Finish(grpc::Status::OK);
}

TEST_F(GrpcCoordinatorClientTest, TellsWhenSomethingElseListensThere) {
  CallCoordinator(
      *client_, v1::GetStatusRequest(),
      [this](const absl::StatusOr<v1::GetStatusReply>& reply) { answer_.Set(reply.status()); });
  const absl::Status status = answer_.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("check that --coordinator is right"), std::string::npos);
}

}  // namespace
}  // namespace capstan
