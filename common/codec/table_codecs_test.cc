#include "common/codec/table_codecs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

// With a codec of its own for fc1.bias.
v1::CodecSpec Spec() {
  v1::CodecSpec spec;
  spec.set_push("int8");
  spec.set_pull("bfloat16");
  v1::TableCodec& own = *spec.add_table_codec();
  own.set_table("fc1.bias");
  own.set_codec("bfloat16");
  return spec;
}

// "push pull", or the error.
std::string TextOf(const v1::CodecSpec& spec, absl::string_view table, uint64_t elements,
                   uint64_t slice_bytes = 1 << 20) {
  const absl::StatusOr<TableCodecs> codecs = CodecsOfTable(spec, table, elements, slice_bytes);
  if (!codecs.ok()) return codecs.status().ToString();
  return codecs->push->name() + " " + codecs->pull->name();
}

TEST(TableCodecsTest, WithoutAChoiceEverythingIsFloat32) {
  EXPECT_EQ(TextOf(v1::CodecSpec(), "w", 1), "float32 float32");
  EXPECT_EQ(TextOf(v1::CodecSpec(), "w", 1 << 20), "float32 float32");
}

TEST(TableCodecsTest, ATableSmallerThanMinBytesIsFloat32) {
  EXPECT_EQ(TextOf(Spec(), "fc1.weight", 4095), "float32 float32") << "16384 bytes is the default";
  EXPECT_EQ(TextOf(Spec(), "fc1.weight", 4096), "int8 bfloat16");
  v1::CodecSpec spec = Spec();
  spec.set_min_bytes(401);
  EXPECT_EQ(TextOf(spec, "fc1.weight", 100), "float32 float32");
  EXPECT_EQ(TextOf(spec, "fc1.weight", 101), "int8 bfloat16");
  spec.set_min_bytes(0);
  EXPECT_EQ(TextOf(spec, "fc1.weight", 1), "int8 bfloat16");
}

TEST(TableCodecsTest, TopkIsForBothDirections) {
  v1::CodecSpec spec;
  spec.set_push("topk:0.01:int8");
  EXPECT_EQ(TextOf(spec, "w", 4096), "topk:0.01:int8 float32");
  EXPECT_EQ(TextOf(spec, "w", 4095), "float32 float32");
  spec.set_pull("topk:9");
  EXPECT_EQ(TextOf(spec, "w", 4096), "topk:0.01:int8 topk:9");
}

TEST(TableCodecsTest, ATableWithACodecOfItsOwnHasItForBothDirectionsAtAnySize) {
  EXPECT_EQ(TextOf(Spec(), "fc1.bias", 1), "bfloat16 bfloat16");
  EXPECT_EQ(TextOf(Spec(), "fc1.bias", 1 << 20), "bfloat16 bfloat16");
  EXPECT_EQ(TextOf(Spec(), "fc1.bia", 1), "float32 float32") << "another table";
}

TEST(TableCodecsTest, ATableMayBeTakenOutOfTheCodecsOfAll) {
  v1::CodecSpec spec = Spec();
  spec.mutable_table_codec(0)->set_codec("float32");
  EXPECT_EQ(TextOf(spec, "fc1.bias", 1 << 20), "float32 float32");
}

TEST(TableCodecsTest, TheTableOfAnInvalidCodecIsNamed) {
  v1::CodecSpec spec = Spec();
  spec.mutable_table_codec(0)->set_codec("int9");
  EXPECT_EQ(
      TextOf(spec, "fc1.bias", 1),
      "INVALID_ARGUMENT: codec of table fc1.bias: expected float32, bfloat16, int8, topk:R or "
      "topk:R:VALUES, got \"int9\"");
  spec.set_push("int7");
  EXPECT_THAT(TextOf(spec, "w", 1 << 20), HasSubstr("codec of table w: expected float32, "));
}

TEST(TableCodecsTest, OnlyALossyPushLeavesAResidual) {
  for (const auto& [push, arrays] :
       {std::pair("float32", 0u), std::pair("bfloat16", 1u), std::pair("int8", 1u),
        std::pair("topk:0.01", 1u), std::pair("topk:9:bfloat16", 1u)}) {
    v1::CodecSpec spec;
    spec.set_push(push);
    spec.set_pull("int8");
    const absl::StatusOr<TableCodecs> codecs =
        CodecsOfTable(spec, "w", 1 << 20, /*slice_bytes=*/1 << 20);
    ASSERT_TRUE(codecs.ok()) << codecs.status();
    EXPECT_EQ(PushArrays(*codecs), arrays) << push;
  }
}

TEST(TableCodecsTest, ATopkThatWouldNotBeSmallerIsFloat32) {
  v1::CodecSpec spec;
  const auto name = [&spec](const std::string& codec, uint64_t elements) {
    spec.set_push(codec);
    spec.set_pull(codec);
    const std::string both = TextOf(spec, "w", elements, /*slice_bytes=*/64 << 20);
    const size_t half = both.size() / 2;
    EXPECT_EQ(both.substr(0, half), both.substr(half + 1)) << "one rule for both directions";
    return both.substr(0, half);
  };
  constexpr uint64_t kSlice = 16 << 20;  // elements; the largest slice
  EXPECT_EQ(name("topk:0.5", kSlice), "topk:0.5");
  EXPECT_EQ(name("topk:0.51", kSlice), "float32");
  EXPECT_EQ(name("topk:0.51:int8", kSlice), "topk:0.51:int8") << "5 bytes a value";
  EXPECT_EQ(name("topk:5000", 10'000), "topk:5000");
  EXPECT_EQ(name("topk:5001", 10'000), "float32");
}

TEST(TableCodecsTest, TheFirstStepsOfDgcSendMoreInFiveParts) {
  v1::CodecSpec spec;
  spec.set_push("topk:0.001:int8");
  spec.set_dgc(true);
  spec.set_dgc_warmup_steps(500);
  const TableCodecs codecs = CodecsOfTable(spec, "w", 1 << 20, /*slice_bytes=*/1 << 20).value();
  ASSERT_TRUE(codecs.dgc.has_value());
  EXPECT_EQ(codecs.dgc->momentum, 0.9) << "the default";
  EXPECT_EQ(PushArrays(codecs), 2u);
  const std::pair<int64_t, const char*> expected[] = {
      {0, "topk:0.25:int8"},         {99, "topk:0.25:int8"},   {100, "topk:0.0625:int8"},
      {299, "topk:0.015625:int8"},   {300, "topk:0.004:int8"}, {400, "topk:0.001:int8"},
      {1'000'000, "topk:0.001:int8"}};
  for (const auto& [step, name] : expected) {
    EXPECT_EQ(codecs.PushAt(Step(step)).name(), name) << step;
  }
  EXPECT_EQ(codecs.LongestPush().name(), "topk:0.25:int8");
}

TEST(TableCodecsTest, AnAutoCodecIsFloat32OrInt8) {
  v1::CodecSpec spec;
  spec.set_push("auto");
  spec.set_pull("bfloat16");
  const TableCodecs large = CodecsOfTable(spec, "w", 1 << 18, 1 << 20).value();
  EXPECT_TRUE(large.is_auto_push);
  EXPECT_FALSE(large.is_auto_pull);
  EXPECT_EQ(large.push->name(), "int8");
  EXPECT_EQ(large.PushOf(Step(0), CodecType::kFloat32).name(), "float32");
  EXPECT_EQ(large.PushOf(Step(0), CodecType::kInt8).name(), "int8");
  EXPECT_EQ(large.PushOf(Step(0), CodecType::kBfloat16).name(), "int8") << "what is expected";
  EXPECT_EQ(PushArrays(large), 1u);
  const TableCodecs small = CodecsOfTable(spec, "b", 10, 1 << 20).value();
  EXPECT_FALSE(small.is_auto_push);
  EXPECT_EQ(small.push->name(), "float32");
  spec.set_push("int8");
  const TableCodecs fixed = CodecsOfTable(spec, "w", 1 << 18, 1 << 20).value();
  EXPECT_EQ(fixed.PushOf(Step(0), CodecType::kFloat32).name(), "int8") << "float32 is refused";
}

TEST(TableCodecsTest, DgcBeginsWithNoLessThanItsCodec) {
  v1::CodecSpec spec;
  spec.set_dgc(true);
  const auto first = [&spec](const std::string& push, uint64_t warmup_steps) {
    spec.set_push(push);
    spec.set_dgc_warmup_steps(warmup_steps);
    return CodecsOfTable(spec, "w", 1 << 18, /*slice_bytes=*/1 << 20)->PushAt(Step(0)).name();
  };
  EXPECT_EQ(first("topk:0.3", 100), "topk:0.3");
  EXPECT_EQ(first("topk:0.001", 0), "topk:0.001");
  EXPECT_EQ(first("topk:100000", 100), "topk:100000") << "of 262144";
  EXPECT_EQ(first("topk:100", 100), "topk:0.25");
  v1::TableCodec& own = *spec.add_table_codec();
  own.set_table("own");
  own.set_codec("topk:0.01");
  EXPECT_EQ(CodecsOfTable(spec, "own", 1 << 18, 1 << 20)->PushAt(Step(0)).name(), "topk:0.25");
  spec.set_push("topk:0.01");
  const TableCodecs small = CodecsOfTable(spec, "b", 10, /*slice_bytes=*/1 << 20).value();
  EXPECT_EQ(small.PushAt(Step(0)).name(), "float32");
  EXPECT_EQ(PushArrays(small), 1u) << "its momentum";
}

}  // namespace
}  // namespace capstan
