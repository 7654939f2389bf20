#include "server/checkpoint/block_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>

namespace capstan {
namespace {

std::string BytesOf(double number) {
  uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  std::string bytes;
  AppendLittleEndian(bits, &bytes);
  return bytes;
}

TEST(BlockReaderTest, NumbersComeInOrder) {
  const std::string bytes = std::string("\x01\x02\x00\x00\x00\x01", 6) + BytesOf(0.5) + "rest";
  BlockReader reader(bytes);
  EXPECT_EQ(reader.Take<uint8_t>(), 1);
  EXPECT_EQ(reader.TakeNumber(/*most=*/2), 2u);
  EXPECT_EQ(reader.TakeRate(), 0.5);
  EXPECT_EQ(reader.TakeBytes(4), "rest");
  EXPECT_TRUE(reader.is_whole());
  EXPECT_TRUE(reader.is_at_end());
}

TEST(BlockReaderTest, AfterTheEndThereAreZeros) {
  const std::string bytes("\xff\xff\xff", 3);
  BlockReader reader(bytes);
  EXPECT_EQ(reader.Take<uint32_t>(), 0u);
  EXPECT_FALSE(reader.is_whole());
  EXPECT_EQ(reader.Take<uint8_t>(), 0) << "nothing is read after what was cut off";
}

TEST(BlockReaderTest, WhatCannotBeIsNotWhole) {
  const std::string infinity = BytesOf(std::numeric_limits<double>::infinity());
  const std::string step("\x01\x00\x00\x00\x00\x00\x00\x40", 8);
  const std::string two("\x02\x00\x00\x00", 4);
  const auto is_whole = [](const std::string& bytes, auto take) {
    BlockReader reader(bytes);
    take(reader);
    return reader.is_whole();
  };
  EXPECT_FALSE(is_whole(step, [](BlockReader& reader) { reader.TakeStep(); }));
  EXPECT_FALSE(is_whole(two, [](BlockReader& reader) { reader.TakeFlag(); }));
  EXPECT_FALSE(is_whole('\1' + infinity, [](BlockReader& reader) { reader.TakeRate(); }));
  EXPECT_FALSE(is_whole('\1' + BytesOf(-1), [](BlockReader& reader) { reader.TakeRate(); }));
  EXPECT_TRUE(is_whole('\0' + BytesOf(0), [](BlockReader& reader) { reader.TakeRate(); }));
  EXPECT_FALSE(is_whole(two, [](BlockReader& reader) { reader.TakeNumber(/*most=*/1); }));
  EXPECT_FALSE(is_whole(two, [](BlockReader& reader) { reader.TakeBytes(5); }));
  EXPECT_FALSE(is_whole("", [](BlockReader& reader) { reader.Refuse(); }));
}

TEST(BlockReaderTest, ACountIsOfThingsThatFollow) {
  const std::string bytes(
      "\x02\x00\x00\x00"
      "abcdef",
      10);
  EXPECT_EQ(BlockReader(bytes).TakeCount(/*least_bytes=*/3), 2u);
  BlockReader too_large(bytes);
  EXPECT_EQ(too_large.TakeCount(/*least_bytes=*/4), 0u);
  EXPECT_FALSE(too_large.is_whole());
  BlockReader too_many(bytes);
  EXPECT_EQ(too_many.TakeCount(/*least_bytes=*/1, /*most=*/1), 0u);
  EXPECT_FALSE(too_many.is_whole());
}

}  // namespace
}  // namespace capstan
