#include "common/transport/grpc/grpc_payload.h"

#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/wire/frame.h"
#include "proto/exchange.pb.h"

namespace capstan {
namespace {

std::vector<grpc::Slice> Slices(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(message.Dump(&slices).ok());
  return slices;
}

std::string Bytes(const grpc::ByteBuffer& message) {
  std::string bytes;
  for (const grpc::Slice& slice : Slices(message)) bytes.append(slice.begin(), slice.end());
  return bytes;
}

// A copy of `bytes` in fragments of at most `fragment_bytes`.
Payload PayloadOf(const std::string& bytes, size_t fragment_bytes = 1 << 20) {
  const auto owner = std::make_shared<std::string>(bytes);
  Payload payload(owner);
  for (size_t i = 0; i < owner->size(); i += fragment_bytes) {
    payload.Append({reinterpret_cast<const uint8_t*>(owner->data()) + i,
                    std::min(fragment_bytes, owner->size() - i)});
  }
  return payload;
}

// Adds a reply to `message`. Returns the same reply as a generated message.
v1::ExchangeReply AddReply(uint64_t request_id, const std::string& values, GrpcMessage& message) {
  ExchangeReply reply;
  reply.version = request_id;
  reply.values = PayloadOf(values, /*fragment_bytes=*/7);
  std::string prefix = EncodePrefix(request_id, reply, /*received_bytes=*/9);
  message.Add(std::move(prefix), std::move(reply.values));

  v1::ExchangeReply generated;
  generated.mutable_header()->set_request_id(request_id);
  generated.mutable_header()->set_version(request_id);
  generated.mutable_header()->set_min_step(ExchangeReply().min_step.value());
  generated.mutable_header()->set_received_bytes(9);
  generated.set_payload(values);
  return generated;
}

TEST(GrpcMessageTest, OneFrameOfAnySizeIsNotCopied) {
  for (const size_t bytes :
       {size_t{1}, size_t{100}, GrpcMessage::kTogetherBytes, size_t{1} << 20}) {
    Payload payload = PayloadOf(std::string(bytes, 'x'));
    const uint8_t* const lies = payload.fragments()[0].data();
    const std::weak_ptr<const void> owner = payload.owner();
    GrpcMessage message;
    message.Add("prefix", std::move(payload));
    grpc::ByteBuffer taken = message.Take();
    {
      const std::vector<grpc::Slice> slices = Slices(taken);
      ASSERT_EQ(slices.size(), 2) << bytes;
      EXPECT_EQ(std::string(slices[0].begin(), slices[0].end()), "prefix");
      EXPECT_EQ(slices[1].begin(), lies) << bytes;
      EXPECT_EQ(slices[1].size(), bytes);
    }
    EXPECT_FALSE(owner.expired()) << bytes;
    taken.Clear();
    EXPECT_TRUE(owner.expired()) << bytes;
  }
}

TEST(GrpcMessageTest, TheMemoryOfSmallFramesThatGoTogetherIsLetGoAtOnce) {
  GrpcMessage message;
  std::vector<std::weak_ptr<const void>> owners;
  for (int i = 0; i < 3; ++i) {
    Payload payload = PayloadOf("abcd");
    owners.push_back(payload.owner());
    message.Add("prefix", std::move(payload));
  }
  EXPECT_FALSE(owners[0].expired());
  const grpc::ByteBuffer taken = message.Take();
  for (const auto& owner : owners) EXPECT_TRUE(owner.expired());
  EXPECT_EQ(Slices(taken).size(), 1);
}

TEST(GrpcMessageTest, SmallFramesGoTogetherUpToABound) {
  GrpcMessage message;
  EXPECT_TRUE(message.Takes(GrpcMessage::kTogetherBytes));
  message.Add("prefix", PayloadOf(std::string(GrpcMessage::kTogetherBytes - 100, 'x')));
  EXPECT_TRUE(message.Takes(100));
  EXPECT_FALSE(message.Takes(101));
  message.Add("prefix", PayloadOf(std::string(40, 'x')));
  EXPECT_TRUE(message.Takes(60));
  EXPECT_FALSE(message.Takes(61));
  message.Add("prefix", PayloadOf(std::string(60, 'x')));
  EXPECT_TRUE(message.Takes(0)) << "what has no payload adds nothing";
  EXPECT_FALSE(message.Takes(1));
}

TEST(GrpcMessageTest, AtMost63FramesFollowTheFirst) {
  GrpcMessage message;
  v1::ExchangeReply expected = AddReply(1, "", message);
  for (uint64_t id = 2; id <= 64; ++id) {
    EXPECT_TRUE(message.Takes(0)) << id;
    *expected.add_next() = AddReply(id, "", message);
  }
  EXPECT_FALSE(message.Takes(0));
  const grpc::ByteBuffer taken = message.Take();
  EXPECT_EQ(Bytes(taken), expected.SerializeAsString());
  NextFrames next;
  EXPECT_TRUE(DecodeReply(FromByteBuffer(taken), &next).ok()) << "the other end takes as many";
  EXPECT_EQ(next.size(), 63);
}

TEST(GrpcMessageTest, ALargeFrameGoesAlone) {
  GrpcMessage message;
  EXPECT_TRUE(message.Takes(1 << 20)) << "any frame may be the first";
  message.Add("prefix", PayloadOf(std::string(GrpcMessage::kTogetherBytes + 1, 'x')));
  EXPECT_FALSE(message.Takes(1));
  EXPECT_FALSE(message.Takes(0));

  message.Take();
  message.Add("prefix", PayloadOf("abcd"));
  EXPECT_FALSE(message.Takes(GrpcMessage::kTogetherBytes + 1)) << "after a small one";
}

void ExpectGeneratedBytes(const std::vector<std::string>& values) {
  GrpcMessage message;
  v1::ExchangeReply expected = AddReply(1, values[0], message);
  EXPECT_EQ(Bytes(message.Take()), expected.SerializeAsString()) << "alone";
  expected = AddReply(1, values[0], message);
  for (size_t i = 1; i < values.size(); ++i) {
    *expected.add_next() = AddReply(1 + i, values[i], message);
  }
  EXPECT_EQ(Bytes(message.Take()), expected.SerializeAsString());
}

TEST(GrpcMessageTest, GivesTheBytesThatGeneratedCodeWould) {
  const std::string piece(20'000, 'y');
  ExpectGeneratedBytes({"0123456789abcdef", "", std::string(300, 'x'), piece, "z"});
  ExpectGeneratedBytes({piece, std::string(GrpcMessage::kCopiedBytes, 'x'), "", "z"});
}

TEST(GrpcMessageTest, LargePayloadsGoTogetherWhereTheyLie) {
  GrpcMessage message;
  std::vector<std::weak_ptr<const void>> owners;
  std::vector<const uint8_t*> places;
  for (const size_t bytes : {size_t{100}, GrpcMessage::kCopiedBytes}) {
    Payload payload = PayloadOf(std::string(bytes, 'x'));
    owners.push_back(payload.owner());
    places.push_back(payload.fragments()[0].data());
    message.Add("prefix", std::move(payload));
  }
  grpc::ByteBuffer taken = message.Take();
  const std::vector<grpc::Slice> slices = Slices(taken);
  ASSERT_EQ(slices.size(), 4);
  EXPECT_EQ(slices[1].begin(), places[0]);
  EXPECT_EQ(slices[3].begin(), places[1]);
  for (const auto& owner : owners) EXPECT_FALSE(owner.expired());
}

TEST(GrpcMessageTest, AfterAFrameWithALongHeaderNoneFollows) {
  GrpcMessage message;
  message.Add(std::string(GrpcMessage::kTogetherBytes, 'x'), Payload());
  EXPECT_TRUE(message.Takes(1));
  message.Add("x", Payload());
  EXPECT_FALSE(message.Takes(0));
}

TEST(GrpcMessageTest, IsEmptyAgainOnceTaken) {
  GrpcMessage message;
  EXPECT_TRUE(message.empty());
  message.Add(std::string(GrpcMessage::kTogetherBytes + 1, 'x'), Payload());
  message.Take();
  message.Add("prefix", PayloadOf(std::string(GrpcMessage::kTogetherBytes, 'x')));
  message.Add("prefix", Payload());
  EXPECT_FALSE(message.empty());
  message.Take();
  EXPECT_TRUE(message.empty());
  const std::string expected = AddReply(1, "abcd", message).SerializeAsString();
  EXPECT_TRUE(message.Takes(GrpcMessage::kTogetherBytes - 4)) << "earlier payloads do not count";
  EXPECT_EQ(Bytes(message.Take()), expected) << "it is a first frame again";
}

}  // namespace
}  // namespace capstan
