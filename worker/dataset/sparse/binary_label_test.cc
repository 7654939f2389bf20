#include "worker/dataset/sparse/binary_label.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace capstan {
namespace {

TEST(BinaryLabelReaderTest, BothPairsOfLabelsAreRead) {
  for (const char* const zero : {"0", "-1", "0.0", "-1.0"}) {
    BinaryLabelReader labels;
    EXPECT_EQ(*labels.Read(zero), 0);
    for (const char* const one : {"1", "+1", "1.0"}) EXPECT_EQ(*labels.Read(one), 1) << one;
    EXPECT_EQ(*labels.Read(zero), 0);
  }
}

TEST(BinaryLabelReaderTest, ZeroAndMinusOneDoNotMix) {
  BinaryLabelReader labels;
  ASSERT_TRUE(labels.Read("-1").ok());
  const absl::Status status = labels.Read("0").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "expected labels 0 and 1, or -1 and 1, got '0' in a file with both 0 and -1: use one "
            "of the two pairs");
}

TEST(BinaryLabelReaderTest, OtherLabelsAreRefused) {
  for (const char* const label : {"2", "0.5", "nan", "x", ""}) {
    const absl::Status status = BinaryLabelReader().Read(label).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), std::string("expected the label 0 or 1, or -1 or 1, got '") +
                                    label + "': samples of clicks have two classes");
  }
}

}  // namespace
}  // namespace capstan
