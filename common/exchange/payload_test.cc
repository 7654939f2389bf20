#include "common/exchange/payload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
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

// Floats 0, 1, 2 ... in fragments of `fragment_bytes`. The first begins at an odd address.
Payload Fragmented(size_t floats, size_t fragment_bytes) {
  auto owner = std::make_shared<std::vector<uint8_t>>(floats * sizeof(float) + 1);
  for (size_t i = 0; i < floats; ++i) {
    const float value = static_cast<float>(i);
    std::memcpy(owner->data() + 1 + i * sizeof(float), &value, sizeof(float));
  }
  Payload payload(owner);
  for (size_t begin = 1; begin < owner->size(); begin += fragment_bytes) {
    payload.Append({owner->data() + begin, std::min(fragment_bytes, owner->size() - begin)});
  }
  return payload;
}

TEST(PayloadTest, BlocksAreAllFloatsInOrderWhateverTheFragments) {
  for (const size_t floats :
       {size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{20'000}}) {
    for (const size_t fragment_bytes : {1, 3, 16'384, 16'385, 65'527, 1'000'000}) {
      size_t next = 0;
      EXPECT_TRUE(Fragmented(floats, fragment_bytes)
                      .ForEachBlock([&next](size_t offset, absl::Span<const float> block) {
                        EXPECT_EQ(offset, next);
                        for (const float value : block) EXPECT_EQ(value, next++);
                        return !block.empty();
                      }));
      EXPECT_EQ(next, floats) << "fragments of " << fragment_bytes << " bytes";
    }
  }
}

TEST(PayloadTest, BlocksEndWhereTheirUserSaysSo) {
  int blocks = 0;
  EXPECT_FALSE(Fragmented(20'000, 100).ForEachBlock([&blocks](size_t, absl::Span<const float>) {
    return ++blocks < 2;
  }));
  EXPECT_EQ(blocks, 2);
  EXPECT_TRUE(Payload().ForEachBlock([](size_t, absl::Span<const float>) { return false; }));
}

TEST(PayloadTest, WhatLiesInOnePieceIsOneBlockThatIsNotCopied) {
  const std::vector<float> floats(20'000, 1.0f);
  const Payload payload(absl::MakeConstSpan(floats), nullptr);
  EXPECT_TRUE(payload.ForEachBlock([&floats](size_t offset, absl::Span<const float> block) {
    EXPECT_EQ(offset, 0);
    EXPECT_EQ(block.data(), floats.data());
    return block.size() == floats.size();
  }));
}

TEST(PayloadTest, SeveralFragmentsAreCopiedIntoOnePieceAndOneIsNot) {
  for (const size_t fragments : {1, 2, 3}) {
    const Payload payload = Fragmented(/*floats=*/6, /*fragment_bytes=*/24 / fragments);
    ASSERT_EQ(payload.fragments().size(), fragments);
    const Payload whole = payload.InOnePiece();
    ASSERT_EQ(whole.fragments().size(), 1u);
    EXPECT_EQ(whole.piece().data() == payload.fragments()[0].data(), fragments == 1);
    std::vector<float> floats(6);
    std::memcpy(floats.data(), whole.piece().data(), whole.piece().size());
    EXPECT_EQ(floats, (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
}

TEST(PayloadTest, AppendedPayloadsKeepTheMemoryOfBothAlive) {
  std::shared_ptr<uint8_t> first = Memory({1, 2}), second = Memory({3});
  const std::weak_ptr<uint8_t> owners[] = {first, second};
  Payload whole = Payload::Exclusive(std::move(first), 8);
  whole.Append(Payload::Exclusive(std::move(second), 4));
  whole.Append(Payload());
  for (const auto& owner : owners) EXPECT_FALSE(owner.expired());
  std::vector<float> floats(3);
  whole.CopyTo(absl::MakeSpan(floats));
  EXPECT_EQ(floats, (std::vector<float>{1, 2, 3}));
  EXPECT_FALSE(whole.TakeFloats().has_value()) << "it is not one buffer";
  whole.Clear();
  for (const auto& owner : owners) EXPECT_TRUE(owner.expired());
}

TEST(PayloadTest, AppendedBytesThatFollowInMemoryAreOneFragment) {
  const std::shared_ptr<uint8_t> memory = Memory({1, 2, 3});
  const Payload all = Payload::Exclusive(memory, 12);
  Payload joined = all.Subrange(0, 4);
  joined.Append(all.Subrange(4, 4));
  EXPECT_EQ(joined.fragments().size(), 1u);
  EXPECT_EQ(joined.size_bytes(), 8u);
  joined.Append(all.Subrange(0, 4));
  EXPECT_EQ(joined.fragments().size(), 2u);
  std::vector<float> floats(3);
  joined.CopyTo(absl::MakeSpan(floats));
  EXPECT_EQ(floats, (std::vector<float>{1, 2, 1}));
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
