#include "common/codec/codec_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::vector<std::pair<std::string, uint64_t>> All(const CodecBytes& bytes) {
  std::vector<std::pair<std::string, uint64_t>> all;
  bytes.ForEach(
      [&all](absl::string_view codec, uint64_t count) { all.emplace_back(codec, count); });
  return all;
}

TEST(CodecBytesTest, Float32IsAlwaysThere) {
  EXPECT_THAT(All(CodecBytes()), ElementsAre(Pair("float32", 0)));
}

TEST(CodecBytesTest, EachCodecHasItsOwnSum) {
  CodecBytes bytes;
  bytes.Add(CodecType::kInt8, 5);
  bytes.Add(CodecType::kInt8, 6);
  bytes.Add(CodecType::kChanged, 7);
  CodecBytes more;
  more.Add(CodecType::kFloat32, 1);
  more.Add(CodecType::kInt8, 100);
  bytes.Add(more);
  EXPECT_THAT(All(bytes), ElementsAre(Pair("float32", 1), Pair("int8", 111), Pair("changed", 7)));
  EXPECT_EQ(bytes.of(CodecType::kInt8), 111);
}

TEST(CodecBytesTest, NumbersOfNoCodecAreCountedTogether) {
  CodecBytes bytes;
  for (const int number : {0, -1, 8, 1'000'000}) bytes.Add(static_cast<CodecType>(number), 1);
  EXPECT_THAT(All(bytes), ElementsAre(Pair("unknown", 4), Pair("float32", 0)));
}

}  // namespace
}  // namespace capstan
