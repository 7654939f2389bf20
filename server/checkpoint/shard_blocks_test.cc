#include "server/checkpoint/shard_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/little_endian.h"
#include "common/exchange/exchange_request.h"
#include "common/exchange/payload.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

ShardSnapshot Example() {
  ShardSnapshot shard;
  shard.shard = ShardId(5);
  shard.workers.push_back({WorkerId(1), Incarnation(0x0102030405060708), Step(9), true});
  SliceSnapshot& slice = shard.slices.emplace_back();
  slice.key = {TableId(2), SliceIndex(3)};
  slice.version = 7;
  slice.optimizer_steps = 7;
  slice.min_step = Step(4);
  slice.largest_step = Step(6);
  slice.optimizer_state.resize(2);
  slice.schedule = {{Step(0), ConsistencyMode::kSsp, 4}, {Step(9), ConsistencyMode::kBsp}};
  slice.workers = {{WorkerId(0), Step(4), false}, {WorkerId(1), Step(5), true}};
  slice.kept.push_back({Step(5), WorkerId(1), 11, /*rates=*/{0.5}, false, Payload(), nullptr});
  slice.kept.push_back(
      {Step(6), WorkerId(0), std::nullopt, /*rates=*/{}, /*is_empty=*/true, Payload(), nullptr});
  slice.own_arrays = 4;
  slice.own = {{WorkerId(0), Payload()}, {WorkerId(1), Payload()}};
  return shard;
}

// A block with a right checksum.
std::string Block(uint32_t kind, uint32_t version, const std::string& contents) {
  std::string block;
  AppendLittleEndian(kind, &block);
  AppendLittleEndian(version, &block);
  AppendLittleEndian(uint64_t{contents.size()}, &block);
  block += contents;
  AppendLittleEndian(uint64_t{XXH3_64bits(block.data(), block.size())}, &block);
  return block;
}

// A program's state.
SliceSnapshot::OwnState StateOf(uint32_t worker, const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  Payload state{owner};
  state.Append({reinterpret_cast<const uint8_t*>(owner->data()), owner->size()});
  return {WorkerId(worker), state};
}

std::string BytesOf(const Payload& payload) {
  std::string bytes(payload.size_bytes(), '\0');
  payload.CopyTo({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

// Contents of a block of states. Each has one byte, whatever its length says.
std::string StatesOf(const std::vector<uint32_t>& workers, uint64_t length = 1) {
  std::string contents;
  AppendLittleEndian(static_cast<uint32_t>(workers.size()), &contents);
  for (const uint32_t worker : workers) {
    AppendLittleEndian(worker, &contents);
    AppendLittleEndian(length, &contents);
    contents += 'x';
  }
  return contents;
}

// The example's slice as one of a sparse table.
void MakeSparse(ShardSnapshot& shard) {
  SparseRowsSnapshot rows;
  rows.dim = 1;
  SliceSnapshot& slice = shard.slices[0];
  slice.optimizer_state.clear();
  slice.own_arrays = 0;
  slice.own.clear();
  slice.rows = std::make_shared<SparseRowsSnapshot>(rows);
}

// The bytes are a contract: other versions of Capstan read them.
TEST(ShardBlocksTest, BytesAreGolden) {
  const std::string shard(
      "\x05\0\0\0\x01\0\0\0\x01\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01\x09\0\0\0\0\0\0\0\x01", 29);
  const std::string slice(
      "\x02\0\0\0\x03\0\0\0\x07\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x02\0\0\0"
      "\x02\0\0\0\0\0\0\0\0\0\0\0\x02\x04\0\0\0\0\0\0\0"
      "\x09\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0"
      "\x02\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\0\x01\0\0\0\x05\0\0\0\0\0\0\0\x01"
      "\x02\0\0\0\x05\0\0\0\0\0\0\0\x01\0\0\0\x01\x0b\0\0\0\0\0\0\0"
      "\x01\0\0\0\0\0\0\xe0\x3f\0"
      "\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0\0\0\0\x01"
      "\x04\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0",
      186);
  EXPECT_EQ(EncodeShardBlocks(Example()), Block(1, 2, shard) + Block(2, 2, slice));
}

TEST(ShardBlocksTest, TheCopyOfTheWorkersComesLast) {
  ShardSnapshot shard = Example();
  const std::string without = EncodeShardBlocks(shard);
  EXPECT_FALSE(DecodeShardBlocks(without)->slices[0].copy.has_value());
  shard.slices[0].copy = {Payload(), /*version=*/6};
  const std::string with = EncodeShardBlocks(shard);
  const std::string version("\x06\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(with.size(), without.size() + version.size());
  EXPECT_EQ(with.substr(with.size() - 16, 8), version) << "before the checksum";
  const auto decoded = DecodeShardBlocks(with);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_TRUE(decoded->slices[0].copy.has_value());
  EXPECT_EQ(decoded->slices[0].copy->version, 6u);
  shard.slices[0].copy->version = 8;
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeShardBlocks(EncodeShardBlocks(shard)).status()))
      << "newer than the slice";
}

TEST(ShardBlocksTest, TheOptimizersCountIsThereIfItIsNotTheVersion) {
  ShardSnapshot shard = Example();
  const std::string without = EncodeShardBlocks(shard);
  EXPECT_EQ(DecodeShardBlocks(without)->slices[0].optimizer_steps, 7u);
  shard.slices[0].optimizer_steps = 0x1009;
  const std::string with = EncodeShardBlocks(shard);
  EXPECT_EQ(with.size(), without.size() + 8);
  const size_t second = Block(1, 2, std::string(29, 'x')).size();
  EXPECT_EQ(with.substr(second, 8), std::string("\x02\0\0\0\x03\0\0\0", 8)) << "kind, version";
  EXPECT_EQ(with.substr(second + 32, 8), std::string("\x09\x10\0\0\0\0\0\0", 8));
  const auto decoded = DecodeShardBlocks(with);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->slices[0].optimizer_steps, 0x1009u);
  EXPECT_EQ(decoded->slices[0].version, 7u);
  EXPECT_EQ(decoded->slices[0].min_step, Step(4));
}

TEST(ShardBlocksTest, DecodesWhatItEncodes) {
  const auto shard = DecodeShardBlocks(EncodeShardBlocks(Example()));
  ASSERT_TRUE(shard.ok()) << shard.status();
  EXPECT_EQ(shard->shard, ShardId(5));
  ASSERT_EQ(shard->workers.size(), 1u);
  EXPECT_EQ(shard->workers[0].incarnation, Incarnation(0x0102030405060708));
  EXPECT_EQ(shard->workers[0].first_step, Step(9));
  EXPECT_TRUE(shard->workers[0].is_entering);
  ASSERT_EQ(shard->slices.size(), 1u);
  const SliceSnapshot& slice = shard->slices[0];
  EXPECT_EQ(slice.key, (SliceKey{TableId(2), SliceIndex(3)}));
  EXPECT_EQ(slice.version, 7u);
  EXPECT_EQ(slice.min_step, Step(4));
  EXPECT_EQ(slice.largest_step, Step(6));
  EXPECT_EQ(slice.optimizer_state.size(), 2u);
  ASSERT_EQ(slice.schedule.size(), 2u);
  EXPECT_EQ(slice.schedule[0].mode, ConsistencyMode::kSsp);
  EXPECT_EQ(slice.schedule[0].staleness, 4);
  EXPECT_EQ(slice.schedule[1].first_step, Step(9));
  ASSERT_EQ(slice.workers.size(), 2u);
  EXPECT_EQ(slice.workers[1].completed, Step(5));
  EXPECT_FALSE(slice.workers[0].is_live);
  ASSERT_EQ(slice.kept.size(), 2u);
  EXPECT_EQ(slice.kept[0].base_version, 11);
  EXPECT_EQ(slice.kept[1].base_version, std::nullopt);
  EXPECT_EQ(slice.kept[1].step, Step(6));
  EXPECT_EQ(slice.kept[0].rates.learning_rate, 0.5);
  EXPECT_EQ(slice.kept[1].rates.learning_rate, std::nullopt);
  EXPECT_FALSE(slice.kept[0].is_empty);
  EXPECT_TRUE(slice.kept[1].is_empty);
  EXPECT_EQ(slice.own_arrays, 4u);
  ASSERT_EQ(slice.own.size(), 2u);
  EXPECT_EQ(slice.own[1].worker, WorkerId(1));
}

// A format of its own, which older versions of Capstan refuse: they would lose the momentum.
TEST(ShardBlocksTest, MomentaOfKeptPushesAreGoldenAndComeBack) {
  ShardSnapshot shard = Example();
  shard.slices[0].own_arrays = 0;
  shard.slices[0].own.clear();
  const std::string without = EncodeShardBlocks(shard);
  shard.slices[0].kept[1].rates.momentum = 0.75;
  const std::string with = EncodeShardBlocks(shard);
  const size_t slice = Block(1, 2, std::string(29, 'x')).size();
  const std::string before = without.substr(slice + 16, without.size() - slice - 24);
  const std::string none(9, '\0');
  // The optimizer's steps come behind the version, and each momentum before is_empty.
  const size_t second = before.size() - 9, first = second - 31;
  const auto block = [&](const std::string& momentum_of_second) {
    return Block(2, 4,
                 before.substr(0, 16) + before.substr(8, 8) + before.substr(16, first - 16) + none +
                     before.substr(first, 31) + momentum_of_second + before.substr(second));
  };
  EXPECT_EQ(with.substr(slice), block(std::string("\x01\0\0\0\0\0\0\xe8\x3f", 9)));
  const auto decoded = DecodeShardBlocks(with);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->slices[0].kept[1].rates.momentum, 0.75);
  EXPECT_EQ(EncodeShardBlocks(*decoded), with);
  EXPECT_TRUE(
      absl::IsInvalidArgument(DecodeShardBlocks(with.substr(0, slice) + block(none)).status()));
}

// A slice of a sparse table has a kind of its own, so that an older version refuses it.
TEST(ShardBlocksTest, WhatIsSaidOfRowsComesLast) {
  ShardSnapshot shard = Example();
  shard.slices[0].optimizer_state.clear();
  shard.slices[0].own_arrays = 0;
  shard.slices[0].own.clear();
  const std::string dense = EncodeShardBlocks(shard);
  SparseRowsSnapshot rows;
  rows.dim = 3;
  rows.state_floats = 6;
  rows.last_step = Step(0x0102);
  shard.slices[0].rows = std::make_shared<SparseRowsSnapshot>(rows);
  const std::string sparse = EncodeShardBlocks(shard);
  const size_t slice = Block(1, 2, std::string(29, 'x')).size();
  EXPECT_EQ(dense[slice], 2);
  EXPECT_EQ(sparse[slice], 3);
  const std::string last("\x03\0\0\0\x06\0\0\0\x02\x01\0\0\0\0\0\0", 16);
  EXPECT_EQ(sparse.substr(slice + 16),
            Block(3, 2, dense.substr(slice + 16, dense.size() - slice - 24) + last).substr(16));
  const auto decoded = DecodeShardBlocks(sparse);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_NE(decoded->slices[0].rows, nullptr);
  EXPECT_EQ(decoded->slices[0].rows->dim, 3u);
  EXPECT_EQ(decoded->slices[0].rows->state_floats, 6u);
  EXPECT_EQ(decoded->slices[0].rows->last_step, Step(0x0102));
  EXPECT_EQ(decoded->slices[0].kept.size(), 2u);
  shard.slices[0].optimizer_state.resize(1);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeShardBlocks(EncodeShardBlocks(shard)).status()));
  shard.slices[0].optimizer_state.clear();
  for (const size_t dim : {0, 1025}) {
    rows.dim = dim;
    shard.slices[0].rows = std::make_shared<SparseRowsSnapshot>(rows);
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeShardBlocks(EncodeShardBlocks(shard)).status()));
  }
}

TEST(ShardBlocksTest, StatesOfProgramsAreABlockOfTheirOwnBehindTheirSlice) {
  ShardSnapshot shard = Example();
  shard.slices.push_back(shard.slices[0]);
  shard.slices[1].key.slice = SliceIndex(4);
  const std::string without = EncodeShardBlocks(shard);
  const size_t begin = EncodeShardBlocks(Example()).size();
  shard.slices[0].programs = {StateOf(0, "abc"), StateOf(7, "")};
  const std::string states(
      "\x02\0\0\0"
      "\0\0\0\0\x03\0\0\0\0\0\0\0abc"
      "\x07\0\0\0\0\0\0\0\0\0\0\0",
      31);
  EXPECT_EQ(EncodeShardBlocks(shard),
            without.substr(0, begin) + Block(4, 2, states) + without.substr(begin))
      << "the other blocks are as before";
}

TEST(ShardBlocksTest, StatesOfProgramsComeBack) {
  ShardSnapshot shard = Example();
  shard.slices.push_back(shard.slices[0]);
  shard.slices[1].key.slice = SliceIndex(4);
  const std::string large(kMaxProgramStateBytes, 'z');
  SliceSnapshot::OwnState pieces = StateOf(3, "two ");
  pieces.arrays.Append(StateOf(3, "pieces").arrays);
  shard.slices[1].programs = {StateOf(0, ""), pieces, StateOf(4, large)};
  const std::string encoded = EncodeShardBlocks(shard);
  const auto decoded = DecodeShardBlocks(encoded);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->slices.size(), 2u);
  EXPECT_TRUE(decoded->slices[0].programs.empty());
  const auto& programs = decoded->slices[1].programs;
  ASSERT_EQ(programs.size(), 3u);
  EXPECT_EQ(programs[0].worker, WorkerId(0));
  EXPECT_TRUE(programs[0].arrays.empty());
  EXPECT_EQ(programs[1].worker, WorkerId(3));
  EXPECT_EQ(BytesOf(programs[1].arrays), "two pieces");
  EXPECT_EQ(programs[2].worker, WorkerId(4));
  EXPECT_TRUE(BytesOf(programs[2].arrays) == large);
  EXPECT_EQ(decoded->slices[1].own.size(), 2u) << "the arrays of engines are no such states";
  EXPECT_TRUE(EncodeShardBlocks(*decoded) == encoded);
}

TEST(ShardBlocksTest, StatesOfProgramsInTheWrongPlaceAreRefused) {
  const auto expect = [](const std::string& bytes, const std::string& text) {
    const absl::Status status = DecodeShardBlocks(bytes).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  const std::string states = Block(4, 2, StatesOf({0, 1}));
  const std::string shard = EncodeShardBlocks(Example());
  ASSERT_TRUE(DecodeShardBlocks(shard + states).ok());
  expect(states, "block 0 of a shard: expected the shard's");
  expect(Block(1, 2, std::string(8, '\0')) + states, "block 1 of a shard: expected a slice's");
  expect(shard + states + states, "block 3 of a shard: expected contents as long as");
  expect(shard + Block(4, 3, StatesOf({0, 1})), "block 2 of a shard: expected format 2, got 3");
  ShardSnapshot sparse = Example();
  MakeSparse(sparse);
  ASSERT_TRUE(DecodeShardBlocks(EncodeShardBlocks(sparse)).ok());
  expect(EncodeShardBlocks(sparse) + states, "block 2 of a shard: expected contents as long as");
}

TEST(ShardBlocksTest, StatesOfProgramsThatContradictThemselvesAreRefused) {
  const auto status_of = [](const std::string& contents) {
    return DecodeShardBlocks(EncodeShardBlocks(Example()) + Block(4, 2, contents)).status();
  };
  const std::string two = StatesOf({0, 1});
  ASSERT_TRUE(status_of(two).ok());
  const std::string many("\xff\xff\xff\xff", 4);
  for (const std::string& contents :
       {StatesOf({}), StatesOf({1, 0}), StatesOf({1, 1}), many + two.substr(4),
        StatesOf({0}, /*length=*/2), StatesOf({0}, /*length=*/~uint64_t{0}), two + "x",
        two.substr(0, two.size() - 1), two.substr(0, 8), std::string()}) {
    const absl::Status status = status_of(contents);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("block 2 of a shard: expected contents as long as"));
  }
  const std::string large(kMaxProgramStateBytes, 'z');
  const std::string longest = StatesOf({0}, kMaxProgramStateBytes);
  EXPECT_TRUE(status_of(longest + large.substr(1)).ok());
  const std::string too_long = StatesOf({0}, kMaxProgramStateBytes + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(status_of(too_long + large)));
}

TEST(ShardBlocksTest, EveryDamagedByteOfAProgramsStateIsSeen) {
  ShardSnapshot shard = Example();
  const size_t begin = EncodeShardBlocks(shard).size();
  shard.slices[0].programs = {StateOf(0, "abc"), StateOf(7, "")};
  const std::string whole = EncodeShardBlocks(shard);
  for (size_t i = begin; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_TRUE(absl::IsDataLoss(DecodeShardBlocks(damaged).status())) << i;
    if (i == begin) continue;  // a shard without such states
    EXPECT_TRUE(absl::IsDataLoss(DecodeShardBlocks(whole.substr(0, i)).status())) << i;
  }
}

TEST(ShardBlocksTest, EveryDamagedByteAndEveryShorterShardIsRefused) {
  const std::string whole = EncodeShardBlocks(Example());
  const size_t first_block = Block(1, 2, std::string(29, 'x')).size();
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_TRUE(absl::IsDataLoss(DecodeShardBlocks(damaged).status())) << i;
    if (i == first_block) continue;  // a shard without slices
    EXPECT_TRUE(absl::IsDataLoss(DecodeShardBlocks(whole.substr(0, i)).status())) << i;
  }
}

TEST(ShardBlocksTest, WhatContradictsItselfIsRefused) {
  const auto expect = [](const std::string& bytes, const std::string& text) {
    const absl::Status status = DecodeShardBlocks(bytes).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  const std::string empty_shard(8, '\0');
  for (const uint32_t version : {1, 3}) {
    expect(Block(1, version, empty_shard),
           absl::StrCat("block 0 of a shard: expected format 2, got ", version));
  }
  expect(Block(2, 2, empty_shard), "expected the shard's");
  expect(Block(1, 2, empty_shard) + Block(1, 2, empty_shard),
         "block 1 of a shard: expected a slice");
  expect(Block(1, 2, empty_shard + "x"), "contents as long as");
  expect(Block(1, 2, std::string("\0\0\0\0\xff\xff\xff\xff", 8)), "contents as long as");
  ShardSnapshot twice = Example();
  twice.slices.push_back(twice.slices[0]);
  expect(EncodeShardBlocks(twice), "slices in ascending order");
  ShardSnapshot many = Example();
  many.slices[0].optimizer_state.resize(17);
  expect(EncodeShardBlocks(many), "contents as long as");
  ShardSnapshot steps = Example();
  steps.slices[0].optimizer_steps = (uint64_t{1} << 62) + 1;
  expect(EncodeShardBlocks(steps), "contents as long as");
  ShardSnapshot rate = Example();
  for (const double impossible : {-0.5, HUGE_VAL, std::nan("")}) {
    rate.slices[0].kept[0].rates.learning_rate = impossible;
    expect(EncodeShardBlocks(rate), "contents as long as");
  }
  for (const double impossible : {-0.5, 1.0, HUGE_VAL, std::nan("")}) {
    ShardSnapshot momentum = Example();
    momentum.slices[0].kept[0].rates.momentum = impossible;
    expect(EncodeShardBlocks(momentum), "contents as long as");
  }
  ShardSnapshot own = Example();
  own.slices[0].own_arrays = 6;  // 4 of an engine, a residual and a momentum
  EXPECT_TRUE(DecodeShardBlocks(EncodeShardBlocks(own)).ok());
  for (const uint32_t arrays : {0, 7}) {
    own.slices[0].own_arrays = arrays;
    expect(EncodeShardBlocks(own), "contents as long as");
  }
  own = Example();
  own.slices[0].own[1].worker = WorkerId(0);
  expect(EncodeShardBlocks(own), "contents as long as");
}

}  // namespace
}  // namespace capstan
