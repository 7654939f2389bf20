// Several frames in one message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "common/base/random.h"
#include "common/exchange/request_parts.h"
#include "common/wire/frame.h"
#include "common/wire/frame_examples.h"
#include "proto/exchange.pb.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

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

TEST(FramesTogetherTest, RequestsTogetherAreTheProtobufMessageThatALibraryWouldWrite) {
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

TEST(FramesTogetherTest, RepliesTogetherAreTheProtobufMessageThatALibraryWouldWrite) {
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
TEST(FramesTogetherTest, BytesOfFramesTogetherAreGolden) {
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

TEST(FramesTogetherTest, RequestsTogetherSurviveAnyFragmentation) {
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
      ASSERT_TRUE(decoded[i]->request.ok()) << decoded[i]->request.status();
      EXPECT_EQ(decoded[i]->request->sender.worker, WorkerId(3));
      EXPECT_EQ(PushStepOf(*decoded[i]->request), Step(41));
      EXPECT_TRUE(decoded[i]->reads_next);
      EXPECT_EQ(Bytes(BroughtBy(*decoded[i]->request)), gradients[i]) << fragment_bytes;
    }
  }
}

TEST(FramesTogetherTest, RepliesTogetherSurviveAnyFragmentation) {
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

TEST(FramesTogetherTest, NothingFollowsAFrameThatFollowsAnother) {
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

TEST(FramesTogetherTest, AtMost63FramesFollow) {
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

TEST(FramesTogetherTest, FramesThatFollowMayBeAnywhereInTheMessage) {
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
  EXPECT_EQ(Bytes(BroughtBy(*first->request)), "wxyz");
  ASSERT_EQ(next.size(), 3);
  EXPECT_EQ(Bytes(next[0]), second);
  EXPECT_EQ(Bytes(next[1]), third);
  EXPECT_TRUE(next[2].empty());
}

// True if `part` lies in the memory of `whole`, a result of Fragmented.
bool IsWithin(const Payload& part, const Payload& whole) {
  const Payload::Fragment first = whole.fragments().front(), last = whole.fragments().back();
  return absl::c_all_of(part.fragments(), [&](Payload::Fragment fragment) {
    return fragment.data() >= first.data() &&
           fragment.data() + fragment.size() <= last.data() + last.size();
  });
}

// The same for messages of several frames.
TEST(FramesTogetherTest, GarbageTogetherIsRefusedWithoutHarm) {
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
      if (decoded.ok() && decoded->request.ok()) {
        EXPECT_TRUE(IsWithin(BroughtBy(*decoded->request), garbage))
            << "seed " << seed << ", message " << i;
      }
    }
  }
  EXPECT_GT(decoded_count, 1000) << "too few frames followed; seed " << seed;
}

}  // namespace
}  // namespace capstan
