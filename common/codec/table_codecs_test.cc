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
std::string TextOf(const v1::CodecSpec& spec, absl::string_view table, uint64_t elements) {
  const absl::StatusOr<TableCodecs> codecs =
      CodecsOfTable(spec, table, elements, /*slice_bytes=*/1 << 20);
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

TEST(TableCodecsTest, TopkIsForThePushesOfLargeTables) {
  v1::CodecSpec spec;
  spec.set_push("topk:0.01:int8");
  EXPECT_EQ(TextOf(spec, "w", 4096), "topk:0.01:int8 float32");
  EXPECT_EQ(TextOf(spec, "w", 4095), "float32 float32");
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
  EXPECT_EQ(TextOf(spec, "fc1.bias", 1),
            "INVALID_ARGUMENT: codec of table fc1.bias: expected float32, bfloat16 or int8, got "
            "\"int9\"");
  spec.set_push("int7");
  EXPECT_THAT(TextOf(spec, "w", 1 << 20), HasSubstr("codec of table w: expected float32, "));
}

TEST(TableCodecsTest, PullsNeedEveryValue) {
  for (const char* text : {"float32", "bfloat16", "int8"}) {
    const auto codec = MakePullCodec(text);
    ASSERT_TRUE(codec.ok()) << codec.status();
    EXPECT_EQ((*codec)->name(), text);
  }
  for (const char* text : {"topk:0.01", "topk:9:int8"}) {
    EXPECT_EQ(
        MakePullCodec(text).status(),
        absl::InvalidArgumentError(std::string("expected float32, bfloat16 or int8, got \"") +
                                   text + "\"; topk is for gradients only: use --push_codec"));
  }
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
    EXPECT_EQ(ResidualArrays(*codecs), arrays) << push;
  }
}

TEST(TableCodecsTest, APushThatWouldNotBeSmallerIsFloat32) {
  v1::CodecSpec spec;
  const auto push_name = [&spec](const std::string& push, uint64_t elements) {
    spec.set_push(push);
    return CodecsOfTable(spec, "w", elements, /*slice_bytes=*/64 << 20).value().push->name();
  };
  constexpr uint64_t kSlice = 16 << 20;  // elements; the largest slice
  EXPECT_EQ(push_name("topk:0.5", kSlice), "topk:0.5");
  EXPECT_EQ(push_name("topk:0.51", kSlice), "float32");
  EXPECT_EQ(push_name("topk:0.51:int8", kSlice), "topk:0.51:int8") << "5 bytes a value";
  EXPECT_EQ(push_name("topk:5000", 10'000), "topk:5000");
  EXPECT_EQ(push_name("topk:5001", 10'000), "float32");
}

}  // namespace
}  // namespace capstan
