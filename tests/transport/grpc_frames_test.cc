// Messages with several frames: requests and replies on one gRPC stream that travel together.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/grpc_endpoint.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/grpc/stream_limit.h"
#include "common/transport/reply_order.h"
#include "proto/parameter_service.grpc.pb.h"
#include "tests/transport/blocking_endpoint.h"
#include "tests/transport/grpc_service_fixture.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GrpcFramesTest : public GrpcServiceFixture {};

// One message with pushes 1 ... `count` at steps `step` and later, from a client with receipts.
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

// A client's receipt alone.
v1::ExchangeRequest GeneratedReceipt(uint64_t received_bytes) {
  v1::ExchangeRequest receipt;
  receipt.mutable_header()->set_has_receipts(true);
  receipt.mutable_header()->set_received_bytes(received_bytes);
  return receipt;
}

struct ReadReplies {
  int message_count = 0;
  std::vector<v1::ExchangeReply> replies;  // without receipts

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

// Reads messages until the stream's end, or until they have brought `count` replies.
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

TEST_F(GrpcFramesTest, RequestsThatComeTogetherAreAnsweredOneByOneToAClientThatReadsNoNext) {
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

TEST_F(GrpcFramesTest, RepliesGoTogetherToAClientThatReadsThem) {
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

TEST_F(GrpcFramesTest, PayloadsOfRepliesThatGoTogetherAreCountedInReceipts) {
  const auto stub = v1::ParameterService::NewStub(Channel());
  grpc::ClientContext context;
  const auto stream = stub->Exchange(&context);
  ASSERT_TRUE(stream->Write(PushesTogether(/*count=*/10, /*step=*/0, /*reads_next=*/true)));
  const uint64_t received_bytes = Read(*stream, 10).payload_bytes();
  EXPECT_EQ(received_bytes, 160);
  // The client has received all bytes. Its receipt comes with its next request.
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

TEST_F(GrpcFramesTest, AClientThatHasOnceSaidThatItReadsNextReadsItFromThenOn) {
  const auto stub = v1::ParameterService::NewStub(Channel());
  grpc::ClientContext context;
  const auto stream = stub->Exchange(&context);
  ASSERT_TRUE(stream->Write(PushesTogether(/*count=*/1, /*step=*/0, /*reads_next=*/true)));
  const uint64_t received_bytes = Read(*stream, 1).payload_bytes();
  // The receipt does not repeat reads_next.
  v1::ExchangeRequest message = GeneratedReceipt(received_bytes);
  *message.add_next() = GeneratedPush(/*request_id=*/2, /*step=*/1, 1.0f);
  *message.add_next() = GeneratedPush(/*request_id=*/3, /*step=*/2, 1.0f);
  ASSERT_TRUE(stream->Write(message));
  const ReadReplies read = Read(*stream, 2);
  EXPECT_THAT(read.request_ids(), ElementsAre(2, 3));
  EXPECT_EQ(read.message_count, 1);
  context.TryCancel();
}

TEST_F(GrpcFramesTest, AMalformedFrameAmongOthersIsAnsweredAloneAndTheOthersAreApplied) {
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

TEST_F(GrpcFramesTest, AMessageOfTooManyFramesIsRefusedAndTheStreamGoesOn) {
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

// Serves one stream, and tells whether gRPC has heard of its end.
class OneStreamService
    : public v1::ParameterService::WithRawCallbackMethod_Exchange<v1::ParameterService::Service> {
 public:
  explicit OneStreamService(ParameterEndpoint* endpoint)
      : service_(endpoint, /*max_inflight_bytes=*/64 << 20, ReplyOrder(), &streams_) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exchange(
      grpc::CallbackServerContext* context) override {
    context_ = context;
    return service_.Exchange(context);
  }
  // While the stream is there.
  bool is_cancelled() const { return context_.load()->IsCancelled(); }
  bool has_stream() { return !streams_.Take().ok(); }

 private:
  StreamLimit streams_{/*max=*/1};
  GrpcParameterService service_;
  std::atomic<grpc::CallbackServerContext*> context_ = nullptr;
};

TEST(GrpcTogetherTest, AClientThatGoesWhileItsMessageIsTakenIsForgotten) {
  RealClock clock;
  BlockingEndpoint endpoint(&clock, /*blocks_at=*/2);
  OneStreamService service(&endpoint);
  std::unique_ptr<GrpcServer> server = GrpcServer::Start("127.0.0.1:0", {&service}).value();
  const auto stub = v1::ParameterService::NewStub(
      grpc::CreateChannel(server->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->Exchange(&context);
  v1::ExchangeRequest request = GeneratedPush(/*request_id=*/1, /*step=*/0, 1.0f);
  *request.add_next() = GeneratedPush(/*request_id=*/2, /*step=*/1, 1.0f);
  ASSERT_TRUE(stream->Write(request));
  endpoint.is_blocked.Wait();  // The first is answered. Its reply waits for the second.
  context.TryCancel();
  EXPECT_FALSE(stream->Finish().ok());
  while (!service.is_cancelled()) SleepUntil(clock, clock.Now() + absl::Milliseconds(1));
  EXPECT_TRUE(service.has_stream()) << "its message is still taken";
  endpoint.may_go_on.Set(true);
  server = nullptr;  // Returns after the end of all streams.
  EXPECT_FALSE(service.has_stream());
}

// Answers three requests in one message, the last one first. A reply has its request's gradient as
// values, and as version the number of messages with the three requests.
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
    if (frame.header().has_dense_step()) requests->push_back(frame);
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

TEST(GrpcTogetherTest, AnEndpointGivesEachCallerItsOwnOfTheRepliesThatComeTogether) {
  TogetherService service;
  const auto server = GrpcServer::Start("127.0.0.1:0", {&service}).value();
  RealClock clock;
  GrpcEndpoint endpoint(server->address(), &clock);
  OneShot<ExchangeReply> replies[] = {OneShot<ExchangeReply>(&clock),
                                      OneShot<ExchangeReply>(&clock),
                                      OneShot<ExchangeReply>(&clock)};
  std::atomic<int> delivered = 0;
  for (int i = 0; i < 3; ++i) {
    endpoint.Exchange(
        MakeTestRequest(0, Step(i), Step(i), 1.0f + i, kElements), [&delivered] { ++delivered; },
        [reply = &replies[i]](ExchangeReply answer) { reply->Set(std::move(answer)); });
  }
  for (int i = 0; i < 3; ++i) {
    const ExchangeReply reply = replies[i].Wait();
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(ToVector(reply.values), std::vector<float>(kElements, 1.0f + i));
  }
  EXPECT_EQ(delivered, 3);
}

TEST(GrpcTogetherTest, WhatRepliesThatComeTogetherCauseGoesTogether) {
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

// Answers two requests. The second reply is malformed: a nested frame in a frame after the first.
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

TEST(GrpcTogetherTest, AServerWithMalformedRepliesAmongOthersIsAnUnavailableOneThatSaysSo) {
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
