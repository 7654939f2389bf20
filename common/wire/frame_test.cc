#include "common/wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "common/base/random.h"
#include "proto/exchange.pb.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

// `bytes` cut into fragments of at most `fragment_bytes`.
Payload Fragmented(const std::string& bytes, size_t fragment_bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  Payload payload(owner);
  for (size_t i = 0; i < owner->size(); i += fragment_bytes) {
    payload.Append({reinterpret_cast<const uint8_t*>(owner->data()) + i,
                    std::min(fragment_bytes, owner->size() - i)});
  }
  return payload;
}

std::string Bytes(const Payload& payload) {
  std::string bytes;
  for (const Payload::Fragment fragment : payload.fragments()) {
    bytes.append(reinterpret_cast<const char*>(fragment.data()), fragment.size());
  }
  return bytes;
}

ExchangeRequest ExampleRequest(const std::string& gradient) {
  ExchangeRequest request;
  request.job = 0x0123456789abcdef;
  request.worker = WorkerId(3);
  request.incarnation = Incarnation(77);
  request.epoch = Epoch(2);
  request.slice = {TableId(5), SliceIndex(6)};
  request.push_step = Step(41);
  request.pull_step = Step(42);
  request.gradient = Fragmented(gradient, 5);
  return request;
}

// ExampleRequest of a client with receipts, as a generated message.
v1::ExchangeRequest GeneratedRequest(uint64_t request_id, const std::string& gradient) {
  v1::ExchangeRequest request;
  request.mutable_header()->set_request_id(request_id);
  request.mutable_header()->set_job(0x0123456789abcdef);
  request.mutable_header()->set_worker(3);
  request.mutable_header()->set_incarnation(77);
  request.mutable_header()->set_epoch(2);
  request.mutable_header()->set_table(5);
  request.mutable_header()->set_slice(6);
  request.mutable_header()->set_has_push(true);
  request.mutable_header()->set_push_step(41);
  request.mutable_header()->set_has_pull(true);
  request.mutable_header()->set_pull_step(42);
  request.mutable_header()->set_has_receipts(true);
  request.mutable_header()->set_reads_next(true);
  request.set_payload(gradient);
  return request;
}

v1::ExchangeReply GeneratedReply(uint64_t request_id, const std::string& values) {
  v1::ExchangeReply reply;
  reply.mutable_header()->set_request_id(request_id);
  reply.mutable_header()->set_version(12);
  reply.mutable_header()->set_min_step(11);
  reply.set_payload(values);
  return reply;
}

// A message of several frames.
std::string Together(const std::vector<std::string>& frames) {
  std::string message = frames[0];
  for (size_t i = 1; i < frames.size(); ++i) {
    message += EncodeNextPrefix(frames[i].size()) + frames[i];
  }
  return message;
}

// An empty payload, and payloads of sizes that take 1 to 3 bytes as a varint.
std::vector<std::string> ExamplePayloads() {
  return {"0123456789abcdef", "", std::string(200, 'x'), std::string(20'000, 'y'), "z"};
}

TEST(FrameTest, RequestIsTheProtobufMessageThatALibraryWouldWrite) {
  const ExchangeRequest request = ExampleRequest("0123456789abcdef");
  const std::string frame = EncodePrefix(9, request) + Bytes(request.gradient);
  v1::ExchangeRequest message;
  ASSERT_TRUE(message.ParseFromString(frame));
  EXPECT_EQ(message.SerializeAsString(), frame);
  EXPECT_EQ(message.payload(), "0123456789abcdef");
  EXPECT_EQ(message.header().request_id(), 9);
  EXPECT_EQ(message.header().job(), request.job);
  EXPECT_EQ(message.header().worker(), 3);
  EXPECT_EQ(message.header().incarnation(), 77);
  EXPECT_EQ(message.header().epoch(), 2);
  EXPECT_EQ(message.header().table(), 5);
  EXPECT_EQ(message.header().slice(), 6);
  EXPECT_EQ(message.header().push_step(), 41);
  EXPECT_EQ(message.header().pull_step(), 42);
}

// The bytes are a contract: little-endian, field numbers as in proto/exchange.proto.
TEST(FrameTest, RequestBytesAreGolden) {
  const ExchangeRequest request = ExampleRequest("\x01\x02\x03\x04");
  const std::string frame = EncodePrefix(9, request) + Bytes(request.gradient);
  const std::string expected(
      "\x0a\x24\x08\x09\x11\xef\xcd\xab\x89\x67\x45\x23\x01\x18\x03\x21\x4d\x00\x00\x00\x00\x00"
      "\x00\x00\x28\x02\x30\x05\x38\x06\x40\x01\x48\x29\x50\x01\x58\x2a\x12\x04\x01\x02\x03\x04",
      44);
  EXPECT_EQ(frame, expected);
}

TEST(FrameTest, RequestSurvivesAnyFragmentation) {
  const ExchangeRequest request = ExampleRequest("0123456789abcdef");
  const std::string frame = EncodePrefix(9, request) + Bytes(request.gradient);
  for (size_t fragment_bytes = 1; fragment_bytes <= frame.size(); ++fragment_bytes) {
    const auto decoded = DecodeRequest(Fragmented(frame, fragment_bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->request_id, 9);
    EXPECT_EQ(decoded->request.worker, request.worker);
    EXPECT_EQ(decoded->request.slice, request.slice);
    EXPECT_EQ(decoded->request.push_step, request.push_step);
    EXPECT_EQ(decoded->request.pull_step, request.pull_step);
    EXPECT_EQ(Bytes(decoded->request.gradient), "0123456789abcdef");
  }
}

TEST(FrameTest, AbsentPushAndPullStayAbsent) {
  ExchangeRequest request;
  request.pull_step = Step(0);
  const auto decoded = DecodeRequest(Fragmented(EncodePrefix(1, request), 100));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_FALSE(decoded->request.push_step.has_value());
  EXPECT_EQ(decoded->request.pull_step, Step(0));
  EXPECT_TRUE(decoded->request.gradient.empty());
}

TEST(FrameTest, ReplyCarriesStatusVersionAndValues) {
  ExchangeReply reply = ErrorReply(absl::FailedPreconditionError("the shard has moved"), Epoch(8));
  auto decoded = DecodeReply(Fragmented(EncodePrefix(4, reply), 3));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->request_id, 4);
  EXPECT_EQ(decoded->reply.status, reply.status);
  EXPECT_EQ(decoded->reply.epoch, Epoch(8));

  reply = ExchangeReply();
  reply.version = 12;
  reply.min_step = Step(11);
  reply.values = Fragmented("abcdefgh", 8);
  const std::string frame = EncodePrefix(5, reply) + "abcdefgh";
  decoded = DecodeReply(Fragmented(frame, 7));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->reply.version, 12);
  EXPECT_EQ(decoded->reply.min_step, Step(11));
  EXPECT_EQ(Bytes(decoded->reply.values), "abcdefgh");
}

TEST(FrameTest, ReceiptsTravelInBothHeaders) {
  const std::string request = EncodePrefix(9, ExampleRequest("abcd"), 0) + "abcd";
  auto decoded = DecodeRequest(Fragmented(request, 100));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->received_bytes, 0u);
  EXPECT_FALSE(decoded->is_receipt());
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
  EXPECT_TRUE(request->is_receipt());
  EXPECT_EQ(request->received_bytes, 300u);
  const auto reply = DecodeReply(Fragmented(EncodeReceipt<ExchangeReply>(300), 1));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->is_receipt());
  EXPECT_EQ(reply->received_bytes, 300u);

  const auto no_exchange = DecodeRequest(Fragmented(EncodePrefix(1, ExchangeRequest()), 100));
  ASSERT_TRUE(no_exchange.ok()) << no_exchange.status();
  EXPECT_FALSE(no_exchange->is_receipt()) << "of a client that has no receipts";
  const std::string error = EncodePrefix(0, ErrorReply(absl::InvalidArgumentError("no")));
  EXPECT_FALSE(DecodeReply(Fragmented(error, 100))->is_receipt());
}

TEST(FrameTest, ReceiptBytesAreGolden) {
  EXPECT_EQ(EncodeReceipt<ExchangeRequest>(300),
            std::string("\x0a\x06\x78\x01\x80\x01\xac\x02", 8));
  EXPECT_EQ(EncodeReceipt<ExchangeReply>(300), std::string("\x0a\x03\x40\xac\x02", 5));
  const ExchangeRequest request = ExampleRequest("\x01\x02\x03\x04");
  const std::string frame = EncodePrefix(9, request, 5) + Bytes(request.gradient);
  const std::string expected(
      "\x0a\x2c\x08\x09\x11\xef\xcd\xab\x89\x67\x45\x23\x01\x18\x03\x21\x4d\x00\x00\x00\x00\x00"
      "\x00\x00\x28\x02\x30\x05\x38\x06\x40\x01\x48\x29\x50\x01\x58\x2a\x78\x01\x80\x01\x05"
      "\x88\x01\x01\x12\x04\x01\x02\x03\x04",
      52);
  EXPECT_EQ(frame, expected);
}

TEST(FrameTest, AClientWithReceiptsReadsFramesThatFollow) {
  const std::string with = EncodePrefix(9, ExampleRequest("abcd"), 0) + "abcd";
  EXPECT_TRUE(DecodeRequest(Fragmented(with, 100))->reads_next);
  const std::string without = EncodePrefix(9, ExampleRequest("abcd")) + "abcd";
  EXPECT_FALSE(DecodeRequest(Fragmented(without, 100))->reads_next);
}

TEST(FrameTest, RequestsTogetherAreTheProtobufMessageThatALibraryWouldWrite) {
  std::vector<std::string> frames;
  v1::ExchangeRequest expected;
  for (const std::string& gradient : ExamplePayloads()) {
    const uint64_t id = 1 + frames.size();
    frames.push_back(EncodePrefix(id, ExampleRequest(gradient), 0) + gradient);
    (id == 1 ? expected : *expected.add_next()) = GeneratedRequest(id, gradient);
  }
  EXPECT_EQ(Together(frames), expected.SerializeAsString());
  v1::ExchangeRequest message;
  ASSERT_TRUE(message.ParseFromString(Together(frames)));
  ASSERT_EQ(message.next_size(), 4);
  EXPECT_EQ(message.next(2).header().request_id(), 4);
  EXPECT_EQ(message.next(2).payload(), std::string(20'000, 'y'));
}

TEST(FrameTest, RepliesTogetherAreTheProtobufMessageThatALibraryWouldWrite) {
  std::vector<std::string> frames;
  v1::ExchangeReply expected;
  for (const std::string& values : ExamplePayloads()) {
    const uint64_t id = 1 + frames.size();
    ExchangeReply reply;
    reply.version = 12;
    reply.min_step = Step(11);
    reply.values = Fragmented(values, 5);
    frames.push_back(EncodePrefix(id, reply) + values);
    (id == 1 ? expected : *expected.add_next()) = GeneratedReply(id, values);
  }
  EXPECT_EQ(Together(frames), expected.SerializeAsString());
  v1::ExchangeReply message;
  ASSERT_TRUE(message.ParseFromString(Together(frames)));
  ASSERT_EQ(message.next_size(), 4);
  EXPECT_EQ(message.next(3).header().request_id(), 5);
  EXPECT_EQ(message.next(3).payload(), "z");
}

// A receipt and a reply in one message.
TEST(FrameTest, BytesOfFramesTogetherAreGolden) {
  ExchangeReply reply;
  reply.version = 2;
  reply.min_step = Step(1);
  reply.values = Fragmented("wxyz", 4);
  const std::string expected(
      "\x0a\x03\x40\xac\x02"
      "\x1a\x0e\x0a\x06\x08\x04\x20\x02\x28\x01\x12\x04wxyz",
      21);
  EXPECT_EQ(Together({EncodeReceipt<ExchangeReply>(300), EncodePrefix(4, reply) + "wxyz"}),
            expected);
}

TEST(FrameTest, RequestsTogetherSurviveAnyFragmentation) {
  const std::vector<std::string> gradients = {"0123456789abcdef", "", "xyz"};
  v1::ExchangeRequest generated = GeneratedRequest(1, gradients[0]);
  *generated.add_next() = GeneratedRequest(2, gradients[1]);
  *generated.add_next() = GeneratedRequest(3, gradients[2]);
  const std::string message = generated.SerializeAsString();
  for (size_t fragment_bytes = 1; fragment_bytes <= message.size(); ++fragment_bytes) {
    NextFrames next;
    std::vector<absl::StatusOr<RequestFrame>> decoded;
    decoded.push_back(DecodeRequest(Fragmented(message, fragment_bytes), &next));
    ASSERT_EQ(next.size(), 2) << fragment_bytes;
    for (const Payload& frame : next) decoded.push_back(DecodeRequest(frame));
    for (size_t i = 0; i < decoded.size(); ++i) {
      ASSERT_TRUE(decoded[i].ok()) << decoded[i].status();
      EXPECT_EQ(decoded[i]->request_id, 1 + i);
      EXPECT_EQ(decoded[i]->request.worker, WorkerId(3));
      EXPECT_EQ(decoded[i]->request.push_step, Step(41));
      EXPECT_TRUE(decoded[i]->reads_next);
      EXPECT_EQ(Bytes(decoded[i]->request.gradient), gradients[i]) << fragment_bytes;
    }
  }
}

TEST(FrameTest, RepliesTogetherSurviveAnyFragmentation) {
  const std::vector<std::string> values = {"", "0123456789abcdef", "xyz"};
  v1::ExchangeReply generated = GeneratedReply(1, values[0]);
  *generated.add_next() = GeneratedReply(2, values[1]);
  *generated.add_next() = GeneratedReply(3, values[2]);
  const std::string message = generated.SerializeAsString();
  for (size_t fragment_bytes = 1; fragment_bytes <= message.size(); ++fragment_bytes) {
    NextFrames next;
    std::vector<absl::StatusOr<ReplyFrame>> decoded;
    decoded.push_back(DecodeReply(Fragmented(message, fragment_bytes), &next));
    ASSERT_EQ(next.size(), 2) << fragment_bytes;
    for (const Payload& frame : next) decoded.push_back(DecodeReply(frame));
    for (size_t i = 0; i < decoded.size(); ++i) {
      ASSERT_TRUE(decoded[i].ok()) << decoded[i].status();
      EXPECT_EQ(decoded[i]->request_id, 1 + i);
      EXPECT_EQ(decoded[i]->reply.version, 12);
      EXPECT_EQ(Bytes(decoded[i]->reply.values), values[i]) << fragment_bytes;
    }
  }
}

TEST(FrameTest, NothingFollowsAFrameThatFollowsAnother) {
  v1::ExchangeRequest message = GeneratedRequest(1, "abcd");
  *message.add_next() = GeneratedRequest(2, "abcd");
  const std::string two = message.SerializeAsString();
  *message.mutable_next(0)->add_next() = GeneratedRequest(3, "abcd");
  const std::string nested = message.SerializeAsString();

  NextFrames next;
  EXPECT_TRUE(DecodeRequest(Fragmented(nested, 100), &next).ok()) << "the first is as it should be";
  ASSERT_EQ(next.size(), 1);
  for (const Payload& frame : {next[0], Fragmented(two, 100)}) {
    const absl::Status status = DecodeRequest(frame).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("no frame within one that follows"));
  }
  v1::ExchangeReply reply = GeneratedReply(1, "abcd");
  reply.add_next();
  EXPECT_TRUE(
      absl::IsInvalidArgument(DecodeReply(Fragmented(reply.SerializeAsString(), 100)).status()));
}

TEST(FrameTest, AtMost63FramesFollow) {
  v1::ExchangeRequest message = GeneratedRequest(1, "abcd");
  for (uint64_t id = 2; id <= 64; ++id) *message.add_next() = GeneratedRequest(id, "abcd");
  NextFrames next;
  const auto full = DecodeRequest(Fragmented(message.SerializeAsString(), 50), &next);
  EXPECT_TRUE(full.ok()) << full.status();
  ASSERT_EQ(next.size(), 63);
  EXPECT_EQ(DecodeRequest(next.back())->request_id, 64);

  *message.add_next() = GeneratedRequest(65, "abcd");
  NextFrames too_many;
  const absl::Status status =
      DecodeRequest(Fragmented(message.SerializeAsString(), 50), &too_many).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 63 frames that follow"));
  EXPECT_TRUE(too_many.empty()) << "it is refused as a whole";
}

TEST(FrameTest, FramesThatFollowMayBeAnywhereInTheMessage) {
  v1::ExchangeRequest header_alone = GeneratedRequest(1, "");
  const std::string second = GeneratedRequest(2, "abcd").SerializeAsString();
  const std::string third = GeneratedRequest(3, "").SerializeAsString();
  const std::string message = EncodeNextPrefix(second.size()) + second + "\x12\x04wxyz" +
                              EncodeNextPrefix(third.size()) + third +
                              header_alone.SerializeAsString() + EncodeNextPrefix(0);
  NextFrames next;
  const auto first = DecodeRequest(Fragmented(message, 7), &next);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->request_id, 1);
  EXPECT_EQ(Bytes(first->request.gradient), "wxyz");
  ASSERT_EQ(next.size(), 3);
  EXPECT_EQ(Bytes(next[0]), second);
  EXPECT_EQ(Bytes(next[1]), third);
  EXPECT_TRUE(next[2].empty());
}

TEST(FrameTest, UnknownFieldsAreSkippedAndOrderIsFree) {
  v1::ExchangeRequestHeader header;
  header.set_worker(7);
  const std::string header_bytes = header.SerializeAsString();
  std::string frame("\x12\x04wxyz\x78\x05", 8);  // payload, then unknown field 15 = 5
  frame += '\x0a';
  frame += static_cast<char>(header_bytes.size());
  frame += header_bytes;
  const auto decoded = DecodeRequest(Fragmented(frame, 2));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->request.worker, WorkerId(7));
  EXPECT_EQ(Bytes(decoded->request.gradient), "wxyz");
}

// `message` with three random bytes overwritten.
std::string WithFlips(std::string message, Random& random) {
  for (int flips = 0; flips < 3; ++flips) {
    message[random.UniformInt(message.size())] = static_cast<char>(random());
  }
  return message;
}

// True if `part` lies in the memory of `whole`, a result of Fragmented.
bool IsWithin(const Payload& part, const Payload& whole) {
  const Payload::Fragment first = whole.fragments().front(), last = whole.fragments().back();
  return absl::c_all_of(part.fragments(), [&](Payload::Fragment fragment) {
    return fragment.data() >= first.data() &&
           fragment.data() + fragment.size() <= last.data() + last.size();
  });
}

// Garbage and truncated frames decode to an error or a message, without reads outside of the bytes.
TEST(FrameTest, GarbageIsRefusedWithoutHarm) {
  const uint64_t seed = 17;
  Random random(seed);
  const ExchangeRequest request = ExampleRequest("0123456789abcdef");
  const std::string frame = EncodePrefix(9, request) + Bytes(request.gradient);
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
    if (decoded.ok()) {
      EXPECT_LE(decoded->request.gradient.size_bytes(), garbage.size()) << "seed " << seed;
    }
  }
}

TEST(FrameTest, ATagWithoutAnEndIsRefusedInAnyFragments) {
  const ExchangeRequest request = ExampleRequest("0123456789abcdef");
  const std::string whole = EncodePrefix(9, request) + Bytes(request.gradient);
  const std::string endless = whole + std::string(10, '\xd8');
  for (size_t fragment_bytes : {endless.size(), size_t{16}, size_t{3}, size_t{1}}) {
    EXPECT_FALSE(DecodeRequest(Fragmented(endless, fragment_bytes)).ok()) << fragment_bytes;
    EXPECT_FALSE(DecodeReply(Fragmented(endless, fragment_bytes)).ok()) << fragment_bytes;
  }
}

// The same for messages of several frames.
TEST(FrameTest, GarbageTogetherIsRefusedWithoutHarm) {
  const uint64_t seed = 18;
  Random random(seed);
  const std::string frame = EncodePrefix(9, ExampleRequest("abcd"), 0) + "abcd";
  const std::string message = Together({frame, frame, frame, frame});
  const size_t follower_bytes = (message.size() - frame.size()) / 3;
  for (size_t size = frame.size(); size <= message.size(); ++size) {
    NextFrames next;
    const auto decoded = DecodeRequest(Fragmented(message.substr(0, size), 4), &next);
    // Cut between two frames, the message has fewer frames.
    const bool is_whole = (size - frame.size()) % follower_bytes == 0;
    EXPECT_EQ(decoded.ok(), is_whole) << size;
    EXPECT_EQ(next.size(), is_whole ? (size - frame.size()) / follower_bytes : 0) << size;
  }
  int decoded_count = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Payload garbage = Fragmented(WithFlips(message, random), 1 + random.UniformInt(40));
    NextFrames next;
    if (DecodeRequest(garbage, &next).ok()) ++decoded_count;
    for (const Payload& follower : next) {
      EXPECT_TRUE(IsWithin(follower, garbage)) << "seed " << seed << ", message " << i;
      const auto decoded = DecodeRequest(follower);
      if (decoded.ok()) {
        EXPECT_TRUE(IsWithin(decoded->request.gradient, garbage))
            << "seed " << seed << ", message " << i;
      }
    }
  }
  EXPECT_GT(decoded_count, 1000) << "too few frames followed; seed " << seed;
}

}  // namespace
}  // namespace capstan
