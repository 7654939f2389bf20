#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/one_shot.h"
#include "common/base/random.h"
#include "common/base/real_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/grpc_endpoint.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_server.h"
#include "proto/parameter_service.grpc.pb.h"
#include "tests/transport/blocking_endpoint.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kElements = 4;
constexpr size_t kEmptyFrameBytes = 9;  // of HTTP/2

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
  // A socket that is connected to the server.
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

// A message of pushes 1 ... `count`, at steps `step` and later, each by a client with receipts.
v1::ExchangeRequest PushesTogether(int count, int64_t step, bool reads_next) {
  v1::ExchangeRequest message;
  for (int i = 0; i < count; ++i) {
    v1::ExchangeRequest& push = i == 0 ? message : *message.add_next();
    push = GeneratedPush(/*request_id=*/1 + i, step + i, 1.0f);
    push.mutable_header()->set_has_receipts(true);
    push.mutable_header()->set_reads_next(reads_next);
  }
  return message;
}

// The header of a client that says what it has received, and nothing else.
v1::ExchangeRequest GeneratedReceipt(uint64_t received_bytes) {
  v1::ExchangeRequest receipt;
  receipt.mutable_header()->set_has_receipts(true);
  receipt.mutable_header()->set_received_bytes(received_bytes);
  return receipt;
}

struct ReadReplies {
  int message_count = 0;
  std::vector<v1::ExchangeReply> replies;  // receipts are left out

  void Take(const v1::ExchangeReply& reply) {
    const bool is_receipt = reply.header().request_id() == 0 && reply.header().code() == 0;
    if (!is_receipt) replies.push_back(reply);
  }
  std::vector<uint64_t> request_ids() const {
    std::vector<uint64_t> ids;
    for (const v1::ExchangeReply& reply : replies) ids.push_back(reply.header().request_id());
    return ids;
  }
  uint64_t payload_bytes() const {
    uint64_t bytes = 0;
    for (const v1::ExchangeReply& reply : replies) bytes += reply.payload().size();
    return bytes;
  }
};

// Reads messages until they have brought `count` replies, or the stream has ended.
template <typename Stream>
ReadReplies Read(Stream& stream, size_t count) {
  ReadReplies read;
  v1::ExchangeReply message;
  while (read.replies.size() < count && stream.Read(&message)) {
    ++read.message_count;
    read.Take(message);
    for (const v1::ExchangeReply& reply : message.next()) read.Take(reply);
  }
  return read;
}

TEST_F(GrpcServiceTest, RequestsThatComeTogetherAreAnsweredOneByOneToAClientThatReadsNoNext) {
  const auto stub = v1::ParameterService::NewStub(Channel());
  grpc::ClientContext context;
  const auto stream = stub->Exchange(&context);
  v1::ExchangeRequest message = GeneratedPush(/*request_id=*/1, /*step=*/0, 1.0f);
  for (int64_t id = 2; id <= 4; ++id) *message.add_next() = GeneratedPush(id, id - 1, 1.0f);
  ASSERT_TRUE(stream->Write(message));
  stream->WritesDone();
  v1::ExchangeReply reply;
  for (uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(stream->Read(&reply)) << id;
    EXPECT_EQ(reply.next_size(), 0);
    EXPECT_EQ(reply.header().request_id(), id);
    EXPECT_EQ(reply.header().code(), 0) << reply.header().message();
    EXPECT_EQ(reply.header().version(), id);
    ASSERT_EQ(reply.payload().size(), kElements * sizeof(float));
    EXPECT_EQ(*reinterpret_cast<const float*>(reply.payload().data()), -1.0f * id);
  }
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcServiceTest, RepliesGoTogetherToAClientThatReadsThem) {
  const auto stub = v1::ParameterService::NewStub(Channel());
  grpc::ClientContext context;
  const auto stream = stub->Exchange(&context);
  ASSERT_TRUE(stream->Write(PushesTogether(/*count=*/10, /*step=*/0, /*reads_next=*/true)));
  stream->WritesDone();
  const ReadReplies read = Read(*stream, 10);
  EXPECT_THAT(read.request_ids(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_EQ(read.message_count, 1) << "what a message causes is answered together";
  for (const v1::ExchangeReply& reply : read.replies) {
    EXPECT_EQ(reply.header().code(), 0) << reply.header().message();
    EXPECT_EQ(reply.header().version(), reply.header().request_id());
    EXPECT_EQ(reply.header().received_bytes(), 10 * kElements * sizeof(float));
  }
  v1::ExchangeReply reply;
  EXPECT_FALSE(stream->Read(&reply)) << "each is answered once";
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcServiceTest, PayloadsOfRepliesThatGoTogetherAreCountedInReceipts) {
  const auto stub = v1::ParameterService::NewStub(Channel());
  grpc::ClientContext context;
  const auto stream = stub->Exchange(&context);
  ASSERT_TRUE(stream->Write(PushesTogether(/*count=*/10, /*step=*/0, /*reads_next=*/true)));
  const uint64_t received_bytes = Read(*stream, 10).payload_bytes();
  EXPECT_EQ(received_bytes, 160);
  // The receipt of a client that has received all, which comes with its next request.
  v1::ExchangeRequest message = GeneratedReceipt(received_bytes);
  *message.add_next() = GeneratedPush(/*request_id=*/11, /*step=*/10, 1.0f);
  ASSERT_TRUE(stream->Write(message));
  EXPECT_THAT(Read(*stream, 1).request_ids(), ElementsAre(11));
  ASSERT_TRUE(stream->Write(GeneratedReceipt(received_bytes + 16 + 1)));
  EXPECT_THAT(Read(*stream, 1).request_ids(), IsEmpty());
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("expected from 160 bytes, as said before, to 176"));
}

TEST_F(GrpcServiceTest, AClientThatHasOnceSaidThatItReadsNextReadsItFromThenOn) {
  const auto stub = v1::ParameterService::NewStub(Channel());
  grpc::ClientContext context;
  const auto stream = stub->Exchange(&context);
  ASSERT_TRUE(stream->Write(PushesTogether(/*count=*/1, /*step=*/0, /*reads_next=*/true)));
  const uint64_t received_bytes = Read(*stream, 1).payload_bytes();
  // The receipt does not say it again.
  v1::ExchangeRequest message = GeneratedReceipt(received_bytes);
  *message.add_next() = GeneratedPush(/*request_id=*/2, /*step=*/1, 1.0f);
  *message.add_next() = GeneratedPush(/*request_id=*/3, /*step=*/2, 1.0f);
  ASSERT_TRUE(stream->Write(message));
  const ReadReplies read = Read(*stream, 2);
  EXPECT_THAT(read.request_ids(), ElementsAre(2, 3));
  EXPECT_EQ(read.message_count, 1);
  context.TryCancel();
}

TEST_F(GrpcServiceTest, AMalformedFrameAmongOthersIsAnsweredAloneAndTheOthersAreApplied) {
  const auto stub = v1::ParameterService::NewStub(Channel());
  grpc::ClientContext context;
  const auto stream = stub->Exchange(&context);
  v1::ExchangeRequest message = GeneratedPush(/*request_id=*/1, /*step=*/0, 1.0f);
  *message.add_next() = GeneratedPush(/*request_id=*/2, /*step=*/1, 1.0f);
  v1::ExchangeRequest* const nested = message.add_next();
  *nested = GeneratedPush(/*request_id=*/3, /*step=*/2, 100.0f);
  *nested->add_next() = GeneratedPush(/*request_id=*/4, /*step=*/2, 100.0f);
  *message.add_next() = GeneratedPush(/*request_id=*/5, /*step=*/2, 1.0f);
  ASSERT_TRUE(stream->Write(message));
  stream->WritesDone();
  const ReadReplies read = Read(*stream, 5);
  ASSERT_THAT(read.request_ids(), ElementsAre(1, 2, 0, 5));
  EXPECT_EQ(read.replies[2].header().code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(read.replies[2].header().message(), HasSubstr("malformed frame"));
  EXPECT_EQ(read.replies[3].header().code(), 0);
  EXPECT_EQ(read.replies[3].header().version(), 3);
  EXPECT_EQ(*reinterpret_cast<const float*>(read.replies[3].payload().data()), -3.0f);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcServiceTest, AMessageOfTooManyFramesIsRefusedAndTheStreamGoesOn) {
  const auto stub = v1::ParameterService::NewStub(Channel());
  grpc::ClientContext context;
  const auto stream = stub->Exchange(&context);
  ASSERT_TRUE(stream->Write(PushesTogether(/*count=*/65, /*step=*/0, /*reads_next=*/true)));
  ASSERT_TRUE(stream->Write(GeneratedPush(/*request_id=*/100, /*step=*/0, 1.0f)));
  stream->WritesDone();
  const ReadReplies read = Read(*stream, 66);
  ASSERT_THAT(read.request_ids(), ElementsAre(0, 100));
  EXPECT_EQ(read.replies[0].header().code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(read.replies[0].header().message(), HasSubstr("at most 63 frames that follow"));
  EXPECT_EQ(read.replies[1].header().version(), 1) << "nothing of the message was applied";
  EXPECT_TRUE(stream->Finish().ok());
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

// What a connection hears first: everything to its end when it is refused, else the beginning.
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

TEST_F(GrpcServiceTest, AConnectionBeyondTheLimitHearsWhyUntilAnotherEnds) {
  server_ = nullptr;
  server_ = GrpcServer::Start("127.0.0.1:0", {&service_}, /*max_connections=*/2).value();
  const int first = Connect();
  const int second = Connect();
  for (const int socket : {first, second}) {
    EXPECT_THAT(FirstWords(socket), Not(HasSubstr("connections"))) << "it is served";
  }
  const int third = Connect();
  EXPECT_THAT(FirstWords(third), HasSubstr("the server has 2 connections (--max_connections)"));
  close(first);
  const auto endpoint =
      MakeTestClient(&clock_, std::make_unique<GrpcEndpoint>(server_->address(), &clock_));
  const ExchangeReply reply =
      Exchange(*endpoint, MakeTestRequest(0, std::nullopt, Step(0), 0, kElements));
  EXPECT_TRUE(reply.status.ok()) << reply.status;
  close(second);
  close(third);
}

TEST_F(GrpcServiceTest, AConnectionMayHaveFourCallsAtOnce) {
  const int client = Connect();
  const std::string max_concurrent_streams = {0, 3, 0, 0, 0, 4};  // as HTTP/2 sets it
  EXPECT_THAT(FirstWords(client), HasSubstr(max_concurrent_streams));
  close(client);
}

TEST_F(GrpcServiceTest, AMessageLargerThanTheServersBoundEndsItsStream) {
  server_ = nullptr;
  server_ = GrpcServer::Start("127.0.0.1:0", {&service_}, /*max_connections=*/0,
                              /*max_message_bytes=*/1 << 10)
                .value();
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

TEST(GrpcServiceTogetherTest, AClientThatGoesWhileItsMessageIsTakenIsForgotten) {
  RealClock clock;
  BlockingEndpoint endpoint(&clock, /*blocks_at=*/2);
  GrpcParameterService service(&endpoint);
  std::unique_ptr<GrpcServer> server = GrpcServer::Start("127.0.0.1:0", {&service}).value();
  const auto stub = v1::ParameterService::NewStub(
      grpc::CreateChannel(server->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->Exchange(&context);
  v1::ExchangeRequest request = GeneratedPush(/*request_id=*/1, /*step=*/0, 1.0f);
  *request.add_next() = GeneratedPush(/*request_id=*/2, /*step=*/1, 1.0f);
  ASSERT_TRUE(stream->Write(request));
  endpoint.is_blocked.Wait();  // The first has been answered, and its reply waits for the second.
  context.TryCancel();
  EXPECT_FALSE(stream->Finish().ok());
  // Nobody tells when the server has heard of it.
  absl::SleepFor(absl::Milliseconds(200));
  endpoint.may_go_on.Set(true);
  server = nullptr;  // Ends once every stream has.
}

// Answers requests by threes, in one message, the last one first: each with its own gradient, and
// with the number of messages that have brought the three as the version.
class TogetherService : public v1::ParameterService::Service {
 public:
  grpc::Status Exchange(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::ExchangeReply, v1::ExchangeRequest>* stream) override {
    std::vector<v1::ExchangeRequest> requests;
    uint64_t message_count = 0;
    v1::ExchangeRequest message;
    while (stream->Read(&message)) {
      ++message_count;
      TakeFrame(message, &requests);
      for (const v1::ExchangeRequest& request : message.next()) TakeFrame(request, &requests);
      if (requests.size() < 3) continue;
      v1::ExchangeReply replies = AnswerTo(requests[2], message_count);
      replies.add_next()->mutable_header()->set_received_bytes(received_bytes_);  // a receipt
      *replies.add_next() = AnswerTo(requests[1], message_count);
      *replies.add_next() = AnswerTo(requests[0], message_count);
      stream->Write(replies);
      requests.erase(requests.begin(), requests.begin() + 3);
      message_count = 0;
    }
    return grpc::Status::OK;
  }

 private:
  void TakeFrame(const v1::ExchangeRequest& frame, std::vector<v1::ExchangeRequest>* requests) {
    received_bytes_ += frame.payload().size();
    if (frame.header().has_push()) requests->push_back(frame);
  }
  v1::ExchangeReply AnswerTo(const v1::ExchangeRequest& request, uint64_t version) const {
    v1::ExchangeReply reply;
    reply.mutable_header()->set_request_id(request.header().request_id());
    reply.mutable_header()->set_version(version);
    reply.mutable_header()->set_received_bytes(received_bytes_);
    reply.set_payload(request.payload());
    return reply;
  }

  uint64_t received_bytes_ = 0;  // it has one stream
};

TEST(GrpcServiceTogetherTest, AnEndpointGivesEachCallerItsOwnOfTheRepliesThatComeTogether) {
  TogetherService service;
  const auto server = GrpcServer::Start("127.0.0.1:0", {&service}).value();
  RealClock clock;
  GrpcEndpoint endpoint(server->address(), &clock);
  OneShot<ExchangeReply> replies[] = {OneShot<ExchangeReply>(&clock),
                                      OneShot<ExchangeReply>(&clock),
                                      OneShot<ExchangeReply>(&clock)};
  std::atomic<int> sent = 0;
  for (int i = 0; i < 3; ++i) {
    endpoint.Exchange(
        MakeTestRequest(0, Step(i), Step(i), 1.0f + i, kElements), [&sent] { ++sent; },
        [reply = &replies[i]](ExchangeReply answer) { reply->Set(std::move(answer)); });
  }
  for (int i = 0; i < 3; ++i) {
    const ExchangeReply reply = replies[i].Wait();
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(ToVector(reply.values), std::vector<float>(kElements, 1.0f + i));
  }
  EXPECT_EQ(sent, 3);
}

TEST(GrpcServiceTogetherTest, WhatRepliesThatComeTogetherCauseGoesTogether) {
  TogetherService service;
  const auto server = GrpcServer::Start("127.0.0.1:0", {&service}).value();
  RealClock clock;
  GrpcEndpoint endpoint(server->address(), &clock);
  OneShot<ExchangeReply> replies[] = {OneShot<ExchangeReply>(&clock),
                                      OneShot<ExchangeReply>(&clock),
                                      OneShot<ExchangeReply>(&clock)};
  const auto push = [&endpoint](int step, ParameterEndpoint::ReplyCallback done) {
    endpoint.Exchange(
        MakeTestRequest(0, Step(step), Step(step), 1.0f + step, kElements), [] {}, std::move(done));
  };
  for (int i = 0; i < 3; ++i) {
    push(i, [&push, i, reply = &replies[i]](ExchangeReply) {
      push(3 + i, [reply](ExchangeReply answer) { reply->Set(std::move(answer)); });
    });
  }
  for (int i = 0; i < 3; ++i) {
    const ExchangeReply reply = replies[i].Wait();
    EXPECT_EQ(reply.version, 1) << "the three came in more messages than one";
    EXPECT_EQ(ToVector(reply.values), std::vector<float>(kElements, 4.0f + i));
  }
}

// Answers two requests, of which the second comes in what follows a frame that follows another one.
class NestingService : public v1::ParameterService::Service {
 public:
  grpc::Status Exchange(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::ExchangeReply, v1::ExchangeRequest>* stream) override {
    v1::ExchangeRequest request;
    int taken = 0;
    while (taken < 2 && stream->Read(&request)) taken += 1 + request.next_size();
    v1::ExchangeReply reply;
    reply.mutable_header()->set_request_id(1);
    reply.add_next()->add_next()->mutable_header()->set_request_id(2);
    stream->Write(reply);
    while (stream->Read(&request)) continue;
    return grpc::Status::OK;
  }
};

TEST(GrpcServiceTogetherTest, AServerWithMalformedRepliesAmongOthersIsAnUnavailableOneThatSaysSo) {
  NestingService service;
  const auto server = GrpcServer::Start("127.0.0.1:0", {&service}).value();
  RealClock clock;
  GrpcEndpoint endpoint(server->address(), &clock);
  OneShot<ExchangeReply> first(&clock), second(&clock);
  for (OneShot<ExchangeReply>* const reply : {&first, &second}) {
    endpoint.Exchange(
        MakeTestRequest(0, std::nullopt, Step(0)), [] {},
        [reply](ExchangeReply answer) { reply->Set(std::move(answer)); });
  }
  EXPECT_TRUE(first.Wait().status.ok());
  const absl::Status status = second.Wait().status;
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("malformed frame"));
}

}  // namespace
}  // namespace capstan
