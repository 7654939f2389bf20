#include "common/wire/message_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"

namespace capstan {
namespace {

using Messages = std::vector<std::pair<std::string, std::string>>;

std::string ToString(absl::Span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

// A payload of two fragments.
Payload PayloadOf(const std::string& bytes, size_t first_piece) {
  const auto memory = std::make_shared<std::string>(bytes);
  const auto* const data = reinterpret_cast<const uint8_t*>(memory->data());
  Payload payload{std::shared_ptr<const void>(memory)};
  payload.Append({data, first_piece});
  payload.Append({data + first_piece, bytes.size() - first_piece});
  return payload;
}

// Result of ReadBatch.
bool Read(absl::string_view batch, Messages* messages) {
  // A copy of exact size, so that a sanitizer notices reads beyond the end.
  const std::vector<uint8_t> bytes(batch.begin(), batch.end());
  return ReadBatch(bytes,
                   [messages](absl::Span<const uint8_t> header, absl::Span<const uint8_t> payload) {
                     messages->emplace_back(ToString(header), ToString(payload));
                     return true;
                   });
}

// The bytes are a contract.
TEST(MessageBatchTest, LengthsAreLittleEndian) {
  std::string batch;
  AppendToBatch(std::string(258, 'h'), PayloadOf("payload", /*first_piece=*/3), &batch);
  EXPECT_EQ(batch, std::string("\2\1\0\0\7\0\0\0", 8) + std::string(258, 'h') + "payload");
}

TEST(MessageBatchTest, MessagesComeBackInOrder) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Messages expected;
    std::string batch;
    size_t bytes = 0;
    for (uint64_t i = random.UniformInt(10); i > 0; --i) {
      const std::string header(random.UniformInt(50), static_cast<char>('a' + i));
      const std::string payload(random.UniformInt(2000), static_cast<char>('A' + i));
      const Payload pieces = PayloadOf(payload, random.UniformInt(payload.size() + 1));
      bytes += BatchedBytes(header, pieces);
      AppendToBatch(header, pieces, &batch);
      expected.emplace_back(header, payload);
    }
    EXPECT_EQ(batch.size(), bytes);
    Messages messages;
    EXPECT_TRUE(Read(batch, &messages));
    EXPECT_EQ(messages, expected);
  }
}

TEST(MessageBatchTest, WhatEndsWithinAMessageIsRefusedAfterThoseThatAreWhole) {
  std::string batch;
  AppendToBatch("first", PayloadOf("payload", 3), &batch);
  const size_t first_bytes = batch.size();
  AppendToBatch("second", PayloadOf("another", 0), &batch);
  for (size_t bytes = 0; bytes <= batch.size(); ++bytes) {
    SCOPED_TRACE(bytes);
    Messages messages;
    const bool is_whole = bytes == 0 || bytes == first_bytes || bytes == batch.size();
    EXPECT_EQ(Read(absl::string_view(batch).substr(0, bytes), &messages), is_whole);
    EXPECT_EQ(messages.size(), bytes == batch.size() ? 2u : bytes >= first_bytes ? 1u : 0u);
  }
}

TEST(MessageBatchTest, LengthsThatOverflowAreRefused) {
  std::string batch(8, '\xff');
  Messages messages;
  EXPECT_FALSE(Read(batch, &messages));
  EXPECT_FALSE(Read(batch + std::string(100, 'x'), &messages));
  EXPECT_TRUE(messages.empty());
}

TEST(MessageBatchTest, ReadingEndsWhenItIsToldTo) {
  std::string batch;
  for (int i = 0; i < 3; ++i) AppendToBatch("header", Payload(), &batch);
  batch += "no message";
  int read = 0;
  const std::vector<uint8_t> bytes(batch.begin(), batch.end());
  EXPECT_TRUE(ReadBatch(bytes, [&read](auto, auto) { return ++read < 2; }));
  EXPECT_EQ(read, 2);
}

}  // namespace
}  // namespace capstan
