#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/codec/codec.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

struct Accepted {
  const char* text;
  const char* name;
  CodecType type;
  size_t num_sent;  // of 1000 values
};

TEST(MakeCodecTest, ReadsEveryCodec) {
  for (const Accepted& accepted : {
           Accepted{"float32", "float32", CodecType::kFloat32, 0},
           Accepted{"bfloat16", "bfloat16", CodecType::kBfloat16, 0},
           Accepted{"int8", "int8", CodecType::kInt8, 0},
           Accepted{"topk:0.01", "topk:0.01", CodecType::kTopkFloat32, 10},
           Accepted{"topk:0.01:float32", "topk:0.01", CodecType::kTopkFloat32, 10},
           Accepted{"topk:0.01:bfloat16", "topk:0.01:bfloat16", CodecType::kTopkBfloat16, 10},
           Accepted{"topk:0.01:int8", "topk:0.01:int8", CodecType::kTopkInt8, 10},
           Accepted{"topk:1", "topk:1", CodecType::kTopkFloat32, 1},
           Accepted{"topk:007", "topk:7", CodecType::kTopkFloat32, 7},
           Accepted{"topk:20:int8", "topk:20:int8", CodecType::kTopkInt8, 20},
           Accepted{"topk:4294967295", "topk:4294967295", CodecType::kTopkFloat32, 1000},
           Accepted{"topk:0.9999999999999999", "topk:0.9999999999999999", CodecType::kTopkFloat32,
                    1000},
           Accepted{"topk:0.1000000000000001", "topk:0.1000000000000001", CodecType::kTopkFloat32,
                    101},
           Accepted{"topk:5e-2", "topk:0.05", CodecType::kTopkFloat32, 50},
           Accepted{"topk:1e-07", "topk:1e-07", CodecType::kTopkFloat32, 1},
       }) {
    SCOPED_TRACE(accepted.text);
    const auto codec = MakeCodec(accepted.text);
    ASSERT_TRUE(codec.ok()) << codec.status();
    EXPECT_EQ((*codec)->name(), accepted.name);
    EXPECT_EQ((*codec)->type(), accepted.type);
    EXPECT_EQ((*codec)->is_lossy(), accepted.type != CodecType::kFloat32);
    if (accepted.type == CodecType::kTopkFloat32) {
      EXPECT_EQ((*codec)->EncodedBytes(1000), 8 * accepted.num_sent);
    }
  }
}

TEST(MakeCodecTest, RefusesWhatIsNoCodecAndShowsIt) {
  for (const std::string text : {"",
                                 " ",
                                 "none",
                                 "int4",
                                 "Int8",
                                 "int8 ",
                                 " int8",
                                 "int8:0.1",
                                 "float32:",
                                 "bf16",
                                 "topk",
                                 "topk:",
                                 "topk::",
                                 "topk::int8",
                                 "topk:0",
                                 "topk:0.0",
                                 "topk:-0.1",
                                 "topk:-1",
                                 "topk:+1",
                                 "topk:+0.1",
                                 "topk:.1",
                                 "topk:1.0",
                                 "topk:1.5",
                                 "topk:1e3",
                                 "topk:4294967296",
                                 "topk:nan",
                                 "topk:inf",
                                 "topk:0x1",
                                 "topk:0x0.1",
                                 "topk:0.1x",
                                 "topk: 0.1",
                                 "topk:0.1 ",
                                 "topk:0,1",
                                 "topk:1e-400",
                                 "topk:0.1:",
                                 "topk:0.1:int4",
                                 "topk:0.1:topk:0.1",
                                 "topk:0.1:int8:",
                                 "topk:0.1:int8:int8",
                                 "topk:0.99999999999999999999",
                                 "TOPK:0.1"}) {
    const auto codec = MakeCodec(text);
    ASSERT_EQ(codec.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(codec.status().message()), HasSubstr("expected"));
    EXPECT_THAT(std::string(codec.status().message()), HasSubstr("got \"" + text + "\""));
  }
}

}  // namespace
}  // namespace capstan
