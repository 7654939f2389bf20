#include "worker/client/parameter_buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/codec/changed_values.h"
#include "common/codec/codec.h"

namespace capstan {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using Values = std::vector<float>;

// One table of 40 elements in slices of 16, 16 and 8, whose pulls get differences of 2 elements.
class DifferencesTest : public testing::Test {
 protected:
  DifferencesTest() {
    std::vector<v1::TableSpec> tables(1);
    tables[0].set_name("w");
    tables[0].add_shape(40);
    const std::vector<TableCodecs> codecs = {{MakeCodec("float32").value(), codec_, {}, {}}};
    buffers_ =
        ParameterBuffers::Create(tables, codecs, /*slice_bytes=*/64, /*mirror=*/nullptr).value();
  }

  static ExchangeReply Reply(CodecType codec, uint64_t copy, std::vector<uint8_t> bytes) {
    const auto owner = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
    ExchangeReply reply;
    reply.codec = codec;
    reply.copy = copy;
    reply.values = Payload(owner);
    reply.values.Append(*owner);
    return reply;
  }
  static ExchangeReply Whole(uint64_t copy, float value) {
    std::vector<uint8_t> bytes(16 * sizeof(float));
    for (size_t i = 0; i < 16; ++i) std::memcpy(&bytes[4 * i], &value, sizeof(value));
    return Reply(CodecType::kFloat32, copy, bytes);
  }
  ExchangeReply Difference(uint64_t copy, const Values& values) const {
    std::vector<uint8_t> bytes(codec_->EncodedBytes(values.size()));
    EXPECT_TRUE(codec_->Encode(values, DrawKey(), {}, absl::MakeSpan(bytes)).ok());
    return Reply(codec_->type(), copy, bytes);
  }
  static ExchangeReply Changed(uint64_t copy, const Values& from, const Values& to) {
    std::vector<uint8_t> bytes(ChangedBytes(CountChanged(from, to)));
    EncodeChanged(from, to, absl::MakeSpan(bytes));
    return Reply(CodecType::kChanged, copy, bytes);
  }

  absl::Status Take(const ExchangeReply& reply) { return buffers_->TakeValues(kSlice, reply); }
  Values SliceValues() const {
    const absl::Span<const float> values = buffers_->ValuesOf(kSlice);
    return {values.begin(), values.end()};
  }

  static constexpr SliceKey kSlice = {TableId(0), SliceIndex(1)};
  const std::shared_ptr<const Codec> codec_ = MakeCodec("topk:2").value();
  std::unique_ptr<ParameterBuffers> buffers_;
};

TEST_F(DifferencesTest, AreAddedToTheValues) {
  EXPECT_EQ(buffers_->CopyOf(kSlice), 0u);
  ASSERT_TRUE(Take(Whole(/*copy=*/7, 1.0f)).ok());
  EXPECT_EQ(buffers_->CopyOf(kSlice), 7u);
  Values difference(16), expected(16, 1.0f);
  difference[3] = 2;
  difference[15] = -4;
  ASSERT_TRUE(Take(Difference(/*copy=*/9, difference)).ok());
  expected[3] = 3;
  expected[15] = -3;
  EXPECT_EQ(SliceValues(), expected);
  EXPECT_EQ(buffers_->CopyOf(kSlice), 9u);
  for (const uint32_t slice : {0, 2}) {
    const SliceKey other = {TableId(0), SliceIndex(slice)};
    EXPECT_EQ(buffers_->CopyOf(other), 0u);
    EXPECT_THAT(buffers_->ValuesOf(other), Each(0.0f));
  }
}

TEST_F(DifferencesTest, ChangedElementsAreReplaced) {
  ASSERT_TRUE(Take(Whole(/*copy=*/1, 1.0f)).ok());
  Values to(16, 1.0f);
  to[0] = 0.1f;
  to[9] = 5;
  ASSERT_TRUE(Take(Changed(/*copy=*/2, Values(16, 1.0f), to)).ok());
  EXPECT_EQ(SliceValues(), to);
  ASSERT_TRUE(Take(Changed(/*copy=*/3, to, to)).ok());
  EXPECT_EQ(SliceValues(), to);
  EXPECT_EQ(buffers_->CopyOf(kSlice), 3u);
}

TEST_F(DifferencesTest, ExactValuesAreNoCopyThatTheServerKnows) {
  ASSERT_TRUE(Take(Whole(/*copy=*/1, 1.0f)).ok());
  ASSERT_TRUE(Take(Whole(/*copy=*/0, 2.0f)).ok());
  EXPECT_EQ(buffers_->CopyOf(kSlice), 0u);
  EXPECT_THAT(SliceValues(), Each(2.0f));
}

TEST_F(DifferencesTest, ADifferenceFromNothingIsAnError) {
  for (const ExchangeReply& reply :
       {Difference(/*copy=*/2, Values(16)), Changed(/*copy=*/2, Values(16), Values(16))}) {
    const absl::Status status = Take(reply);
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("expected all values, for this worker has none to change"));
    EXPECT_EQ(buffers_->CopyOf(kSlice), 0u);
  }
}

TEST_F(DifferencesTest, WrongBytesAreAnErrorAndChangeNothing) {
  ASSERT_TRUE(Take(Whole(/*copy=*/1, 1.0f)).ok());
  const std::vector<uint8_t> beyond = {16, 0, 0, 0, 0, 0, 0, 0};  // element 16 of 16
  const std::vector<uint8_t> many(ChangedBytes(9));               // longer than float32 values
  for (const ExchangeReply& reply :
       {Reply(CodecType::kChanged, 2, beyond), Reply(CodecType::kChanged, 2, many),
        Reply(CodecType::kTopkFloat32, 2, beyond), Reply(CodecType::kInt8, 2, beyond),
        Reply(static_cast<CodecType>(99), 2, beyond)}) {
    const absl::Status status = Take(reply);
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(SliceValues(), Each(1.0f));
  }
}

}  // namespace
}  // namespace capstan
