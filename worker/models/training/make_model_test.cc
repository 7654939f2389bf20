#include "worker/models/training/make_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cpu/cpu_stream.h"
#include "proto/job.pb.h"
#include "worker/models/training/mlp.h"
#include "worker/models/training/model.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::ModelSpec SpecOf(v1::ModelSpec::Type type, const std::vector<uint32_t>& hidden) {
  v1::ModelSpec spec;
  spec.set_type(type);
  for (const uint32_t width : hidden) spec.add_hidden(width);
  return spec;
}

// Number of outputs of each layer of a good model.
std::vector<uint64_t> OutputWidths(const v1::ModelSpec& spec) {
  const auto model = MakeModel<CpuStream>(spec, /*features=*/5, /*classes=*/3);
  EXPECT_TRUE(model.ok()) << model.status();
  std::vector<uint64_t> widths;
  for (const auto& layer : (*model)->layers()) {
    widths.push_back((*model)->tables()[layer.tables[0]].shape(1));
  }
  return widths;
}

void ExpectRefused(const v1::ModelSpec& spec, int features, int classes,
                   const std::string& message) {
  const absl::Status status = MakeModel<CpuStream>(spec, features, classes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

TEST(MakeModelTest, MlpHasTheHiddenLayersOfTheSpec) {
  EXPECT_THAT(OutputWidths(SpecOf(v1::ModelSpec::MLP, {7})), ElementsAre(7, 3));
  EXPECT_THAT(OutputWidths(SpecOf(v1::ModelSpec::MLP, {9, 8, 7})), ElementsAre(9, 8, 7, 3));
}

TEST(MakeModelTest, EmptySpecIsAnMlpWithTwoHiddenLayers) {
  EXPECT_THAT(OutputWidths(v1::ModelSpec()), ElementsAre(128, 64, 3));
}

TEST(MakeModelTest, LogisticRegressionIsOneLayerCalledLinear) {
  const auto model =
      MakeModel<CpuStream>(SpecOf(v1::ModelSpec::LOGISTIC_REGRESSION, {}), /*features=*/5,
                           /*classes=*/3);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ((*model)->layers().size(), 1);
  EXPECT_EQ((*model)->layers()[0].name, "linear");
  EXPECT_EQ((*model)->tables()[0].name(), "linear.weight");
  EXPECT_EQ((*model)->tables()[1].name(), "linear.bias");
}

TEST(MakeModelTest, LogisticRegressionWithHiddenLayersIsRefused) {
  ExpectRefused(SpecOf(v1::ModelSpec::LOGISTIC_REGRESSION, {4, 4}), /*features=*/5, /*classes=*/3,
                "expected none for LOGISTIC_REGRESSION, got 2 layers");
}

TEST(MakeModelTest, UnspecifiedTypeIsRefused) {
  ExpectRefused(SpecOf(v1::ModelSpec::TYPE_UNSPECIFIED, {}), /*features=*/5, /*classes=*/3,
                "model.type");
}

TEST(MakeModelTest, WidthsOutOfRangeAreRefused) {
  ExpectRefused(SpecOf(v1::ModelSpec::MLP, {8, 0}), /*features=*/5, /*classes=*/3, "got 0");
  ExpectRefused(SpecOf(v1::ModelSpec::MLP, {4'000'000'000}), /*features=*/5, /*classes=*/3,
                "got 4000000000");
}

TEST(MakeModelTest, PrecisionIsThatOfTheSpec) {
  v1::ModelSpec spec;
  EXPECT_EQ(PrecisionOf(spec).value(), Precision::kFloat32);
  spec.set_precision(v1::ModelSpec::TF32);
  EXPECT_EQ(PrecisionOf(spec).value(), Precision::kTf32);
  spec.set_precision(v1::ModelSpec::BFLOAT16);
  EXPECT_EQ(PrecisionOf(spec).value(), Precision::kBfloat16);
  spec.set_precision(v1::ModelSpec::PRECISION_UNSPECIFIED);
  ExpectRefused(spec, /*features=*/5, /*classes=*/3, "model.precision");
}

TEST(MakeModelTest, DataWithoutFeaturesOrClassesIsRefused) {
  ExpectRefused(v1::ModelSpec(), /*features=*/0, /*classes=*/3, "at least 1 feature, got 0");
  ExpectRefused(v1::ModelSpec(), /*features=*/5, /*classes=*/1, "at least 2 classes, got 1");
}

}  // namespace
}  // namespace capstan
