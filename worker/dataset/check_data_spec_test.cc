#include "worker/dataset/check_data_spec.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace capstan {
namespace {

using ::testing::HasSubstr;

absl::Status Check(const std::string& text) {
  v1::DataSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return CheckDataSpec(spec);
}

std::string Error(const std::string& text) {
  const absl::Status status = Check(text);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(CheckDataSpecTest, CompleteSpecsAreAccepted) {
  for (const char* text :
       {"", "format: SYNTHETIC", "format: CSV path: 'x'", "format: CSV path: 'x' test_path: 'y'",
        "format: LIBSVM path: 'x' test_path: 'y' test_fraction: 0 features: 3 classes: 2",
        "format: IDX path: 'x' labels_path: 'y'",
        "format: IDX path: 'x' labels_path: 'y' test_path: 'z' test_labels_path: 'a'"}) {
    EXPECT_TRUE(Check(text).ok()) << text << ": " << Check(text);
  }
}

TEST(CheckDataSpecTest, FormatMustBeSet) {
  EXPECT_THAT(Error("format: FORMAT_UNSPECIFIED"), HasSubstr("pass --data_format="));
}

TEST(CheckDataSpecTest, MissingPathIsNamedWithItsFlag) {
  EXPECT_EQ(Error("format: CSV"), "data.path is required for format CSV: pass --data_path=FILE");
  EXPECT_EQ(Error("format: LIBSVM"),
            "data.path is required for format LIBSVM: pass --data_path=FILE");
  EXPECT_EQ(Error("format: IDX path: 'x'"),
            "data.labels_path is required for format IDX: pass --data_labels_path=FILE");
  EXPECT_EQ(Error("format: IDX path: 'x' labels_path: 'y' test_path: 'z'"),
            "data.test_labels_path is required for format IDX: pass --test_labels_path=FILE");
  EXPECT_EQ(Error("format: IDX path: 'x' labels_path: 'y' test_labels_path: 'z'"),
            "data.test_path is required for format IDX: pass --test_path=FILE");
}

TEST(CheckDataSpecTest, PathThatTheFormatDoesNotReadIsRefused) {
  EXPECT_EQ(Error("path: 'my.csv'"),
            "data.path is my.csv, but format DIGITS does not read it: leave --data_path out, or "
            "pass another --data_format (CSV, IDX, LIBSVM)");
  EXPECT_THAT(Error("format: SYNTHETIC test_path: 'x'"), HasSubstr("data.test_path is x, but"));
  EXPECT_THAT(Error("format: CSV path: 'x' labels_path: 'y'"),
              HasSubstr("data.labels_path is y, but format CSV does not read it"));
}

TEST(CheckDataSpecTest, NumbersOutOfRangeAreRefused) {
  EXPECT_THAT(Error("test_fraction: 0"), HasSubstr("data.test_fraction between 0 and 1, got 0"));
  EXPECT_THAT(Error("test_fraction: 1.5"), HasSubstr("got 1.5: pass --test_fraction="));
  EXPECT_THAT(Error("classes: 1"), HasSubstr("data.classes from 2 to 1048576"));
  EXPECT_THAT(Error("classes: 4294967295"), HasSubstr("got 4294967295: pass another --classes"));
  EXPECT_THAT(Error("label_column: -2"), HasSubstr("got -2: pass another --label_column"));
  EXPECT_THAT(Error("feature_scale: -1"), HasSubstr("data.feature_scale"));
  EXPECT_THAT(Error("feature_scale: nan"), HasSubstr("data.feature_scale"));
  EXPECT_THAT(Error("feature_scale: inf"), HasSubstr("data.feature_scale"));
}

}  // namespace
}  // namespace capstan
