// Records of one server to another: over ReplicaService, and nowhere else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_endpoint.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_replica_service.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/transport/grpc/grpc_server.h"
#include "tests/transport/test_keys.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kFirst = 1;
constexpr uint64_t kUnexpected = 1000;  // the sequence of a record that is refused
constexpr uint64_t kParked = 2000;      // that of one that is not answered

// Keeps the requests, and answers them as a copy that has their records.
class KeepingEndpoint : public ParameterEndpoint {
 public:
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    ExchangeReply reply;
    {
      MutexLock lock(&mu_);
      requests_.push_back(request);
      if (const auto* record = std::get_if<ReplicaRecord>(&request.purpose)) {
        if (record->sequence == kParked) return parked_.push_back(std::move(done));
        reply.version = record->sequence;
        if (record->sequence == kUnexpected) {
          reply = ErrorReply(absl::FailedPreconditionError("expected record 8"), Epoch(3));
          reply.version = 7;
        }
      }
    }
    done(std::move(reply));
  }
  std::vector<ExchangeRequest> TakeRequests() {
    MutexLock lock(&mu_);
    return std::exchange(requests_, {});
  }
  bool has_parked() const {
    MutexLock lock(&mu_);
    return !parked_.empty();
  }

 private:
  mutable Mutex mu_;
  std::vector<ExchangeRequest> requests_ ABSL_GUARDED_BY(mu_);
  std::vector<ReplyCallback> parked_ ABSL_GUARDED_BY(mu_);
};

Payload PayloadOf(std::string bytes) {
  const auto owner = std::make_shared<std::string>(std::move(bytes));
  Payload payload(owner);
  payload.Append({reinterpret_cast<const uint8_t*>(owner->data()), owner->size()});
  return payload;
}

ExchangeRequest RecordOf(uint64_t sequence, std::string change = "a change",
                         std::string bytes = "floats and keys") {
  ExchangeRequest request;
  request.sender = {kTestJob, WorkerId(1), Incarnation(77)};
  request.epoch = Epoch(2);
  request.purpose = ReplicaRecord{
      ShardId(5), 2, sequence, Incarnation(9), std::move(change), PayloadOf(std::move(bytes))};
  return request;
}

ExchangeRequest AnyPull() { return MakeTestRequest(0, std::nullopt, Step(0)); }

class GrpcReplicaTest : public testing::Test {
 protected:
  // A server with both services, behind `guard`.
  void Serve(CallGuard* guard = nullptr) {
    server_ = nullptr;
    parameter_service_ = std::make_unique<GrpcParameterService>(
        &of_workers_, 64 << 20, ReplyOrder(), /*streams=*/nullptr, guard);
    replica_service_ =
        std::make_unique<GrpcReplicaService>(&of_servers_, /*streams=*/nullptr, guard);
    GrpcServer::Options options;
    options.guard = guard;
    options.max_connections = 64;
    server_ = GrpcServer::Start("127.0.0.1:0", {parameter_service_.get(), replica_service_.get()},
                                options)
                  .value();
    if (guard != nullptr) guard->set_audience(server_->address());
  }
  std::unique_ptr<GrpcEndpoint> Connect(SenderRole role, SecurityPointer security = NoSecurity()) {
    return std::make_unique<GrpcEndpoint>(server_->address(), &clock_, std::move(security), role);
  }
  ExchangeReply Exchange(ParameterEndpoint& endpoint, ExchangeRequest request) {
    OneShot<ExchangeReply> reply(&clock_);
    endpoint.Exchange(
        std::move(request), [] {},
        [&reply](ExchangeReply answer) { reply.Set(std::move(answer)); });
    return reply.Wait();
  }
  void ExpectRights(bool is_insecure);

  RealClock clock_;
  KeepingEndpoint of_workers_, of_servers_;
  std::unique_ptr<GrpcParameterService> parameter_service_;
  std::unique_ptr<GrpcReplicaService> replica_service_;
  std::unique_ptr<GrpcServer> server_;  // Destroyed first.
};

TEST_F(GrpcReplicaTest, ARecordReachesTheOtherServerAndItsAnswerComesBack) {
  Serve();
  const auto endpoint = Connect(SenderRole::kServer);
  const ExchangeReply reply = Exchange(*endpoint, RecordOf(300));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.version, 300u);
  EXPECT_TRUE(reply.values.empty());
  const std::vector<ExchangeRequest> requests = of_servers_.TakeRequests();
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].sender.worker, WorkerId(1));
  EXPECT_EQ(requests[0].epoch, Epoch(2));
  const auto& record = std::get<ReplicaRecord>(requests[0].purpose);
  EXPECT_EQ(record.shard, ShardId(5));
  EXPECT_EQ(record.copy, 2u);
  EXPECT_EQ(record.backup, Incarnation(9));
  EXPECT_EQ(record.change, "a change");
  std::string bytes(record.bytes.size_bytes(), '\0');
  record.bytes.CopyTo(absl::MakeSpan(reinterpret_cast<uint8_t*>(&bytes[0]), bytes.size()));
  EXPECT_EQ(bytes, "floats and keys");
  EXPECT_TRUE(of_workers_.TakeRequests().empty());
}

TEST_F(GrpcReplicaTest, ARefusalSaysWhichRecordIsExpected) {
  Serve();
  const auto endpoint = Connect(SenderRole::kServer);
  const ExchangeReply reply = Exchange(*endpoint, RecordOf(kUnexpected));
  EXPECT_EQ(reply.status, absl::FailedPreconditionError("expected record 8"));
  EXPECT_EQ(reply.version, 7u);
  EXPECT_EQ(reply.epoch, Epoch(3));
}

TEST_F(GrpcReplicaTest, RecordsWithLongChangesComeInOrderHoweverManyWait) {
  Serve();
  const auto endpoint = Connect(SenderRole::kServer);
  constexpr uint64_t kRecords = 70;
  OneShot<bool> is_answered(&clock_);
  for (uint64_t i = kFirst; i <= kRecords; ++i) {
    endpoint->Exchange(
        RecordOf(i, std::string(kMaxChangeBytes, 'x'), ""), [] {},
        [&is_answered, i](const ExchangeReply& reply) {
          EXPECT_TRUE(reply.status.ok()) << reply.status;
          EXPECT_EQ(reply.version, i);
          if (i == kRecords || !reply.status.ok()) is_answered.Set(true);
        });
  }
  is_answered.Wait();
  const std::vector<ExchangeRequest> requests = of_servers_.TakeRequests();
  ASSERT_EQ(requests.size(), kRecords);
  for (uint64_t i = 0; i < kRecords; ++i) {
    EXPECT_EQ(std::get<ReplicaRecord>(requests[i].purpose).sequence, kFirst + i);
  }
}

TEST_F(GrpcReplicaTest, TheLargestRecordFitsIntoAMessage) {
  Serve();
  const auto endpoint = Connect(SenderRole::kServer);
  const ExchangeReply reply = Exchange(
      *endpoint, RecordOf(1, std::string(kMaxChangeBytes, 'x'), std::string(kMaxSliceBytes, 'y')));
  EXPECT_TRUE(reply.status.ok()) << reply.status;
}

TEST_F(GrpcReplicaTest, ParameterServiceRefusesARecordAndGoesOn) {
  Serve();
  const auto endpoint = Connect(SenderRole::kWorker);
  EXPECT_EQ(Exchange(*endpoint, RecordOf(1)).status,
            absl::InvalidArgumentError("expected a request of a worker, got a record of a shard: "
                                       "servers alone send records, by ReplicaService"));
  EXPECT_TRUE(of_workers_.TakeRequests().empty());
  EXPECT_TRUE(Exchange(*endpoint, AnyPull()).status.ok());
  EXPECT_EQ(of_workers_.TakeRequests().size(), 1u);
  EXPECT_TRUE(of_servers_.TakeRequests().empty());
}

TEST_F(GrpcReplicaTest, ReplicaServiceRefusesEveryOtherPurpose) {
  Serve();
  const auto endpoint = Connect(SenderRole::kServer);
  const decltype(ExchangeRequest::purpose) others[] = {DenseStep{StepPush{Step(1)}},
                                                       RowStep{std::nullopt, StepPull{Step(1)}},
                                                       WorkerState{1, Payload()},
                                                       WorkerStatePull(),
                                                       TableState{1, Payload()},
                                                       InitialValues(),
                                                       OptimizerState(),
                                                       OptimizerStatePull(),
                                                       Collective(),
                                                       Probe{PayloadOf("probe")}};
  for (const auto& purpose : others) {
    ExchangeRequest request;
    request.purpose = purpose;
    EXPECT_EQ(Exchange(*endpoint, std::move(request)).status,
              absl::InvalidArgumentError("expected a record of a shard, got a request of a worker: "
                                         "workers send theirs by ParameterService"))
        << purpose.index();
  }
  EXPECT_TRUE(of_servers_.TakeRequests().empty());
  EXPECT_TRUE(Exchange(*endpoint, RecordOf(1)).status.ok()) << "the stream goes on";
}

TEST_F(GrpcReplicaTest, WhenTheOtherServerEndsOpenRecordsAreLost) {
  Serve();
  const auto endpoint = Connect(SenderRole::kServer);
  OneShot<ExchangeReply> lost(&clock_);
  endpoint->Exchange(
      RecordOf(kParked), [] {}, [&lost](ExchangeReply reply) { lost.Set(std::move(reply)); });
  EXPECT_TRUE(Exchange(*endpoint, RecordOf(1)).status.ok());
  EXPECT_TRUE(of_servers_.has_parked());
  server_ = nullptr;
  const absl::Status status = lost.Wait().status;
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(GrpcReplicaTest, AServerWithoutTheServiceTakesNoRecords) {
  GrpcParameterService alone(&of_workers_);
  server_ = GrpcServer::Start("127.0.0.1:0", {&alone}).value();
  const auto endpoint = Connect(SenderRole::kServer);
  const absl::Status status = Exchange(*endpoint, RecordOf(1)).status;
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(of_workers_.TakeRequests().empty());
  server_ = nullptr;
}

// `is_insecure`: over plaintext, where callers prove the token.
void GrpcReplicaTest::ExpectRights(bool is_insecure) {
  TestKeys keys;
  keys.authority = MakeTestAuthority();
  keys.token = MakeToken();
  CallGuard::Options guarded;
  guarded.clock = &clock_;
  guarded.security = GrpcSecurity::Open({WriteTestKeys(keys), is_insecure, &clock_}).value();
  CallGuard guard(guarded);
  Serve(&guard);
  EXPECT_TRUE(Exchange(*Connect(SenderRole::kServer, guarded.security), RecordOf(1)).status.ok())
      << "a server's own keys have the right";
  EXPECT_EQ(of_servers_.TakeRequests().size(), 1u);
  for (const Right right : kWeakerRights) {
    TestKeys weaker = keys;
    weaker.token = WeakerToken(keys.token, right);
    const SecurityPointer security =
        GrpcSecurity::Open({WriteTestKeys(weaker), is_insecure, &clock_}).value();
    const absl::Status status =
        Exchange(*Connect(SenderRole::kServer, security), RecordOf(1)).status;
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("expected a token with the right to operate, got one to ",
                                       RightName(right), " only")));
    const absl::Status by_workers =
        Exchange(*Connect(SenderRole::kWorker, security), RecordOf(1)).status;
    EXPECT_FALSE(by_workers.ok()) << RightName(right);
  }
  const absl::Status unknown = Exchange(*Connect(SenderRole::kServer), RecordOf(1)).status;
  EXPECT_FALSE(unknown.ok()) << "without keys";
  EXPECT_TRUE(of_servers_.TakeRequests().empty());
  EXPECT_TRUE(of_workers_.TakeRequests().empty());
  server_ = nullptr;
}

TEST_F(GrpcReplicaTest, OverTlsARecordNeedsTheRightToOperate) {
  ExpectRights(/*is_insecure=*/false);
}

TEST_F(GrpcReplicaTest, OverPlaintextARecordNeedsAProofOfTheRightToOperate) {
  ExpectRights(/*is_insecure=*/true);
}

}  // namespace
}  // namespace capstan
