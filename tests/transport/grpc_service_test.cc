#include <arpa/inet.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/base/one_shot.h"
#include "common/base/random.h"
#include "common/base/real_clock.h"
#include "common/transport/grpc_endpoint.h"
#include "common/transport/retrying_endpoint.h"
#include "proto/parameter_service.grpc.pb.h"
#include "server/service/grpc_parameter_service.h"
#include "server/service/grpc_server.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {
namespace {

constexpr uint64_t kElements = 4;

class GrpcServiceTest : public testing::Test {
 protected:
  GrpcServiceTest()
      : host_(MakeTestHost(ConsistencyMode::kAsync, /*num_workers=*/1, kElements)),
        service_(host_.get()),
        server_(GrpcServer::Start("127.0.0.1:0", {&service_}).value()) {}

  std::shared_ptr<grpc::Channel> Channel() {
    return grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
  }
  ExchangeReply Exchange(ParameterEndpoint& endpoint, ExchangeRequest request) {
    OneShot<ExchangeReply> reply(&clock_);
    endpoint.Exchange(
        std::move(request), [] {},
        [&reply](ExchangeReply answer) { reply.Set(std::move(answer)); });
    return reply.Wait();
  }
  // Fails the test unless the server still answers.
  void ExpectServing() {
    GrpcEndpoint endpoint(server_->address(), &clock_);
    const ExchangeReply reply =
        Exchange(endpoint, MakeTestRequest(0, std::nullopt, Step(0), 0, kElements));
    EXPECT_TRUE(reply.status.ok()) << reply.status;
  }

  RealClock clock_;
  std::unique_ptr<ShardHost> host_;
  GrpcParameterService service_;
  std::unique_ptr<GrpcServer> server_;
};

v1::ExchangeRequest GeneratedPush(uint64_t request_id, int64_t step, float value) {
  v1::ExchangeRequest request;
  request.mutable_header()->set_request_id(request_id);
  request.mutable_header()->set_job(kTestJob);
  request.mutable_header()->set_incarnation(100);
  request.mutable_header()->set_epoch(1);
  request.mutable_header()->set_has_push(true);
  request.mutable_header()->set_push_step(step);
  request.mutable_header()->set_has_pull(true);
  request.mutable_header()->set_pull_step(step + 1);
  const std::vector<float> gradient(kElements, value);
  request.set_payload(gradient.data(), gradient.size() * sizeof(float));
  return request;
}

TEST_F(GrpcServiceTest, AnyClientWithGeneratedCodeCanSpeakToIt) {
  const auto stub = v1::ParameterService::NewStub(Channel());
  grpc::ClientContext context;
  const auto stream = stub->Exchange(&context);
  ASSERT_TRUE(stream->Write(GeneratedPush(/*request_id=*/1, /*step=*/0, 2.0f)));
  ASSERT_TRUE(stream->Write(GeneratedPush(/*request_id=*/2, /*step=*/1, 3.0f)));
  stream->WritesDone();
  v1::ExchangeReply reply;
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.header().request_id(), 1);
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.header().request_id(), 2);
  EXPECT_EQ(reply.header().code(), 0) << reply.header().message();
  EXPECT_EQ(reply.header().version(), 2);
  ASSERT_EQ(reply.payload().size(), kElements * sizeof(float));
  EXPECT_EQ(*reinterpret_cast<const float*>(reply.payload().data()), -5.0f);
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_TRUE(stream->Finish().ok()) << "the stream ends well once all is answered";
}

TEST_F(GrpcServiceTest, AMalformedFrameClosesNothingButItsOwnExchange) {
  grpc::GenericStub stub(Channel());
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  const auto stream = stub.PrepareCall(&context, "/capstan.v1.ParameterService/Exchange", &queue);
  const auto wait = [&queue] {
    void* tag;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  stream->StartCall(nullptr);
  ASSERT_TRUE(wait());
  const std::string frames[] = {"\xff\xff\xff garbage",
                                GeneratedPush(9, 0, 1.0f).SerializeAsString()};
  std::vector<v1::ExchangeReply> replies;
  for (const std::string& frame : frames) {
    const grpc::Slice slice(frame);
    stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    ASSERT_TRUE(wait());
    grpc::ByteBuffer answer;
    stream->Read(&answer, nullptr);
    ASSERT_TRUE(wait());
    grpc::Slice bytes;
    ASSERT_TRUE(answer.DumpToSingleSlice(&bytes).ok());
    v1::ExchangeReply reply;
    ASSERT_TRUE(reply.ParseFromArray(bytes.begin(), static_cast<int>(bytes.size())));
    replies.push_back(reply);
  }
  EXPECT_EQ(replies[0].header().code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_NE(replies[0].header().message().find("malformed frame"), std::string::npos);
  EXPECT_EQ(replies[1].header().request_id(), 9);
  EXPECT_EQ(replies[1].header().code(), 0);
  context.TryCancel();
  grpc::Status status;
  stream->Finish(&status, nullptr);
  wait();
  queue.Shutdown();
}

TEST_F(GrpcServiceTest, GarbageOnThePortDoesNoHarm) {
  const uint64_t seed = 5;
  Random random(seed);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  int port = 0;
  ASSERT_TRUE(
      absl::SimpleAtoi(server_->address().substr(server_->address().rfind(':') + 1), &port));
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  for (int i = 0; i < 20; ++i) {
    const int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(connect(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    std::string garbage = i % 2 == 0 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
    for (int byte = 0; byte < 500; ++byte) garbage += static_cast<char>(random());
    EXPECT_GT(send(socket_fd, garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
    close(socket_fd);
  }
  ExpectServing();
}

TEST_F(GrpcServiceTest, ServerHasHealthAndReflection) {
  const auto call = [&](const std::string& method, const std::string& request) {
    grpc::GenericStub stub(Channel());
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    const grpc::Slice slice(request);
    const auto stream = stub.PrepareCall(&context, method, &queue);
    void* tag;
    bool ok;
    stream->StartCall(nullptr);
    queue.Next(&tag, &ok);
    stream->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
    queue.Next(&tag, &ok);
    grpc::ByteBuffer answer;
    stream->Read(&answer, nullptr);
    queue.Next(&tag, &ok);
    grpc::Slice bytes;
    EXPECT_TRUE(ok && answer.DumpToSingleSlice(&bytes).ok());
    grpc::Status status;
    stream->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    queue.Shutdown();
    return std::string(bytes.begin(), bytes.end());
  };
  // HealthCheckResponse{status: SERVING}
  EXPECT_EQ(call("/grpc.health.v1.Health/Check", ""), std::string("\x08\x01"));
  // ServerReflectionRequest{list_services: ""}
  const std::string services = call(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", std::string("\x3a\x00", 2));
  EXPECT_NE(services.find("capstan.v1.ParameterService"), std::string::npos);
}

TEST_F(GrpcServiceTest, PortInUseIsAClearError) {
  const auto second = GrpcServer::Start(server_->address(), {});
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_NE(second.status().message().find("the port is in use"), absl::string_view::npos);
  EXPECT_TRUE(absl::IsInvalidArgument(GrpcServer::Start("localhost", {}).status()));
}

TEST_F(GrpcServiceTest, AStoppedServerIsUnavailableAndARestartedOneIsFoundAgain) {
  RetryingEndpoint::Options retries;
  retries.clock = &clock_;
  retries.peer = "server 0";
  RetryingEndpoint endpoint(retries, std::make_unique<GrpcEndpoint>(server_->address(), &clock_));
  const auto pull = [&] {
    return Exchange(endpoint, MakeTestRequest(0, std::nullopt, Step(0), 0, kElements)).status;
  };
  EXPECT_TRUE(pull().ok());
  const std::string address = server_->address();
  server_.reset();
  GrpcEndpoint without_retries(address, &clock_);
  EXPECT_TRUE(absl::IsUnavailable(
      Exchange(without_retries, MakeTestRequest(0, std::nullopt, Step(0), 0, kElements)).status));
  clock_.RunAfter(absl::Milliseconds(100),
                  [&] { server_ = GrpcServer::Start(address, {&service_}).value(); });
  EXPECT_TRUE(pull().ok());
  EXPECT_TRUE(pull().ok());
}

}  // namespace
}  // namespace capstan
