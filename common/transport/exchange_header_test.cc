#include "common/transport/exchange_header.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "proto/exchange.pb.h"

namespace capstan {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::io::CodedInputStream;

constexpr uint64_t kSeed = 23;

// A number of any length, among them 0 and all ones.
uint64_t AnyNumber(Random& random) {
  const auto bits = random.UniformInt(66);
  if (bits == 65) return ~uint64_t{0};
  const uint64_t number = uint64_t{random()} << 32 | random();
  return bits == 0 ? 0 : number >> (64 - bits);
}

// Sets every field of the message by its description, so that none is forgotten.
template <typename Proto>
Proto AnyMessage(Random& random) {
  Proto message;
  const google::protobuf::Reflection& reflection = *Proto::GetReflection();
  for (int i = 0; i < Proto::descriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = Proto::descriptor()->field(i);
    const uint64_t number = AnyNumber(random);
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        reflection.SetBool(&message, field, number % 2 != 0);
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.SetInt32(&message, field, static_cast<int32_t>(number));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.SetInt64(&message, field, static_cast<int64_t>(number));
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        reflection.SetUInt32(&message, field, static_cast<uint32_t>(number));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.SetUInt64(&message, field, number);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.SetString(&message, field, std::string(number % 300, 'x'));
        break;
      default:
        ADD_FAILURE() << "a field of a type that the test does not know: " << field->name();
    }
  }
  return message;
}

template <typename Header>
bool Read(const std::string& bytes, Header* header) {
  CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                         static_cast<int>(bytes.size()));
  return MergeHeader(input, header);
}

template <typename Header>
std::string Written(const Header& header) {
  std::string bytes = "before";
  AppendHeader(header, &bytes);
  EXPECT_EQ(bytes.substr(0, 6), "before");
  return bytes.substr(6);
}

template <typename Proto, typename Header>
void ExpectSameBytesAsGeneratedCode() {
  Random random(kSeed);
  for (int i = 0; i < 2000; ++i) {
    const std::string bytes = AnyMessage<Proto>(random).SerializeAsString();
    Header header;
    ASSERT_TRUE(Read(bytes, &header)) << "seed " << kSeed << ", message " << i;
    ASSERT_EQ(Written(header), bytes) << "seed " << kSeed << ", message " << i;
  }
  EXPECT_EQ(Written(Header()), "");
}

TEST(ExchangeHeaderTest, RequestsAreAsGeneratedCodeReadsAndWritesThem) {
  ExpectSameBytesAsGeneratedCode<v1::ExchangeRequestHeader, RequestHeader>();
}

TEST(ExchangeHeaderTest, RepliesAreAsGeneratedCodeReadsAndWritesThem) {
  ExpectSameBytesAsGeneratedCode<v1::ExchangeReplyHeader, ReplyHeader>();
}

TEST(ExchangeHeaderTest, FieldsHaveTheirNames) {
  v1::ExchangeRequestHeader message;
  message.set_request_id(1);
  message.set_job(2);
  message.set_worker(3);
  message.set_incarnation(4);
  message.set_epoch(5);
  message.set_table(6);
  message.set_slice(7);
  message.set_push_step(-8);
  message.set_pull_step(9);
  message.set_received_bytes(11);
  message.set_base_version(12);
  RequestHeader request;
  ASSERT_TRUE(Read(message.SerializeAsString(), &request));
  EXPECT_EQ(request.request_id, 1);
  EXPECT_EQ(request.job, 2);
  EXPECT_EQ(request.worker, 3);
  EXPECT_EQ(request.incarnation, 4);
  EXPECT_EQ(request.epoch, 5);
  EXPECT_EQ(request.table, 6);
  EXPECT_EQ(request.slice, 7);
  EXPECT_EQ(request.push_step, -8);
  EXPECT_EQ(request.pull_step, 9);
  EXPECT_EQ(request.received_bytes, 11);
  EXPECT_EQ(request.base_version, 12);

  v1::ExchangeReplyHeader answer;
  answer.set_request_id(1);
  answer.set_code(-2);
  answer.set_message("why");
  answer.set_version(4);
  answer.set_min_step(-5);
  answer.set_epoch(6);
  answer.set_received_bytes(8);
  answer.set_learning_rate_divisor(9);
  ReplyHeader reply;
  ASSERT_TRUE(Read(answer.SerializeAsString(), &reply));
  EXPECT_EQ(reply.request_id, 1);
  EXPECT_EQ(reply.code, -2);
  EXPECT_EQ(reply.message, "why");
  EXPECT_EQ(reply.version, 4);
  EXPECT_EQ(reply.min_step, -5);
  EXPECT_EQ(reply.epoch, 6);
  EXPECT_EQ(reply.received_bytes, 8);
  EXPECT_EQ(reply.learning_rate_divisor, 9);
}

// Each alone, as they are all of one value.
TEST(ExchangeHeaderTest, SwitchesHaveTheirNames) {
  using Header = v1::ExchangeRequestHeader;
  const std::vector<std::pair<void (Header::*)(bool), bool RequestHeader::*>> switches = {
      {&Header::set_has_push, &RequestHeader::has_push},
      {&Header::set_has_pull, &RequestHeader::has_pull},
      {&Header::set_has_receipts, &RequestHeader::has_receipts},
      {&Header::set_reads_next, &RequestHeader::reads_next},
      {&Header::set_has_base_version, &RequestHeader::has_base_version}};
  for (const auto& [set, is_on] : switches) {
    Header message;
    (message.*set)(true);
    RequestHeader request;
    ASSERT_TRUE(Read(message.SerializeAsString(), &request));
    int on = 0;
    for (const auto& [other_set, other] : switches) on += request.*other;
    EXPECT_TRUE(request.*is_on);
    EXPECT_EQ(on, 1);
  }
}

TEST(ExchangeHeaderTest, OrderIsFreeTheLastCountsAndUnknownFieldsAreSkipped) {
  v1::ExchangeRequestHeader first, last, unknown;
  first.set_received_bytes(300);
  first.set_worker(1);
  last.set_worker(2);
  last.set_request_id(9);
  // Field 100 and, of another type than it should be, field 3.
  const std::string other("\xa0\x06\x05\x1a\x02zz", 7);
  RequestHeader header;
  ASSERT_TRUE(Read(first.SerializeAsString() + other + last.SerializeAsString(), &header));
  EXPECT_EQ(header.request_id, 9);
  EXPECT_EQ(header.worker, 2);
  EXPECT_EQ(header.received_bytes, 300);
}

// More than 5 bytes: generated code refuses tags of such a length, protobuf's streams take them.
bool HasLongNumber(const std::string& bytes) {
  int continued = 0;
  for (const char byte : bytes) {
    continued = (byte & 0x80) != 0 ? continued + 1 : 0;
    if (continued == 5) return true;
  }
  return false;
}

// What generated code refuses is refused, and what it takes is taken, alike.
TEST(ExchangeHeaderTest, GarbageIsTakenOrRefusedAsByGeneratedCode) {
  Random random(kSeed);
  int taken = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes = AnyMessage<v1::ExchangeRequestHeader>(random).SerializeAsString();
    bytes.resize(random.UniformInt(bytes.size() + 1));
    for (int flips = 0; flips < 2 && !bytes.empty(); ++flips) {
      bytes[random.UniformInt(bytes.size())] = static_cast<char>(random());
    }
    v1::ExchangeRequestHeader expected;
    const bool is_message = expected.ParseFromString(bytes);
    RequestHeader header;
    if (Read(bytes, &header) != is_message) {
      ASSERT_TRUE(!is_message && HasLongNumber(bytes)) << "seed " << kSeed << ", message " << i;
      continue;
    }
    if (!is_message) continue;
    ++taken;
    expected.DiscardUnknownFields();
    ASSERT_EQ(Written(header), expected.SerializeAsString()) << "seed " << kSeed << ", " << i;
  }
  EXPECT_GT(taken, 1000);
  EXPECT_LT(taken, 49'000);
}

}  // namespace
}  // namespace capstan
