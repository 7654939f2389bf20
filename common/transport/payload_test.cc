#include "common/transport/payload.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace capstan {
namespace {

std::shared_ptr<uint8_t> Memory(const std::vector<float>& floats) {
  auto owner = std::make_shared<std::vector<float>>(floats);
  auto* const bytes = reinterpret_cast<uint8_t*>(owner->data());
  return {bytes, [owner](uint8_t*) {}};
}

TEST(PayloadTest, ExclusiveFloatsAreTakenWhereTheyLie) {
  Payload payload = Payload::Exclusive(Memory({1, 2, 3}), 12);
  const void* const lies = payload.fragments()[0].data();
  std::optional<HostBuffer> floats = payload.TakeFloats();
  ASSERT_TRUE(floats.has_value());
  EXPECT_EQ(floats->data(), lies);
  EXPECT_EQ(std::vector<float>(floats->span().begin(), floats->span().end()),
            (std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(floats->is_shared());
  EXPECT_TRUE(payload.empty());
}

TEST(PayloadTest, WhatAnotherPayloadHoldsIsNotTaken) {
  Payload payload = Payload::Exclusive(Memory({1, 2}), 8);
  std::optional<Payload> other = payload;
  EXPECT_FALSE(payload.TakeFloats().has_value());
  EXPECT_EQ(payload.size_bytes(), 8);
  other.reset();
  EXPECT_TRUE(payload.TakeFloats().has_value());
}

TEST(PayloadTest, SomebodyElsesMemoryIsNotTaken) {
  const std::shared_ptr<uint8_t> memory = Memory({1, 2});
  Payload payload(absl::Span<const float>(reinterpret_cast<const float*>(memory.get()), 2),
                  nullptr);
  EXPECT_FALSE(payload.TakeFloats().has_value());
}

TEST(PayloadTest, CopiesOntoItselfChangeNothing) {
  std::vector<float> floats = {1, 2, 3};
  const Payload payload(absl::MakeConstSpan(floats), nullptr);
  payload.CopyTo(absl::MakeSpan(floats));
  EXPECT_EQ(floats, (std::vector<float>{1, 2, 3}));
  std::vector<float> copy(3);
  payload.CopyTo(absl::MakeSpan(copy));
  EXPECT_EQ(copy, floats);
}

}  // namespace
}  // namespace capstan
