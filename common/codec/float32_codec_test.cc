#include "common/codec/float32_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "common/codec/codec_test_data.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

TEST(Float32CodecTest, BytesAreTheValuesInLittleEndian) {
  EXPECT_THAT(Encoded(*MakeFloat32Codec(), {1.0f, -0x1.020304p0f}, TestKey()),
              ElementsAre(0x00, 0x00, 0x80, 0x3f, 0x82, 0x01, 0x81, 0xbf));
}

TEST(Float32CodecTest, EveryValueIsSent) {
  const std::vector<float> values = {std::numeric_limits<float>::quiet_NaN(),
                                     -std::numeric_limits<float>::infinity(), -0.0f, 1e-45f};
  const auto codec = MakeFloat32Codec();
  EXPECT_EQ(Bits(Decoded(*codec, Encoded(*codec, values, TestKey()), values.size())), Bits(values));
}

}  // namespace
}  // namespace capstan
