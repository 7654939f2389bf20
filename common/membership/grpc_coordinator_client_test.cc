#include "common/membership/grpc_coordinator_client.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fake_clock.h"
#include "common/base/one_shot.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"

namespace capstan {
namespace {

using Addresses = std::vector<std::string>;

// Parks one heartbeat and one change of the consistency until the test releases it. Answers
// GetJob, and knows no other call.
class ParkingService : public v1::CoordinatorService::CallbackService {
 public:
  explicit ParkingService(Clock& clock) : parked_(&clock), parked_change_(&clock) {}

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
    *reply->mutable_job()->mutable_membership() = membership;
    ++num_jobs;
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  std::string version = kVersion;
  uint32_t wire_version = kWireVersion;
  v1::MembershipSpec membership;
  std::atomic<int> num_jobs = 0;  // that were told

  grpc::ServerUnaryReactor* WaitForHeartbeat() { return parked_.Wait(); }

  grpc::ServerUnaryReactor* SetConsistency(grpc::CallbackServerContext* context,
                                           const v1::SetConsistencyRequest*,
                                           v1::SetConsistencyReply*) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    parked_change_.Set(reactor);
    return reactor;
  }
  grpc::ServerUnaryReactor* WaitForChange() { return parked_change_.Wait(); }

 private:
  OneShot<grpc::ServerUnaryReactor*> parked_;
  OneShot<grpc::ServerUnaryReactor*> parked_change_;
};

class GrpcCoordinatorClientTest : public ::testing::Test {
 protected:
  GrpcCoordinatorClientTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    client_ = std::make_unique<GrpcCoordinatorClient>(Addresses{address()}, clock_);
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
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
  EXPECT_EQ(get_job(), absl::FailedPreconditionError(
                           absl::StrCat("coordinator 127.0.0.1:", port_, ": expected version ",
                                        kVersion, " with messages of version ", kWireVersion,
                                        ", as this program has it, got 9.9.9 with ", kWireVersion,
                                        "; "
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
  GrpcCoordinatorClient client(Addresses{address()}, behind);
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

// A coordinator that may be at one of two addresses, of which one has the service.
class SeveralAddressesTest : public GrpcCoordinatorClientTest {
 protected:
  static constexpr char kNobody[] = "127.0.0.1:1";

  absl::Status GetJob(GrpcCoordinatorClient& client) {
    return AwaitReply(client, v1::GetJobRequest(), clock_).status();
  }
};

TEST_F(SeveralAddressesTest, AnUnavailableOneMovesOnToTheNextAndTheErrorNamesIt) {
  GrpcCoordinatorClient client(Addresses{kNobody, address()}, clock_);
  const absl::Status first = GetJob(client);
  EXPECT_EQ(first.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(first.message().find("127.0.0.1:1: "), 0u) << first;
  EXPECT_TRUE(GetJob(client).ok());
  EXPECT_TRUE(GetJob(client).ok()) << "it stays where it was answered";
  EXPECT_EQ(service_.num_jobs, 2);
}

TEST_F(SeveralAddressesTest, CallsThatFailTogetherMoveOnOnce) {
  GrpcCoordinatorClient client(Addresses{kNobody, address()}, clock_);
  OneShot<absl::Status> first(&clock_), second(&clock_);
  for (OneShot<absl::Status>* answer : {&first, &second}) {
    CallCoordinator(client, v1::GetJobRequest(),
                    [answer](const auto& reply) { answer->Set(reply.status()); });
  }
  EXPECT_EQ(first.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(GetJob(client).ok());
}

TEST_F(SeveralAddressesTest, AfterTheLastComesTheFirst) {
  GrpcCoordinatorClient client(Addresses{address(), kNobody}, clock_);
  ASSERT_TRUE(GetJob(client).ok());
  StopServer();
  EXPECT_EQ(GetJob(client).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetJob(client).message().find("127.0.0.1:1: "), 0u);
  EXPECT_EQ(GetJob(client).message().find(address() + ": "), 0u);
}

TEST_F(SeveralAddressesTest, AHeartbeatMovesOnFromACoordinatorThatHangsWithinTheLease) {
  service_.membership.set_lease_seconds(0.2);
  service_.membership.set_heartbeat_seconds(0.05);
  GrpcCoordinatorClient client(Addresses{address(), kNobody}, clock_, /*timeout=*/absl::Hours(1));
  ASSERT_TRUE(GetJob(client).ok());
  CallCoordinator(client, v1::HeartbeatRequest(),
                  [this](const auto& reply) { answer_.Set(reply.status()); });
  grpc::ServerUnaryReactor* const parked = service_.WaitForHeartbeat();
  EXPECT_EQ(answer_.Wait().code(), absl::StatusCode::kUnavailable);
  parked->Finish(grpc::Status::OK);
  EXPECT_EQ(GetJob(client).message().find("127.0.0.1:1: "), 0u);
}

TEST_F(SeveralAddressesTest, MayBeDestroyedWithCallsAtAnAddressThatItHasLeft) {
  auto client = std::make_unique<GrpcCoordinatorClient>(Addresses{address(), kNobody}, clock_,
                                                        absl::Milliseconds(200));
  CallCoordinator(*client, v1::SetConsistencyRequest(),
                  [this](const absl::StatusOr<v1::SetConsistencyReply>& reply) {
                    answer_.Set(reply.status());
                  });
  grpc::ServerUnaryReactor* const parked = service_.WaitForChange();
  OneShot<absl::Status> late(&clock_);
  CallCoordinator(*client, v1::HeartbeatRequest(),
                  [&late](const auto& reply) { late.Set(reply.status()); });
  EXPECT_EQ(late.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetJob(*client).message().find("127.0.0.1:1: "), 0u) << "it has moved on";
  EXPECT_FALSE(answer_.is_set());
  client.reset();
  EXPECT_EQ(answer_.Wait().code(), absl::StatusCode::kCancelled);
  parked->Finish(grpc::Status::OK);
  service_.WaitForHeartbeat()->Finish(grpc::Status::OK);
}

TEST(ConnectToCoordinatorTest, FindsItAtAnyOfItsAddressesAndAfterItsReturnAtAnother) {
  RealClock clock;
  ParkingService services[] = {ParkingService(clock), ParkingService(clock)};
  std::unique_ptr<grpc::Server> servers[2];
  int ports[2] = {0, 0};
  const auto start = [&](int i) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", ports[i]),
                             grpc::InsecureServerCredentials(), &ports[i]);
    builder.RegisterService(&services[i]);
    servers[i] = builder.BuildAndStart();
  };
  start(0);
  start(1);
  CoordinatorOptions options = {absl::StrCat("127.0.0.1:", ports[0], ",127.0.0.1:", ports[1]),
                                absl::Minutes(2)};
  const auto coordinator = *ConnectToCoordinator(options, &clock, Random(/*seed=*/1));
  const auto is_found_at = [&](int i) {
    const int before = services[i].num_jobs;
    const absl::Status status = AwaitReply(*coordinator, v1::GetJobRequest(), clock).status();
    EXPECT_TRUE(status.ok()) << status;
    return services[i].num_jobs == before + 1;
  };
  EXPECT_TRUE(is_found_at(0));
  for (const int i : {0, 1, 0, 1}) {
    servers[i]->Shutdown(absl::ToChronoTime(clock.Now()));
    EXPECT_TRUE(is_found_at(1 - i));
    start(i);
  }
}

TEST(ConnectToCoordinatorTest, RefusesWrongAddressesAndDeadlines) {
  RealClock clock;
  const auto error_of = [&clock](const char* addresses, absl::Duration deadline) {
    const auto made = ConnectToCoordinator({addresses, deadline}, &clock, Random(/*seed=*/1));
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(made.status().message());
  };
  EXPECT_EQ(error_of("", absl::Seconds(1)), "expected --coordinator=HOST:PORT, got none");
  EXPECT_EQ(error_of("a:1,a:1", absl::Seconds(1)),
            "--coordinator: expected different addresses, got a:1 twice");
  EXPECT_EQ(error_of("a:1", absl::ZeroDuration()),
            "--rpc_deadline_seconds: expected more than 0, got 0");
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
