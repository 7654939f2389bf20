#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "common/base/fake_clock.h"
#include "common/base/one_shot.h"
#include "common/base/random.h"
#include "common/base/real_clock.h"
#include "common/membership/grpc_coordinator_client.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_endpoint.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/trust/openssl_objects.h"
#include "deploy/cli/grpc_reader_client.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/grpc_coordinator_service.h"
#include "server/service/grpc_reader_service.h"
#include "server/service/parameter_server.h"
#include "tests/transport/test_keys.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A coordinator and a server in one process, both with keys, and callers with others.
class RefusalTest : public testing::Test {
 protected:
  RefusalTest() {
    keys_.authority = MakeTestAuthority();
    keys_.token = MakeToken();
    dir_ = WriteTestKeys(keys_);
    Coordinator::Options options;
    options.job.mutable_cluster()->set_num_servers(1);
    options.job.mutable_cluster()->set_num_workers(1);
    coordinator_ = std::make_unique<Coordinator>(std::move(options), clock_);
  }

  void Serve(const std::string& dir, bool is_insecure = false) {
    CallGuard::Options guarded;
    guarded.clock = &clock_;
    guarded.registrations_per_second = 2;
    guarded.security = GrpcSecurity::Open({dir, is_insecure, &clock_}).value();
    guard_ = std::make_unique<CallGuard>(guarded);
    coordinator_service_ = std::make_unique<GrpcCoordinatorService>(*coordinator_, guard_.get());
    exchange_service_ = std::make_unique<GrpcParameterService>(host_.get(), 64 << 20, ReplyOrder(),
                                                               /*streams=*/nullptr, guard_.get());
    reader_service_ = std::make_unique<GrpcReaderService>(&parameter_server_, guard_.get());
    GrpcServer::Options served;
    served.guard = guard_.get();
    served.max_connections = 64;
    server_ =
        GrpcServer::Start(
            "127.0.0.1:0",
            {coordinator_service_.get(), exchange_service_.get(), reader_service_.get()}, served)
            .value();
  }

  template <typename Request>
  absl::Status Call(SecurityPointer security) {
    CoordinatorOptions options = {server_->address(), absl::Seconds(2)};
    options.security = std::move(security);
    const auto client =
        ConnectToCoordinator(std::move(options), &clock_, Random(/*seed=*/1)).value();
    return AwaitReply(*client, Request(), clock_).status();
  }
  absl::Status Look(SecurityPointer security) {
    return Call<v1::GetStatusRequest>(std::move(security));
  }
  absl::Status Set(SecurityPointer security) {
    return Call<v1::SetConsistencyRequest>(std::move(security));
  }
  absl::Status Read(SecurityPointer security) {
    GrpcReaderClient client(server_->address(), &clock_, std::move(security));
    return client.ReadRows(v1::ReadRowsRequest()).status();
  }
  absl::Status Exchange(SecurityPointer security) {
    GrpcEndpoint endpoint(server_->address(), &clock_, std::move(security));
    OneShot<ExchangeReply> reply(&clock_);
    endpoint.Exchange(
        MakeTestRequest(0, Step(0), std::nullopt, 1.0f, /*elements=*/4), [] {},
        [&reply](ExchangeReply answer) { reply.Set(std::move(answer)); });
    return reply.Wait().status;
  }

  SecurityPointer Open(const TestKeys& keys, Clock* clock) {
    return GrpcSecurity::Open({WriteTestKeys(keys), /*is_insecure=*/false, clock}).value();
  }
  SecurityPointer Open(const TestKeys& keys) { return Open(keys, &clock_); }

  uint64_t AppliedPushes() {
    OneShot<uint64_t> version(&clock_);
    host_->Exchange(
        MakeTestRequest(0, std::nullopt, Step(0), 0, /*elements=*/4), [] {},
        [&version](const ExchangeReply& reply) { version.Set(reply.version); });
    return version.Wait();
  }

  // All services refuse the caller for a reason with `text`, and tell no secret.
  void ExpectRefused(SecurityPointer security, const std::string& text) {
    for (const absl::Status& status : {Look(security), Exchange(security), Read(security)}) {
      EXPECT_FALSE(status.ok());
      EXPECT_THAT(std::string(status.message()), HasSubstr(text));
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr(keys_.token)));
    }
    EXPECT_EQ(AppliedPushes(), 0u);
  }

  RealClock clock_;
  TestKeys keys_;
  std::string dir_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<ShardHost> host_ =
      MakeTestHost(ConsistencyMode::kAsync, /*num_workers=*/1, /*elements=*/4);
  ParameterServer parameter_server_ = ParameterServer(ParameterServer::Options());
  std::unique_ptr<CallGuard> guard_;
  std::unique_ptr<GrpcCoordinatorService> coordinator_service_;
  std::unique_ptr<GrpcParameterService> exchange_service_;
  std::unique_ptr<GrpcReaderService> reader_service_;
  std::unique_ptr<GrpcServer> server_;  // Destroyed first.
};

TEST_F(RefusalTest, AMemberIsAdmitted) {
  Serve(dir_);
  const SecurityPointer member = Open(keys_);
  EXPECT_TRUE(Look(member).ok()) << Look(member);
  EXPECT_TRUE(Exchange(member).ok()) << Exchange(member);
  EXPECT_THAT(std::string(Read(member).message()), HasSubstr("has not been given its shards"));
  EXPECT_EQ(guard_->refused_calls(), 0);
}

TEST_F(RefusalTest, WithoutACertificateACallerLearnsThatItNeedsKeys) {
  Serve(dir_);
  EXPECT_THAT(std::string(Look(NoSecurity()).message()), HasSubstr("speaks TLS; expected --keys"));
  EXPECT_FALSE(Exchange(NoSecurity()).ok());
}

TEST_F(RefusalTest, ACertificateOfAnotherCaIsRefusedByBothSides) {
  Serve(dir_);
  TestKeys foreign = keys_;
  foreign.authority = MakeTestAuthority();
  ExpectRefused(Open(foreign), "has a certificate that is not trusted here");
  // A caller that trusts the server, with a certificate that the server does not trust.
  const SecurityPointer mixed = [&] {
    const std::string dir = WriteTestKeys(foreign);
    std::ofstream(dir + "/ca.crt") << foreign.authority.certificate << keys_.authority.certificate;
    return GrpcSecurity::Open({dir, false, &clock_}).value();
  }();
  ExpectRefused(mixed, "perhaps it refuses the certificate of this process");
}

TEST_F(RefusalTest, AnExpiredCertificateIsRefusedByItsOwnerAndByTheServer) {
  Serve(dir_);
  TestKeys expired = keys_;
  expired.end = absl::Now() - absl::Minutes(1);
  const std::string dir = WriteTestKeys(expired);
  const absl::Status own = GrpcSecurity::Open({dir, false, &clock_}).status();
  EXPECT_THAT(std::string(own.message()), HasSubstr("got one that expired at"));
  FakeClock behind;
  behind.Advance(absl::Now() - absl::Minutes(30) - behind.Now());
  ExpectRefused(Open(expired, &behind), "perhaps it refuses the certificate of this process");
}

TEST_F(RefusalTest, ACertificateThatIsNotYetValidIsRefusedByItsOwnerAndByTheServer) {
  Serve(dir_);
  TestKeys early = keys_;
  early.begin = absl::Now() + absl::Minutes(30);
  const absl::Status own = GrpcSecurity::Open({WriteTestKeys(early), false, &clock_}).status();
  EXPECT_THAT(std::string(own.message()), HasSubstr("becomes valid at"));
  FakeClock ahead;
  ahead.Advance(absl::Now() + absl::Minutes(40) - ahead.Now());
  ExpectRefused(Open(early, &ahead), "perhaps it refuses the certificate of this process");
}

TEST_F(RefusalTest, AServerWithACertificateForOtherHostsIsRefused) {
  TestKeys elsewhere = keys_;
  elsewhere.hosts = {"elsewhere.example"};
  Serve(WriteTestKeys(elsewhere));
  ExpectRefused(Open(keys_), "has a certificate for other hosts; expected 127.0.0.1");
}

TEST_F(RefusalTest, ATokenOfAnotherJobIsRefused) {
  Serve(dir_);
  TestKeys other = keys_;
  other.token = MakeToken();
  ExpectRefused(Open(other), "expected the token of this job, got another one");
  EXPECT_EQ(guard_->refused_calls(), 3);
  EXPECT_EQ(guard_->refusals()[static_cast<size_t>(CallGuard::Reason::kToken)], 3);
}

TEST_F(RefusalTest, ACallWithoutATokenIsRefused) {
  Serve(dir_);
  grpc::ChannelArguments arguments;
  const auto channel =
      grpc::CreateCustomChannel(server_->address(), Open(keys_)->channel_credentials(), arguments);
  const auto stub = v1::CoordinatorService::NewStub(channel);
  grpc::ClientContext context;
  v1::GetStatusReply reply;
  const grpc::Status status = stub->GetStatus(&context, {}, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), HasSubstr("expected the job's token, got none"));
}

TEST_F(RefusalTest, ATokenMayOnlyDoWhatItsRightSays) {
  Serve(dir_);
  TestKeys weaker = keys_;
  weaker.token = WeakerToken(keys_.token, Right::kLook);
  const SecurityPointer looking = Open(weaker);
  EXPECT_TRUE(Look(looking).ok());
  for (const absl::Status& status : {Set(looking), Exchange(looking), Read(looking)}) {
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("got one to look only"));
  }
  weaker.token = WeakerToken(keys_.token, Right::kRead);
  const SecurityPointer reading = Open(weaker);
  EXPECT_THAT(std::string(Read(reading).message()), HasSubstr("has not been given its shards"));
  EXPECT_TRUE(absl::IsPermissionDenied(Exchange(reading)));
  weaker.token = WeakerToken(keys_.token, Right::kTakePart);
  const SecurityPointer member = Open(weaker);
  EXPECT_TRUE(Exchange(member).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(Set(member)));
}

TEST_F(RefusalTest, OverPlaintextTheTokenIsProvedAndNotSent) {
  Serve(dir_, /*is_insecure=*/true);
  guard_->set_audience(kCoordinatorAudience);
  const std::string dir = WriteTestKeys(keys_);
  EXPECT_TRUE(Look(GrpcSecurity::Open({dir, true, &clock_}).value()).ok());
  TestKeys other = keys_;
  other.token = MakeToken();
  const absl::Status refused =
      Look(GrpcSecurity::Open({WriteTestKeys(other), true, &clock_}).value());
  EXPECT_THAT(std::string(refused.message()), HasSubstr("got another token's"));
  EXPECT_THAT(std::string(Look(NoSecurity()).message()), HasSubstr("got none"));
}

TEST_F(RefusalTest, MoreRegistrationsThanAllowedAreToldToTryAgain) {
  Serve(dir_);
  const SecurityPointer member = Open(keys_);
  const auto stub = v1::CoordinatorService::NewStub(
      grpc::CreateChannel(server_->address(), member->channel_credentials()));
  int refused = 0;
  for (int i = 0; i < 10; ++i) {
    grpc::ClientContext context;
    member->Authorize(kCoordinatorAudience, "RegisterWorker", context);
    v1::RegisterReply reply;
    const grpc::Status status = stub->RegisterWorker(&context, {}, &reply);
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      ++refused;
      EXPECT_THAT(status.error_message(), HasSubstr("--field=limits.registrations_per_second"));
    }
  }
  EXPECT_GE(refused, 4);
}

// One end of connections, with the keys in `dir`, that speaks this version of TLS alone.
SslContextPointer ContextOf(const SSL_METHOD* end, int version, const std::string& dir) {
  SslContextPointer context(SSL_CTX_new(end));
  // By default OpenSSL itself does not offer the old version.
  SSL_CTX_set_security_level(context.get(), 0);
  SSL_CTX_set_min_proto_version(context.get(), version);
  SSL_CTX_set_max_proto_version(context.get(), version);
  const std::string certificate = dir + "/tls.crt", key = dir + "/tls.key";
  SSL_CTX_use_certificate_file(context.get(), certificate.c_str(), SSL_FILETYPE_PEM);
  SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM);
  const unsigned char http2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), http2, sizeof(http2));
  return context;
}

// Whether two ends in this process shake hands.
bool ShakesHands(SSL_CTX* client_context, SSL_CTX* server_context) {
  const SslPointer client(SSL_new(client_context)), server(SSL_new(server_context));
  SSL_set_connect_state(client.get());
  SSL_set_accept_state(server.get());
  BIO *of_client = nullptr, *of_server = nullptr;
  BIO_new_bio_pair(&of_client, 0, &of_server, 0);
  SSL_set_bio(client.get(), of_client, of_client);
  SSL_set_bio(server.get(), of_server, of_server);
  for (int flight = 0; flight < 4; ++flight) {
    SSL_do_handshake(client.get());
    SSL_do_handshake(server.get());
  }
  return SSL_is_init_finished(client.get()) && SSL_is_init_finished(server.get());
}

TEST_F(RefusalTest, TlsOfVersion12IsSpokenAndOfVersion11IsNot) {
  Serve(dir_);
  for (const int version : {TLS1_1_VERSION, TLS1_2_VERSION, TLS1_3_VERSION}) {
    SCOPED_TRACE(version);
    const SslContextPointer client = ContextOf(TLS_client_method(), version, dir_);
    EXPECT_TRUE(ShakesHands(client.get(), ContextOf(TLS_server_method(), version, dir_).get()))
        << "the client does not speak it";
    const BioPointer connection(BIO_new_ssl_connect(client.get()));
    BIO_set_conn_hostname(connection.get(), server_->address().c_str());
    EXPECT_EQ(BIO_do_handshake(connection.get()) == 1, version != TLS1_1_VERSION);
  }
}

TEST_F(RefusalTest, PlaintextDoesNotLeaveTheMachineUnlessInsecureIsSaid) {
  CallGuard::Options guarded;
  guarded.clock = &clock_;
  CallGuard plain(guarded);
  GrpcServer::Options options;
  options.guard = &plain;
  options.max_connections = 1;
  const absl::Status refused = GrpcServer::Start("0.0.0.0:0", {}, options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("expected --keys=DIR"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("or --insecure"));
  EXPECT_TRUE(GrpcServer::Start("localhost:0", {}, options).ok());
  guarded.security = GrpcSecurity::Open({"", /*is_insecure=*/true, &clock_}).value();
  CallGuard insecure(guarded);
  options.guard = &insecure;
  EXPECT_TRUE(GrpcServer::Start("0.0.0.0:0", {}, options).ok());
}

}  // namespace
}  // namespace capstan
