#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "common/base/random.h"
#include "common/base/real_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/grpc_endpoint.h"
#include "common/transport/grpc/grpc_server.h"
#include "proto/parameter_service.grpc.pb.h"
#include "tests/transport/grpc_service_fixture.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr size_t kEmptyFrameBytes = 9;  // of HTTP/2

class GrpcServiceTest : public GrpcServiceFixture {
 protected:
  // A socket with a connection to the server.
  int Connect() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    int port = 0;
    EXPECT_TRUE(
        absl::SimpleAtoi(server_->address().substr(server_->address().rfind(':') + 1), &port));
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    const int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return socket_fd;
  }
  // Fails the test unless the server still answers.
  void ExpectServing() {
    GrpcEndpoint endpoint(server_->address(), &clock_);
    const ExchangeReply reply =
        Exchange(endpoint, MakeTestRequest(0, std::nullopt, Step(0), 0, kElements));
    EXPECT_TRUE(reply.status.ok()) << reply.status;
  }
};

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
  for (int i = 0; i < 20; ++i) {
    const int socket_fd = Connect();
    std::string garbage = i % 2 == 0 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
    for (int byte = 0; byte < 500; ++byte) garbage += static_cast<char>(random());
    EXPECT_GT(send(socket_fd, garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
    close(socket_fd);
  }
  ExpectServing();
}

// The first bytes of a connection. A refused connection returns all its bytes.
std::string FirstWords(int socket) {
  std::string words;
  char buffer[256];
  ssize_t size = 0;
  do {
    size = recv(socket, buffer, sizeof(buffer), 0);
    words.append(buffer, size > 0 ? size : 0);
  } while (size > 0 && words.size() <= kEmptyFrameBytes);
  return words;
}

TEST_F(GrpcServiceTest, ACallOnAConnectionBeyondTheLimitHearsWhyUntilAnotherEnds) {
  server_ = nullptr;
  CallGuard::Options guarded;
  guarded.clock = &clock_;
  CallGuard guard(guarded);
  GrpcParameterService service(host_.get(), 64 << 20, ReplyOrder(), nullptr, &guard);
  GrpcServer::Options options;
  options.guard = &guard;
  options.max_connections = 1;
  server_ = GrpcServer::Start("127.0.0.1:0", {&service}, options).value();
  const auto pull = [this](ParameterEndpoint& endpoint) {
    return Exchange(endpoint, MakeTestRequest(0, std::nullopt, Step(0), 0, kElements)).status;
  };
  auto first = std::make_unique<GrpcEndpoint>(server_->address(), &clock_);
  EXPECT_TRUE(pull(*first).ok());
  GrpcEndpoint second(server_->address(), &clock_);
  const absl::Status refused = pull(second);
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("too many connections (--max_connections)"));
  first = nullptr;
  const auto retrying =
      MakeTestClient(&clock_, std::make_unique<GrpcEndpoint>(server_->address(), &clock_));
  EXPECT_TRUE(pull(*retrying).ok());
  server_ = nullptr;
}

TEST_F(GrpcServiceTest, AllMembersOfALargeJobMayComeAtOnce) {
  constexpr uint32_t kMembers = 258;  // more than limits.unproved_connections
  server_ = nullptr;
  CallGuard::Options guarded;
  guarded.clock = &clock_;
  CallGuard guard(guarded);
  GrpcServer::Options options;
  options.guard = &guard;
  options.max_connections = 2 * kMembers;
  server_ = GrpcServer::Start("127.0.0.1:0", {}, options).value();
  std::vector<int> members;
  for (uint32_t i = 0; i < kMembers; ++i) members.push_back(Connect());
  EXPECT_FALSE(FirstWords(members.back()).empty()) << "it is taken after all others";
  EXPECT_EQ(server_->connections().too_many, 0);
  for (const int member : members) close(member);
  server_ = nullptr;
}

TEST_F(GrpcServiceTest, AConnectionMayHaveFourCallsAtOnce) {
  const int client = Connect();
  const std::string max_concurrent_streams = {0, 3, 0, 0, 0, 4};  // as HTTP/2 sets it
  EXPECT_THAT(FirstWords(client), HasSubstr(max_concurrent_streams));
  close(client);
}

TEST_F(GrpcServiceTest, AMessageLargerThanTheServersBoundEndsItsStream) {
  server_ = nullptr;
  GrpcServer::Options options;
  options.max_message_bytes = 1 << 10;
  server_ = GrpcServer::Start("127.0.0.1:0", {&service_}, options).value();
  const auto stub = v1::ParameterService::NewStub(Channel());
  grpc::ClientContext context;
  const auto stream = stub->Exchange(&context);
  v1::ExchangeRequest request = GeneratedPush(/*request_id=*/1, /*step=*/0, 2.0f);
  request.set_payload(std::string(1 << 10, 'x'));
  stream->Write(request);
  EXPECT_EQ(stream->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
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
  const auto endpoint =
      MakeTestClient(&clock_, std::make_unique<GrpcEndpoint>(server_->address(), &clock_));
  const auto pull = [&] {
    return Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0), 0, kElements)).status;
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
