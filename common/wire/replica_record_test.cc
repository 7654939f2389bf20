#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/wire/frame.h"
#include "common/wire/frame_examples.h"
#include "proto/exchange.pb.h"

namespace capstan {
namespace {

using ::testing::StartsWith;

ExchangeRequest RequestWith(ReplicaRecord record) {
  ExchangeRequest request;
  request.sender = {0x0123456789abcdef, WorkerId(3), Incarnation(77)};
  request.epoch = Epoch(2);
  request.purpose = std::move(record);
  return request;
}

// The answer to a record with these numbers, as its receiver reads it.
absl::Status StatusOf(uint32_t shard, uint64_t sequence, size_t change_bytes = 0) {
  const ExchangeRequest request = RequestWith(
      {ShardId(shard), 2, sequence, Incarnation(9), std::string(change_bytes, 'x'), Payload()});
  const auto decoded = DecodeRequest(Fragmented(EncodePrefix(1, request), 1 << 16));
  return decoded.ok() ? decoded->request.status() : decoded.status();
}

TEST(ReplicaRecordTest, ComesBackAsItWent) {
  const std::string change("a change\0 of any bytes\xff", 22);
  const ExchangeRequest request =
      RequestWith({ShardId(65535), ~uint64_t{0}, ~uint64_t{0}, Incarnation(~uint64_t{0}), change,
                   Fragmented("floats", 4)});
  const std::string frame = EncodePrefix(9, request) + Bytes(TakePayload(ExchangeRequest(request)));
  const auto decoded = DecodeRequest(Fragmented(frame, 5));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->request_id, 9u);
  ASSERT_TRUE(decoded->request.ok()) << decoded->request.status();
  EXPECT_EQ(decoded->request->sender.worker, WorkerId(3));
  EXPECT_EQ(decoded->request->sender.incarnation, Incarnation(77));
  EXPECT_EQ(decoded->request->epoch, Epoch(2));
  ASSERT_TRUE(std::holds_alternative<ReplicaRecord>(decoded->request->purpose));
  const auto& record = std::get<ReplicaRecord>(decoded->request->purpose);
  EXPECT_EQ(record.shard, ShardId(65535));
  EXPECT_EQ(record.copy, ~uint64_t{0});
  EXPECT_EQ(record.sequence, ~uint64_t{0});
  EXPECT_EQ(record.backup, Incarnation(~uint64_t{0}));
  EXPECT_EQ(record.change, change);
  EXPECT_EQ(Bytes(record.bytes), "floats");

  v1::ExchangeRequest message;
  ASSERT_TRUE(message.ParseFromString(frame));
  EXPECT_EQ(message.SerializeAsString(), frame) << "as a protobuf library would write it";
}

TEST(ReplicaRecordTest, MayBeAChangeWithoutBytesOrBytesAlone) {
  for (const std::string bytes : {"", "floats"}) {
    const ExchangeRequest request =
        RequestWith({ShardId(0), 1, 1, Incarnation(9), "", Fragmented(bytes, 4)});
    const auto decoded = DecodeRequest(Fragmented(EncodePrefix(1, request) + bytes, 100));
    ASSERT_TRUE(decoded.ok() && decoded->request.ok());
    EXPECT_EQ(Bytes(std::get<ReplicaRecord>(decoded->request->purpose).bytes), bytes);
  }
}

TEST(ReplicaRecordTest, NumbersThatCannotBeAreRefused) {
  EXPECT_EQ(StatusOf(/*shard=*/65535, /*sequence=*/1), absl::OkStatus());
  EXPECT_EQ(
      StatusOf(/*shard=*/65536, /*sequence=*/1),
      absl::InvalidArgumentError("expected a record of a shard below 65536, got shard 65536"));
  EXPECT_EQ(StatusOf(/*shard=*/7, /*sequence=*/0),
            absl::InvalidArgumentError("expected records of shard 7 from 1 on, got record 0"));
}

TEST(ReplicaRecordTest, ALongChangeIsRefused) {
  EXPECT_EQ(StatusOf(0, 1, kMaxChangeBytes), absl::OkStatus());
  EXPECT_EQ(StatusOf(0, 1, kMaxChangeBytes + 1),
            absl::InvalidArgumentError(
                "expected a record with a change of at most 1048576 bytes, got 1048577"));
}

TEST(ReplicaRecordTest, ALongHeaderIsNotRead) {
  EXPECT_THAT(std::string(StatusOf(0, 1, kMaxHeaderBytes).message()),
              StartsWith("malformed frame: expected a capstan.v1.ExchangeRequestHeader of at most "
                         "1114112 bytes and a payload"));
  RequestFrame frame;
  const std::string header(kMaxHeaderBytes + 1, '\0');
  EXPECT_TRUE(absl::IsInvalidArgument(
      DecodeHeader({reinterpret_cast<const uint8_t*>(header.data()), header.size()}, 0, &frame)));
}

// The sender learns from a refusal which record is expected.
TEST(ReplicaRecordTest, ARefusalHasAVersion) {
  ExchangeReply reply = ErrorReply(absl::FailedPreconditionError("another record"), Epoch(8));
  reply.version = 12;
  const auto decoded = DecodeReply(Fragmented(EncodePrefix(4, reply), 3));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->reply.status, reply.status);
  EXPECT_EQ(decoded->reply.version, 12u);
}

}  // namespace
}  // namespace capstan
