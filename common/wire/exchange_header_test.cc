#include "common/wire/exchange_header.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"

namespace capstan {
namespace {

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(ExchangeHeaderTest, ARequestComesBackAsItWent) {
  ExchangeRequest request;
  request.job = 0x0123456789abcdef;
  request.worker = WorkerId(3);
  request.incarnation = Incarnation(77);
  request.epoch = Epoch(2);
  request.slice = {TableId(5), SliceIndex(6)};
  request.push_step = Step(0);
  request.pull_step = Step(1);
  request.base_version = 0;
  request.codec = CodecType::kInt8;
  std::string header = "what was here before";
  EncodeHeader(9, request, &header);
  RequestFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), &frame).ok());
  EXPECT_EQ(frame.request_id, 9);
  EXPECT_EQ(frame.request.job, request.job);
  EXPECT_EQ(frame.request.worker, request.worker);
  EXPECT_EQ(frame.request.incarnation, request.incarnation);
  EXPECT_EQ(frame.request.epoch, request.epoch);
  EXPECT_EQ(frame.request.slice, request.slice);
  EXPECT_EQ(frame.request.push_step, Step(0)) << "step 0 is no absent one";
  EXPECT_EQ(frame.request.pull_step, Step(1));
  EXPECT_EQ(frame.request.base_version, 0u) << "version 0 is no absent one";
  EXPECT_EQ(frame.request.codec, CodecType::kInt8);
  EXPECT_FALSE(frame.received_bytes.has_value());
}

TEST(ExchangeHeaderTest, APullAloneComesBackAsItWent) {
  ExchangeRequest request;
  request.pull_step = Step(7);
  std::string header;
  EncodeHeader(1, request, &header);
  RequestFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), &frame).ok());
  EXPECT_FALSE(frame.request.push_step.has_value());
  EXPECT_FALSE(frame.request.base_version.has_value());
  EXPECT_EQ(frame.request.pull_step, Step(7));
  EXPECT_EQ(frame.request.codec, CodecType::kFloat32);
}

TEST(ExchangeHeaderTest, AnExchangeOfOwnStateIsNoReceipt) {
  ExchangeRequest sent, pulled;
  sent.own_cut = kFinalCut;
  pulled.pulls_own = true;
  for (const ExchangeRequest& request : {sent, pulled}) {
    v1::ExchangeRequestHeader header = ToHeader(3, request);
    header.set_has_receipts(true);
    RequestFrame frame;
    ASSERT_TRUE(DecodeHeader(BytesOf(header.SerializeAsString()), &frame).ok());
    EXPECT_EQ(frame.request.own_cut, request.own_cut);
    EXPECT_EQ(frame.request.pulls_own, request.pulls_own);
    EXPECT_EQ(frame.received_bytes, 0u);
    EXPECT_FALSE(frame.is_receipt());
  }
}

TEST(ExchangeHeaderTest, AProbeIsNoReceipt) {
  ExchangeRequest request;
  request.is_probe = true;
  v1::ExchangeRequestHeader header = ToHeader(3, request);
  EXPECT_EQ(header.ByteSizeLong(), 2u + 3u);
  header.set_has_receipts(true);
  RequestFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header.SerializeAsString()), &frame).ok());
  EXPECT_TRUE(frame.request.is_probe);
  EXPECT_FALSE(frame.is_receipt());
}

// The bytes are a contract: field numbers as in proto/exchange.proto.
TEST(ExchangeHeaderTest, BytesOfOwnStateAreGolden) {
  ExchangeRequest request;
  request.own_cut = 300;
  request.pulls_own = true;
  ExchangeReply reply;
  reply.cut = 5;
  std::string header;
  EncodeHeader(/*request_id=*/0, request, &header);
  EXPECT_EQ(header, std::string("\xa8\x01\xac\x02\xb0\x01\x01", 7));
  EncodeHeader(/*request_id=*/0, reply, &header);
  EXPECT_EQ(header, std::string("\x50\x05", 2));
}

TEST(ExchangeHeaderTest, BytesOfAPullForFloat32AreGolden) {
  ExchangeRequest request;
  request.pulls_float32 = true;
  std::string header;
  EncodeHeader(/*request_id=*/0, request, &header);
  EXPECT_EQ(header, std::string("\xb8\x01\x01", 3));
  RequestFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), &frame).ok());
  EXPECT_TRUE(frame.request.pulls_float32);
}

TEST(ExchangeHeaderTest, BytesOfTheNumberOfACopyAreGolden) {
  ExchangeRequest request;
  request.copy = 300;
  std::string header;
  EncodeHeader(/*request_id=*/0, request, &header);
  EXPECT_EQ(header, "\xc0\x01\xac\x02");
  RequestFrame request_frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), &request_frame).ok());
  EXPECT_EQ(request_frame.request.copy, 300u);
  EXPECT_EQ(PullAlone(request_frame.request).copy, 300u);
  ExchangeReply reply;
  reply.copy = 301;
  EncodeHeader(/*request_id=*/0, reply, &header);
  EXPECT_EQ(header, "\x60\xad\x02");
  ReplyFrame reply_frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), &reply_frame).ok());
  EXPECT_EQ(reply_frame.reply.copy, 301u);
}

TEST(ExchangeHeaderTest, BytesOfALearningRateAreGolden) {
  ExchangeRequest request;
  request.learning_rate = 0.5;
  std::string header;
  EncodeHeader(/*request_id=*/0, request, &header);
  EXPECT_EQ(header, std::string("\xd0\x01\x01\xd9\x01\0\0\0\0\0\0\xe0\x3f", 13));
  RequestFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), &frame).ok());
  EXPECT_EQ(frame.request.learning_rate, 0.5);
  EXPECT_FALSE(PullAlone(frame.request).learning_rate.has_value());
}

TEST(ExchangeHeaderTest, ALearningRateOfZeroIsNoAbsentOne) {
  ExchangeRequest request;
  request.learning_rate = 0;
  std::string header;
  EncodeHeader(/*request_id=*/0, request, &header);
  RequestFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), &frame).ok());
  EXPECT_EQ(frame.request.learning_rate, 0.0);
}

TEST(ExchangeHeaderTest, BytesOfAnEmptyPushAreGolden) {
  ExchangeRequest request;
  request.is_empty_push = true;
  std::string header;
  EncodeHeader(/*request_id=*/0, request, &header);
  EXPECT_EQ(header, std::string("\xe0\x01\x01", 3));
  RequestFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), &frame).ok());
  EXPECT_TRUE(frame.request.is_empty_push);
  EXPECT_FALSE(PullAlone(frame.request).is_empty_push);
}

TEST(ExchangeHeaderTest, BytesOfRowsAreGolden) {
  ExchangeRequest request;
  request.rows.push = {3, 300, 0x0102030405060708};
  request.rows.pull = {5, 1, 9};
  std::string header;
  EncodeHeader(/*request_id=*/0, request, &header);
  EXPECT_EQ(header,
            std::string("\xf0\x01\x03\xf8\x01\xac\x02\x81\x02\x08\x07\x06\x05\x04\x03\x02\x01"
                        "\x88\x02\x05\x90\x02\x01\x99\x02\x09\0\0\0\0\0\0\0",
                        33));
  RequestFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), &frame).ok());
  for (const auto& [got, sent] : {std::pair(frame.request.rows.push, request.rows.push),
                                  std::pair(frame.request.rows.pull, request.rows.pull)}) {
    EXPECT_EQ(got.rows, sent.rows);
    EXPECT_EQ(got.key_bytes, sent.key_bytes);
    EXPECT_EQ(got.keys_hash, sent.keys_hash);
  }
  const ExchangeRequest pull = PullAlone(frame.request);
  EXPECT_EQ(pull.rows.push.rows, 0u);
  EXPECT_EQ(pull.rows.pull.rows, 5u);
  EXPECT_EQ(pull.rows.pull.key_bytes, 0u) << "the server has them";
  EXPECT_EQ(pull.rows.pull.keys_hash, 9u);
}

TEST(ExchangeHeaderTest, BytesOfInitialValuesAreGoldenAndNoReceipt) {
  ExchangeRequest request;
  request.is_initial = true;
  std::string header;
  EncodeHeader(/*request_id=*/0, request, &header);
  EXPECT_EQ(header, std::string("\xe8\x01\x01", 3));
  v1::ExchangeRequestHeader with_receipts = ToHeader(/*request_id=*/3, request);
  with_receipts.set_has_receipts(true);
  RequestFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(with_receipts.SerializeAsString()), &frame).ok());
  EXPECT_TRUE(frame.request.is_initial);
  EXPECT_FALSE(frame.is_receipt());
}

// float32 is the default, and takes no bytes: so it was before there were other codecs.
TEST(ExchangeHeaderTest, BytesOfEveryCodecAreGolden) {
  const std::vector<std::pair<CodecType, std::string>> expected = {
      {CodecType::kFloat32, ""},          {CodecType::kBfloat16, "\x02"},
      {CodecType::kInt8, "\x03"},         {CodecType::kTopkFloat32, "\x04"},
      {CodecType::kTopkBfloat16, "\x05"}, {CodecType::kTopkInt8, "\x06"},
      {CodecType::kChanged, "\x07"},
  };
  for (const auto& [codec, number] : expected) {
    ExchangeRequest request;
    request.codec = codec;
    ExchangeReply reply;
    reply.codec = codec;
    std::string header;
    EncodeHeader(/*request_id=*/0, request, &header);
    EXPECT_EQ(header, number.empty() ? "" : "\xa0\x01" + number);
    RequestFrame request_frame;
    ASSERT_TRUE(DecodeHeader(BytesOf(header), &request_frame).ok());
    EXPECT_EQ(request_frame.request.codec, codec);
    EncodeHeader(/*request_id=*/0, reply, &header);
    EXPECT_EQ(header, number.empty() ? "" : "\x58" + number);
    ReplyFrame reply_frame;
    ASSERT_TRUE(DecodeHeader(BytesOf(header), &reply_frame).ok());
    EXPECT_EQ(reply_frame.reply.codec, codec);
  }
}

TEST(ExchangeHeaderTest, AnUnspecifiedCodecIsFloat32AndAnUnknownOneIsKept) {
  for (const auto& [number, codec] :
       {std::pair(0, CodecType::kFloat32), std::pair(1, CodecType::kFloat32),
        std::pair(99, static_cast<CodecType>(99)), std::pair(-1, static_cast<CodecType>(-1))}) {
    v1::ExchangeRequestHeader request;
    request.set_codec(static_cast<v1::Codec>(number));
    RequestFrame request_frame;
    ASSERT_TRUE(DecodeHeader(BytesOf(request.SerializeAsString()), &request_frame).ok());
    EXPECT_EQ(request_frame.request.codec, codec) << number;
    v1::ExchangeReplyHeader reply;
    reply.set_codec(static_cast<v1::Codec>(number));
    ReplyFrame reply_frame;
    ASSERT_TRUE(DecodeHeader(BytesOf(reply.SerializeAsString()), &reply_frame).ok());
    EXPECT_EQ(reply_frame.reply.codec, codec) << number;
  }
}

TEST(ExchangeHeaderTest, AnErrorOfAPeerMayBePrinted) {
  ExchangeReply reply;
  reply.status = absl::InternalError("\x1b[2J\n");
  std::string header;
  EncodeHeader(1, reply, &header);
  ReplyFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), &frame).ok());
  EXPECT_EQ(frame.reply.status, absl::InternalError("\\x1b[2J\\x0a"));
}

TEST(ExchangeHeaderTest, RepliesComeBackAsTheyWent) {
  ExchangeReply reply;
  reply.version = 12;
  reply.min_step = Step(11);
  reply.epoch = Epoch(8);
  reply.learning_rate_divisor = 14;
  reply.cut = 3;
  reply.codec = CodecType::kBfloat16;
  std::string header;
  EncodeHeader(4, reply, &header);
  ReplyFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), &frame).ok());
  EXPECT_EQ(frame.request_id, 4);
  EXPECT_TRUE(frame.reply.status.ok());
  EXPECT_EQ(frame.reply.version, 12);
  EXPECT_EQ(frame.reply.min_step, Step(11));
  EXPECT_EQ(frame.reply.epoch, Epoch(8));
  EXPECT_EQ(frame.reply.learning_rate_divisor, 14u);
  EXPECT_EQ(frame.reply.cut, 3u);
  EXPECT_EQ(frame.reply.codec, CodecType::kBfloat16);

  const ExchangeReply error = ErrorReply(absl::FailedPreconditionError("it has moved"), Epoch(9));
  EncodeHeader(5, error, &header);
  ReplyFrame refused;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), &refused).ok());
  EXPECT_EQ(refused.reply.status, error.status);
  EXPECT_EQ(refused.reply.epoch, Epoch(9));
}

TEST(ExchangeHeaderTest, WhatIsNoHeaderIsNamed) {
  const std::string garbage = "\xff\xff no header";
  RequestFrame request;
  EXPECT_EQ(DecodeHeader(BytesOf(garbage), &request),
            absl::InvalidArgumentError(
                "malformed header: expected a capstan.v1.ExchangeRequestHeader, got 12 bytes that "
                "are no such message"));
  ReplyFrame reply;
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeHeader(BytesOf(garbage), &reply)));
}

}  // namespace
}  // namespace capstan
