#include "common/wire/exchange_header.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/exchange/payload.h"

namespace capstan {
namespace {

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Decodes the header and a payload of `payload_bytes` bytes: 0, 1, 2 ...
ExchangeRequest Decoded(const std::string& header, size_t payload_bytes = 0) {
  RequestFrame frame;
  EXPECT_EQ(DecodeHeader(BytesOf(header), payload_bytes, &frame), absl::OkStatus());
  EXPECT_EQ(frame.payload_bytes, payload_bytes);
  EXPECT_FALSE(frame.is_receipt);
  if (!frame.request.ok()) {
    ADD_FAILURE() << frame.request.status();
    return {};
  }
  if (payload_bytes > 0) {
    const auto bytes = std::make_shared<std::vector<uint8_t>>(payload_bytes);
    for (size_t i = 0; i < payload_bytes; ++i) (*bytes)[i] = static_cast<uint8_t>(i);
    Payload payload(bytes);
    payload.Append(*bytes);
    SetPayload(std::move(payload), &frame);
  }
  return *std::move(frame.request);
}

std::string Encoded(const ExchangeRequest& request) {
  std::string header = "what was here before";
  EncodeHeader(/*request_id=*/0, request, &header);
  return header;
}

ExchangeRequest RequestFor(decltype(ExchangeRequest::purpose) purpose) {
  ExchangeRequest request;
  request.purpose = std::move(purpose);
  return request;
}

// A payload of `bytes` zeros.
Payload Zeros(size_t bytes) {
  const auto memory = std::make_shared<std::vector<uint8_t>>(bytes);
  Payload payload(memory);
  payload.Append(*memory);
  return payload;
}

std::vector<uint8_t> BytesIn(const Payload& payload) {
  std::vector<uint8_t> bytes(payload.size_bytes());
  payload.CopyTo(absl::MakeSpan(bytes));
  return bytes;
}

TEST(ExchangeHeaderTest, ARequestComesBackAsItWent) {
  ExchangeRequest request;
  request.sender = {0x0123456789abcdef, WorkerId(3), Incarnation(77)};
  request.epoch = Epoch(2);
  request.slice = {TableId(5), SliceIndex(6)};
  request.purpose =
      DenseStep{StepPush{Step(0), Gradient{Zeros(4), CodecType::kInt8}, 0, {0.0, 0.0}},
                StepPull{Step(1), true}, 300};
  std::string header;
  EncodeHeader(9, request, &header);
  RequestFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), /*payload_bytes=*/4, &frame).ok());
  EXPECT_EQ(frame.request_id, 9);
  EXPECT_FALSE(frame.received_bytes.has_value());
  const ExchangeRequest got = Decoded(header, /*payload_bytes=*/4);
  EXPECT_EQ(got.sender.job, request.sender.job);
  EXPECT_EQ(got.sender.worker, request.sender.worker);
  EXPECT_EQ(got.sender.incarnation, request.sender.incarnation);
  EXPECT_EQ(got.epoch, request.epoch);
  EXPECT_EQ(got.slice, request.slice);
  const auto& step = std::get<DenseStep>(got.purpose);
  EXPECT_EQ(step.copy, 300u);
  ASSERT_TRUE(step.push.has_value() && step.push->gradient.has_value() && step.pull.has_value());
  EXPECT_EQ(step.push->step, Step(0));
  EXPECT_EQ(step.push->base_version, 0u) << "version 0 is no absent one";
  EXPECT_EQ(step.push->rates.learning_rate, 0.0) << "a rate of 0 is no absent one";
  EXPECT_EQ(step.push->rates.momentum, 0.0) << "a momentum of 0 is no absent one";
  EXPECT_EQ(step.push->gradient->codec, CodecType::kInt8);
  EXPECT_EQ(BytesIn(step.push->gradient->bytes), std::vector<uint8_t>({0, 1, 2, 3}));
  EXPECT_EQ(step.pull->step, Step(1));
  EXPECT_TRUE(step.pull->is_float32);
}

TEST(ExchangeHeaderTest, APullAloneComesBackAsItWent) {
  const ExchangeRequest got =
      Decoded(Encoded(RequestFor(DenseStep{std::nullopt, StepPull{Step(7)}})));
  EXPECT_EQ(PushOf(got), nullptr);
  ASSERT_NE(PullOf(got), nullptr);
  EXPECT_EQ(PullOf(got)->step, Step(7));
  EXPECT_FALSE(PullOf(got)->is_float32);
}

TEST(ExchangeHeaderTest, APushWithoutAGradientIsNoneWithAnEmptyOne) {
  EXPECT_EQ(GradientOf(Decoded(Encoded(RequestFor(DenseStep{StepPush{Step(2)}})))), nullptr);
  EXPECT_NE(GradientOf(Decoded(Encoded(RequestFor(DenseStep{StepPush{Step(2), Gradient()}})))),
            nullptr);
}

TEST(ExchangeHeaderTest, RowsComeBackWithTheirKeys) {
  RowStep rows;
  rows.push = {Step(4), Gradient{Zeros(8), CodecType::kBfloat16}};
  rows.pull = {Step(5)};
  rows.pushed_keys = {3, 0x0102030405060708, Zeros(2)};
  rows.pulled_keys = {5, 9, Zeros(1)};
  const std::string header = Encoded(RequestFor(rows));
  const ExchangeRequest got = Decoded(header, /*payload_bytes=*/11);
  const auto& step = std::get<RowStep>(got.purpose);
  EXPECT_EQ(BytesIn(step.push->gradient->bytes), std::vector<uint8_t>({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(step.push->gradient->codec, CodecType::kBfloat16);
  EXPECT_EQ(step.pushed_keys.rows, 3u);
  EXPECT_EQ(step.pushed_keys.hash, 0x0102030405060708u);
  EXPECT_EQ(BytesIn(step.pushed_keys.bytes), std::vector<uint8_t>({8, 9}));
  EXPECT_EQ(step.pulled_keys.rows, 5u);
  EXPECT_EQ(step.pulled_keys.hash, 9u);
  EXPECT_EQ(BytesIn(step.pulled_keys.bytes), std::vector<uint8_t>({10}));
  EXPECT_EQ(BytesIn(TakePayload(ExchangeRequest(got))),
            std::vector<uint8_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));

  RequestFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header), /*payload_bytes=*/2, &frame).ok());
  EXPECT_EQ(frame.request.status(),
            absl::InvalidArgumentError("expected 3 bytes of keys, got a payload of 2"));
}

TEST(ExchangeHeaderTest, KeysWithoutRowsAreRefused) {
  for (const bool is_pushed : {false, true}) {
    v1::ExchangeRequestHeader header;
    v1::RowStep& step = *header.mutable_row_step();
    step.mutable_step()->set_pull_step(1);
    is_pushed ? step.set_pushed_key_bytes(3) : step.set_pulled_key_bytes(3);
    RequestFrame frame;
    ASSERT_TRUE(DecodeHeader(BytesOf(header.SerializeAsString()), 3, &frame).ok());
    EXPECT_EQ(frame.request.status(), absl::InvalidArgumentError("expected no keys without rows"));
  }
}

TEST(ExchangeHeaderTest, ACollectiveOperationComesBackAsItWent) {
  Collective collective;
  collective.step = Step(300);
  collective.number = uint64_t{1} << 40;
  collective.type = CollectiveType::kBroadcast;
  collective.dtype = CollectiveDtype::kInt64;
  collective.shape = {2, (uint64_t{1} << 33) + 2, 0};
  collective.root = WorkerId(0xfffffffe);
  collective.values = Zeros(3);
  const ExchangeRequest got = Decoded(Encoded(RequestFor(collective)), /*payload_bytes=*/3);
  const auto& part = std::get<Collective>(got.purpose);
  EXPECT_EQ(part.step, collective.step);
  EXPECT_EQ(part.number, collective.number);
  EXPECT_EQ(part.type, collective.type);
  EXPECT_EQ(part.dtype, collective.dtype);
  EXPECT_EQ(part.shape, collective.shape);
  EXPECT_EQ(part.root, collective.root);
  EXPECT_EQ(BytesIn(part.values), std::vector<uint8_t>({0, 1, 2}));
  EXPECT_EQ(BytesIn(TakePayload(ExchangeRequest(got))), std::vector<uint8_t>({0, 1, 2}));
  EXPECT_TRUE(
      std::get<Collective>(Decoded(Encoded(RequestFor(Collective()))).purpose).values.empty())
      << "a part may have no values";
}

TEST(ExchangeHeaderTest, TheStateOfAProgramComesBackAsItWent) {
  for (const bool is_program : {false, true}) {
    const ExchangeRequest got =
        Decoded(Encoded(RequestFor(WorkerState{300, Zeros(3), is_program})), /*payload_bytes=*/3);
    const auto& state = std::get<WorkerState>(got.purpose);
    EXPECT_EQ(state.cut, 300u);
    EXPECT_EQ(state.is_program, is_program);
    EXPECT_EQ(BytesIn(state.arrays), std::vector<uint8_t>({0, 1, 2}));
    const ExchangeRequest pull = Decoded(Encoded(RequestFor(WorkerStatePull{is_program})));
    EXPECT_EQ(std::get<WorkerStatePull>(pull.purpose).is_program, is_program);
  }
  const ExchangeRequest announced = Decoded(Encoded(RequestFor(WorkerState{0, Payload(), true})));
  EXPECT_EQ(std::get<WorkerState>(announced.purpose).cut, 0u);
  EXPECT_TRUE(std::get<WorkerState>(announced.purpose).is_program);
  EXPECT_TRUE(std::get<WorkerState>(announced.purpose).arrays.empty());
}

TEST(ExchangeHeaderTest, TheStateOfATableComesBackAsItWent) {
  const std::string header = Encoded(RequestFor(TableState{300, Zeros(3)}));
  const ExchangeRequest got = Decoded(header, /*payload_bytes=*/3);
  EXPECT_EQ(std::get<TableState>(got.purpose).cut, 300u);
  EXPECT_EQ(BytesIn(std::get<TableState>(got.purpose).arrays), std::vector<uint8_t>({0, 1, 2}));
  EXPECT_EQ(BytesIn(TakePayload(ExchangeRequest(got))), std::vector<uint8_t>({0, 1, 2}));
}

TEST(ExchangeHeaderTest, APayloadThatNobodyAsksForIsNamed) {
  const KeyList keys = {1, 9, Zeros(1)};
  const ExchangeRequest without[] = {
      RequestFor(DenseStep{std::nullopt, StepPull{Step(7)}}),
      RequestFor(DenseStep{StepPush{Step(7)}}),
      RequestFor(RowStep{std::nullopt, StepPull{Step(7)}, KeyList(), keys}),
      RequestFor(WorkerStatePull()),
      RequestFor(WorkerStatePull{/*is_program=*/true}),
      RequestFor(OptimizerStatePull()),
  };
  for (const ExchangeRequest& request : without) {
    const size_t keys = PayloadBytes(request);
    Decoded(Encoded(request), keys);
    RequestFrame frame;
    ASSERT_TRUE(DecodeHeader(BytesOf(Encoded(request)), keys + 1, &frame).ok());
    EXPECT_EQ(
        frame.request.status(),
        absl::InvalidArgumentError("got a payload of 1 bytes without a push, in an empty one, "
                                   "or in a pull of a state"));
  }
}

// The bytes are a contract: field numbers as in proto/exchange.proto.
TEST(ExchangeHeaderTest, BytesOfEachPurposeAreGoldenAndComeBack) {
  const std::pair<ExchangeRequest, std::string> expected[] = {
      {RequestFor(DenseStep()), std::string("\x42\x00", 2)},
      {RequestFor(DenseStep{StepPush{Step(1)}}), "\x42\x04\x08\x01\x20\x01"},
      {RequestFor(DenseStep{StepPush{Step(1), Gradient(), 5, {0.5}}}),
       std::string("\x42\x0d\x08\x01\x28\x05\x31\0\0\0\0\0\0\xe0\x3f", 15)},
      {RequestFor(DenseStep{StepPush{Step(1), Gradient(), std::nullopt, {std::nullopt, 0.5}}}),
       std::string("\x42\x0b\x08\x01\x49\0\0\0\0\0\0\xe0\x3f", 13)},
      {RequestFor(DenseStep{std::nullopt, StepPull{Step(1), true}, 300}),
       "\x42\x07\x10\x01\x38\x01\x40\xac\x02"},
      {RequestFor(RowStep{std::nullopt, StepPull{Step(1)}, KeyList(), KeyList{5, 9}}),
       std::string("\x4a\x0f\x0a\x02\x10\x01\x28\x05\x39\x09\0\0\0\0\0\0\0", 17)},
      {RequestFor(WorkerState{300, Payload()}), "\x52\x03\x08\xac\x02"},
      {RequestFor(WorkerState{300, Payload(), true}), "\x52\x05\x08\xac\x02\x10\x01"},
      {RequestFor(WorkerStatePull()), std::string("\x5a\x00", 2)},
      {RequestFor(WorkerStatePull{true}), "\x5a\x02\x08\x01"},
      {RequestFor(InitialValues()), std::string("\x62\x00", 2)},
      {RequestFor(Probe()), std::string("\x6a\x00", 2)},
      {RequestFor(OptimizerState{2, 300, Payload()}), "\x8a\x01\x05\x08\x02\x10\xac\x02"},
      {RequestFor(OptimizerStatePull{2}), "\x92\x01\x02\x08\x02"},
      {RequestFor(Collective()), "\x9a\x01\x04\x18\x06\x20\x01"},
      {RequestFor(Collective{Step(1),
                             2,
                             CollectiveType::kBroadcast,
                             CollectiveDtype::kFloat64,
                             {300, 4},
                             WorkerId(3)}),
       "\x9a\x01\x0f\x08\x01\x10\x02\x18\x05\x20\x02\x30\x03\x3a\x03\xac\x02\x04"},
      {RequestFor(TableState{300, Payload()}), "\xa2\x01\x03\x08\xac\x02"},
      {RequestFor(TableState{kFinalCut, Payload()}),
       "\xa2\x01\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
      {RequestFor(ReplicaRecord{ShardId(5), 2, 300, Incarnation(9), "ch", Payload()}),
       std::string("\xaa\x01\x14\x08\x05\x10\x02\x18\xac\x02\x21\x09\0\0\0\0\0\0\0\x2a\x02"
                   "ch",
                   23)},
  };
  for (const auto& [request, bytes] : expected) {
    EXPECT_EQ(Encoded(request), bytes);
    EXPECT_EQ(Decoded(bytes).purpose.index(), request.purpose.index());
  }
  ExchangeReply reply;
  reply.cut = 5;
  reply.copy = 301;
  std::string header;
  EncodeHeader(/*request_id=*/0, reply, &header);
  EXPECT_EQ(header, "\x50\x05\x60\xad\x02");
}

// A receipt has no id: who asks with an id awaits an answer.
TEST(ExchangeHeaderTest, AHeaderWithoutAPurposeIsAReceiptOrMalformed) {
  v1::ExchangeRequestHeader header;
  header.set_has_receipts(true);
  header.set_received_bytes(300);
  RequestFrame receipt;
  ASSERT_TRUE(DecodeHeader(BytesOf(header.SerializeAsString()), 0, &receipt).ok());
  EXPECT_TRUE(receipt.is_receipt);
  EXPECT_EQ(receipt.received_bytes, 300u);
  header.set_request_id(3);
  RequestFrame malformed;
  ASSERT_TRUE(DecodeHeader(BytesOf(header.SerializeAsString()), 0, &malformed).ok());
  EXPECT_FALSE(malformed.is_receipt);
  EXPECT_EQ(malformed.request_id, 3u);
  EXPECT_TRUE(absl::IsInvalidArgument(malformed.request.status()));
}

// float32 is the default, and takes no bytes.
TEST(ExchangeHeaderTest, BytesOfEveryCodecAreGolden) {
  const std::vector<std::pair<CodecType, std::string>> expected = {
      {CodecType::kFloat32, ""},          {CodecType::kBfloat16, "\x02"},
      {CodecType::kInt8, "\x03"},         {CodecType::kTopkFloat32, "\x04"},
      {CodecType::kTopkBfloat16, "\x05"}, {CodecType::kTopkInt8, "\x06"},
      {CodecType::kChanged, "\x07"},
  };
  for (const auto& [codec, number] : expected) {
    const std::string header =
        Encoded(RequestFor(DenseStep{StepPush{Step(1), Gradient{Payload(), codec}}}));
    EXPECT_EQ(header, number.empty() ? "\x42\x02\x08\x01" : "\x42\x04\x08\x01\x18" + number);
    EXPECT_EQ(GradientOf(Decoded(header))->codec, codec);
    ExchangeReply reply;
    reply.codec = codec;
    std::string bytes;
    EncodeHeader(/*request_id=*/0, reply, &bytes);
    EXPECT_EQ(bytes, number.empty() ? "" : "\x58" + number);
    ReplyFrame reply_frame;
    ASSERT_TRUE(DecodeHeader(BytesOf(bytes), &reply_frame).ok());
    EXPECT_EQ(reply_frame.reply.codec, codec);
  }
}

TEST(ExchangeHeaderTest, AnUnspecifiedCodecIsFloat32AndAnUnknownOneIsKept) {
  for (const auto& [number, codec] :
       {std::pair(0, CodecType::kFloat32), std::pair(1, CodecType::kFloat32),
        std::pair(99, static_cast<CodecType>(99)), std::pair(-1, static_cast<CodecType>(-1))}) {
    v1::ExchangeRequestHeader request;
    request.mutable_dense_step()->set_push_step(0);
    request.mutable_dense_step()->set_codec(static_cast<v1::Codec>(number));
    EXPECT_EQ(GradientOf(Decoded(request.SerializeAsString()))->codec, codec) << number;
    v1::ExchangeReplyHeader reply;
    reply.set_codec(static_cast<v1::Codec>(number));
    ReplyFrame reply_frame;
    ASSERT_TRUE(DecodeHeader(BytesOf(reply.SerializeAsString()), &reply_frame).ok());
    EXPECT_EQ(reply_frame.reply.codec, codec) << number;
  }
}

TEST(ExchangeHeaderTest, CollectiveOperationsAreNumberedAsInTheProto) {
  const std::pair<CollectiveType, v1::Collective::Type> types[] = {
      {CollectiveType::kSum, v1::Collective::SUM},
      {CollectiveType::kMean, v1::Collective::MEAN},
      {CollectiveType::kMin, v1::Collective::MIN},
      {CollectiveType::kMax, v1::Collective::MAX},
      {CollectiveType::kBroadcast, v1::Collective::BROADCAST},
      {CollectiveType::kBarrier, v1::Collective::BARRIER},
      {CollectiveType::kJoin, v1::Collective::JOIN},
      {CollectiveType::kEndOfStep, v1::Collective::END_OF_STEP},
  };
  EXPECT_EQ(std::size(types), size_t{v1::Collective::Type_MAX}) << "all but the unspecified one";
  for (const auto& [type, number] : types) {
    Collective part;
    part.type = type;
    const std::string header = Encoded(RequestFor(part));
    v1::ExchangeRequestHeader message;
    ASSERT_TRUE(message.ParseFromString(header));
    EXPECT_EQ(message.collective().type(), number);
    EXPECT_EQ(std::get<Collective>(Decoded(header).purpose).type, type);
  }
  const std::pair<CollectiveDtype, v1::Collective::Dtype> dtypes[] = {
      {CollectiveDtype::kFloat32, v1::Collective::FLOAT32},
      {CollectiveDtype::kFloat64, v1::Collective::FLOAT64},
      {CollectiveDtype::kInt64, v1::Collective::INT64},
  };
  EXPECT_EQ(std::size(dtypes), size_t{v1::Collective::Dtype_MAX}) << "all but the unspecified one";
  for (const auto& [dtype, number] : dtypes) {
    Collective part;
    part.dtype = dtype;
    const std::string header = Encoded(RequestFor(part));
    v1::ExchangeRequestHeader message;
    ASSERT_TRUE(message.ParseFromString(header));
    EXPECT_EQ(message.collective().dtype(), number);
    EXPECT_EQ(std::get<Collective>(Decoded(header).purpose).dtype, dtype);
  }
}

// 257 must not become the sum, or float32.
TEST(ExchangeHeaderTest, UnknownNumbersOfACollectiveOperationAreKept) {
  for (const int number : {0, 9, 99, 257, -1}) {
    v1::ExchangeRequestHeader header;
    header.mutable_collective()->set_type(static_cast<v1::Collective::Type>(number));
    header.mutable_collective()->set_dtype(static_cast<v1::Collective::Dtype>(number));
    const std::string bytes = header.SerializeAsString();
    const ExchangeRequest got = Decoded(bytes);
    const auto& part = std::get<Collective>(got.purpose);
    EXPECT_EQ(static_cast<int>(part.type), number);
    EXPECT_EQ(static_cast<int>(part.dtype), number);
    EXPECT_EQ(Encoded(got), bytes) << number;
  }
}

TEST(ExchangeHeaderTest, AShapeOfTooManyDimensionsIsRefused) {
  v1::ExchangeRequestHeader header;
  header.set_has_receipts(true);
  for (int i = 0; i < 64; ++i) header.mutable_collective()->add_shape(~uint64_t{0});
  const ExchangeRequest largest = Decoded(header.SerializeAsString());
  EXPECT_EQ(std::get<Collective>(largest.purpose).shape, std::vector<uint64_t>(64, ~uint64_t{0}));
  for (int i = 0; i < 100'000; ++i) header.mutable_collective()->add_shape(0);
  RequestFrame frame;
  ASSERT_TRUE(DecodeHeader(BytesOf(header.SerializeAsString()), 0, &frame).ok());
  EXPECT_EQ(frame.request.status(),
            absl::InvalidArgumentError("expected at most 64 dimensions, got 100064"));
  EXPECT_FALSE(frame.is_receipt);
}

// The field was that of an earlier version. Here it says 3.
TEST(ExchangeHeaderTest, ANumberOfElementsIsNoShape) {
  const ExchangeRequest got = Decoded("\x9a\x01\x06\x18\x01\x20\x01\x28\x03");
  EXPECT_TRUE(std::get<Collective>(got.purpose).shape.empty());
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
  reply.optimizer_steps = 300;
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
  EXPECT_EQ(frame.reply.optimizer_steps, 300u);
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
  EXPECT_EQ(DecodeHeader(BytesOf(garbage), /*payload_bytes=*/0, &request),
            absl::InvalidArgumentError(
                "malformed header: expected a capstan.v1.ExchangeRequestHeader of at most 1114112 "
                "bytes, got 12 bytes that are no such message"));
  ReplyFrame reply;
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeHeader(BytesOf(garbage), &reply)));
}

}  // namespace
}  // namespace capstan
