#include "common/wire/frame.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "common/exchange/request_parts.h"
#include "common/wire/frame_examples.h"
#include "proto/exchange.pb.h"

namespace capstan {
namespace {

TEST(FrameTest, RequestIsTheProtobufMessageThatALibraryWouldWrite) {
  const ExchangeRequest request = ExampleRequest("0123456789abcdef");
  const std::string frame = EncodePrefix(9, request) + Bytes(BroughtBy(request));
  v1::ExchangeRequest message;
  ASSERT_TRUE(message.ParseFromString(frame));
  EXPECT_EQ(message.SerializeAsString(), frame);
  EXPECT_EQ(message.payload(), "0123456789abcdef");
  EXPECT_EQ(message.header().request_id(), 9);
  EXPECT_EQ(message.header().job(), request.sender.job);
  EXPECT_EQ(message.header().worker(), 3);
  EXPECT_EQ(message.header().incarnation(), 77);
  EXPECT_EQ(message.header().epoch(), 2);
  EXPECT_EQ(message.header().table(), 5);
  EXPECT_EQ(message.header().slice(), 6);
  EXPECT_EQ(message.header().dense_step().push_step(), 41);
  EXPECT_EQ(message.header().dense_step().pull_step(), 42);
}

// The bytes are a contract: little-endian, field numbers as in proto/exchange.proto.
TEST(FrameTest, RequestBytesAreGolden) {
  const ExchangeRequest request = ExampleRequest("\x01\x02\x03\x04");
  const std::string frame = EncodePrefix(9, request) + Bytes(BroughtBy(request));
  const std::string expected(
      "\x0a\x22\x08\x09\x11\xef\xcd\xab\x89\x67\x45\x23\x01\x18\x03\x21\x4d\x00\x00\x00\x00\x00"
      "\x00\x00\x28\x02\x30\x05\x38\x06\x42\x04\x08\x29\x10\x2a\x12\x04\x01\x02\x03\x04",
      42);
  EXPECT_EQ(frame, expected);
}

// A gradient and values of other encodings than float32.
TEST(FrameTest, BytesOfEncodedPayloadsAreGolden) {
  ExchangeRequest request = ExampleRequest("\x01\x02\x03\x04");
  DenseStepOf(request).push->gradient->codec = CodecType::kInt8;
  EXPECT_EQ(EncodePrefix(9, request) + Bytes(BroughtBy(request)),
            std::string("\x0a\x24\x08\x09\x11\xef\xcd\xab\x89\x67\x45\x23\x01\x18\x03\x21\x4d\x00"
                        "\x00\x00\x00\x00\x00\x00\x28\x02\x30\x05\x38\x06\x42\x06\x08\x29\x10\x2a"
                        "\x18\x03\x12\x04\x01\x02\x03\x04",
                        44));
  ExchangeReply reply = ExampleReply("abcd");
  EXPECT_EQ(EncodePrefix(9, reply) + "abcd", std::string("\x0a\x06\x08\x09\x20\x0c\x28\x0b\x12\x04"
                                                         "abcd",
                                                         14));
  reply.codec = CodecType::kBfloat16;
  EXPECT_EQ(EncodePrefix(9, reply) + "abcd",
            std::string("\x0a\x08\x08\x09\x20\x0c\x28\x0b\x58\x02\x12\x04"
                        "abcd",
                        16));
}

TEST(FrameTest, RequestSurvivesAnyFragmentation) {
  const ExchangeRequest request = ExampleRequest("0123456789abcdef");
  const std::string frame = EncodePrefix(9, request) + Bytes(BroughtBy(request));
  for (size_t fragment_bytes = 1; fragment_bytes <= frame.size(); ++fragment_bytes) {
    const auto decoded = DecodeRequest(Fragmented(frame, fragment_bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->request_id, 9);
    ASSERT_TRUE(decoded->request.ok()) << decoded->request.status();
    EXPECT_EQ(decoded->request->sender.worker, request.sender.worker);
    EXPECT_EQ(decoded->request->slice, request.slice);
    EXPECT_EQ(PushStepOf(*decoded->request), Step(41));
    EXPECT_EQ(PullStepOf(*decoded->request), Step(42));
    EXPECT_EQ(Bytes(BroughtBy(*decoded->request)), "0123456789abcdef");
  }
}

TEST(FrameTest, AbsentPushAndPullStayAbsent) {
  ExchangeRequest request;
  request.purpose = DenseStep{std::nullopt, StepPull{Step(0)}};
  const auto decoded = DecodeRequest(Fragmented(EncodePrefix(1, request), 100));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_TRUE(decoded->request.ok()) << decoded->request.status();
  EXPECT_EQ(PushOf(*decoded->request), nullptr);
  EXPECT_EQ(PullStepOf(*decoded->request), Step(0));
  EXPECT_EQ(PayloadBytes(*decoded->request), 0u);
}

TEST(FrameTest, ReplyCarriesStatusVersionAndValues) {
  ExchangeReply reply = ErrorReply(absl::FailedPreconditionError("the shard has moved"), Epoch(8));
  auto decoded = DecodeReply(Fragmented(EncodePrefix(4, reply), 3));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->request_id, 4);
  EXPECT_EQ(decoded->reply.status, reply.status);
  EXPECT_EQ(decoded->reply.epoch, Epoch(8));

  reply = ExampleReply("abcdefgh");
  const std::string frame = EncodePrefix(5, reply) + "abcdefgh";
  decoded = DecodeReply(Fragmented(frame, 7));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->reply.version, 12);
  EXPECT_EQ(decoded->reply.min_step, Step(11));
  EXPECT_EQ(Bytes(decoded->reply.values), "abcdefgh");
  EXPECT_EQ(decoded->reply.codec, CodecType::kFloat32);

  reply.codec = CodecType::kBfloat16;
  decoded = DecodeReply(Fragmented(EncodePrefix(5, reply) + "abcdefgh", 7));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->reply.codec, CodecType::kBfloat16);
}

TEST(FrameTest, ReceiptsTravelInBothHeaders) {
  const std::string request = EncodePrefix(9, ExampleRequest("abcd"), 0) + "abcd";
  auto decoded = DecodeRequest(Fragmented(request, 100));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->received_bytes, 0u);
  EXPECT_FALSE(decoded->is_receipt);
  decoded = DecodeRequest(Fragmented(EncodePrefix(9, ExampleRequest("abcd")) + "abcd", 100));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_FALSE(decoded->received_bytes.has_value()) << "it has no receipts";

  const auto reply = DecodeReply(Fragmented(EncodePrefix(4, ExchangeReply(), 1u << 31), 3));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->received_bytes, 1u << 31);
  EXPECT_FALSE(reply->is_receipt());
}

TEST(FrameTest, AReceiptIsNeitherAnExchangeNorItsAnswer) {
  const auto request = DecodeRequest(Fragmented(EncodeReceipt<ExchangeRequest>(300), 1));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(request->is_receipt);
  EXPECT_EQ(request->received_bytes, 300u);
  const auto reply = DecodeReply(Fragmented(EncodeReceipt<ExchangeReply>(300), 1));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->is_receipt());
  EXPECT_EQ(reply->received_bytes, 300u);

  v1::ExchangeRequest message;
  message.mutable_header()->set_request_id(1);
  for (const bool has_receipts : {false, true}) {
    message.mutable_header()->set_has_receipts(has_receipts);
    const auto no_exchange = DecodeRequest(Fragmented(message.SerializeAsString(), 100));
    ASSERT_TRUE(no_exchange.ok()) << no_exchange.status();
    EXPECT_FALSE(no_exchange->is_receipt) << "it awaits an answer";
    EXPECT_TRUE(absl::IsInvalidArgument(no_exchange->request.status()));
  }
  const std::string error = EncodePrefix(0, ErrorReply(absl::InvalidArgumentError("no")));
  EXPECT_FALSE(DecodeReply(Fragmented(error, 100))->is_receipt());
}

TEST(FrameTest, ReceiptBytesAreGolden) {
  EXPECT_EQ(EncodeReceipt<ExchangeRequest>(300), std::string("\x0a\x05\x70\x01\x78\xac\x02", 7));
  EXPECT_EQ(EncodeReceipt<ExchangeReply>(300), std::string("\x0a\x03\x40\xac\x02", 5));
  const ExchangeRequest request = ExampleRequest("\x01\x02\x03\x04");
  const std::string frame = EncodePrefix(9, request, 5) + Bytes(BroughtBy(request));
  const std::string expected(
      "\x0a\x29\x08\x09\x11\xef\xcd\xab\x89\x67\x45\x23\x01\x18\x03\x21\x4d\x00\x00\x00\x00\x00"
      "\x00\x00\x28\x02\x30\x05\x38\x06\x42\x04\x08\x29\x10\x2a\x70\x01\x78\x05\x80\x01\x01\x12"
      "\x04\x01\x02\x03\x04",
      49);
  EXPECT_EQ(frame, expected);
}

TEST(FrameTest, AClientWithReceiptsReadsFramesThatFollow) {
  const std::string with = EncodePrefix(9, ExampleRequest("abcd"), 0) + "abcd";
  EXPECT_TRUE(DecodeRequest(Fragmented(with, 100))->reads_next);
  const std::string without = EncodePrefix(9, ExampleRequest("abcd")) + "abcd";
  EXPECT_FALSE(DecodeRequest(Fragmented(without, 100))->reads_next);
}

TEST(FrameTest, UnknownFieldsAreSkippedAndOrderIsFree) {
  v1::ExchangeRequestHeader header;
  header.set_worker(7);
  header.mutable_dense_step()->set_push_step(0);
  const std::string header_bytes = header.SerializeAsString();
  std::string frame("\x12\x04wxyz\x78\x05", 8);  // payload, then unknown field 15 = 5
  frame += '\x0a';
  frame += static_cast<char>(header_bytes.size());
  frame += header_bytes;
  const auto decoded = DecodeRequest(Fragmented(frame, 2));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_TRUE(decoded->request.ok()) << decoded->request.status();
  EXPECT_EQ(decoded->request->sender.worker, WorkerId(7));
  EXPECT_EQ(Bytes(BroughtBy(*decoded->request)), "wxyz");
}

// Garbage and truncated frames decode to an error or a message, without reads outside of the bytes.
TEST(FrameTest, GarbageIsRefusedWithoutHarm) {
  const uint64_t seed = 17;
  Random random(seed);
  const ExchangeRequest request = ExampleRequest("0123456789abcdef");
  const std::string frame = EncodePrefix(9, request) + Bytes(BroughtBy(request));
  for (size_t size = 1; size < frame.size(); ++size) {
    const auto decoded = DecodeRequest(Fragmented(frame.substr(0, size), 4));
    // Cut between its two fields, the frame is a message without a payload.
    const bool is_header_alone = size == frame.size() - 2 - 16;
    EXPECT_EQ(decoded.ok(), is_header_alone) << size;
    if (!decoded.ok()) {
      EXPECT_TRUE(absl::IsInvalidArgument(decoded.status()));
    }
  }
  for (int i = 0; i < 20'000; ++i) {
    const std::string garbage = WithFlips(frame, random);
    const auto decoded = DecodeRequest(Fragmented(garbage, 1 + random.UniformInt(40)));
    if (decoded.ok() && decoded->request.ok()) {
      EXPECT_LE(PayloadBytes(*decoded->request), garbage.size()) << "seed " << seed;
    }
  }
}

TEST(FrameTest, ATagWithoutAnEndIsRefusedInAnyFragments) {
  const ExchangeRequest request = ExampleRequest("0123456789abcdef");
  const std::string whole = EncodePrefix(9, request) + Bytes(BroughtBy(request));
  const std::string endless = whole + std::string(10, '\xd8');
  for (size_t fragment_bytes : {endless.size(), size_t{16}, size_t{3}, size_t{1}}) {
    EXPECT_FALSE(DecodeRequest(Fragmented(endless, fragment_bytes)).ok()) << fragment_bytes;
    EXPECT_FALSE(DecodeReply(Fragmented(endless, fragment_bytes)).ok()) << fragment_bytes;
  }
}

}  // namespace
}  // namespace capstan
