#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <xxhash.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model_file/model_file.h"
#include "deploy/cli/commands.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kLogistic[] = "--model=logistic_regression";
constexpr char kJobFile[] = "";  // the built-in job

class EvaluateCommandTest : public testing::Test {
 protected:
  // Logistic regression of the built-in digits: 64 features, 10 classes.
  EvaluateCommandTest() {
    std::string folder = testing::TempDir() + "/evaluate-XXXXXX";
    path_ = absl::StrCat(mkdtemp(folder.data()), "/m.safetensors");
    ModelOutput::Tables tables;
    v1::TableSpec* const weight = tables.Add();
    weight->set_name("linear.weight");
    for (const uint64_t size : {64, 10}) weight->add_shape(size);
    v1::TableSpec* const bias = tables.Add();
    bias->set_name("linear.bias");
    bias->add_shape(10);
    const auto output = CreateModelFile(path_, /*token=*/1).value();
    EXPECT_TRUE(output->Begin(tables, {}).ok());
    const std::vector<float> zeros(650);
    EXPECT_TRUE(output->Publish({{"step", "7\x1b"}}, XXH3_64bits(zeros.data(), 2600)).ok());
  }
  absl::Status Evaluate(const std::vector<std::string>& flags) {
    out_.str("");
    return EvaluateCommand(path_, kJobFile, flags, out_);
  }

  std::string path_;
  std::ostringstream out_;
};

// All scores are equal, so each of the 10 classes has the probability 1/10.
TEST_F(EvaluateCommandTest, ZerosHaveTheLossOfTenEqualClasses) {
  const absl::Status status = Evaluate({kLogistic});
  ASSERT_TRUE(status.ok()) << status;
  const std::string text = out_.str();
  EXPECT_THAT(text, HasSubstr("on the 359 test samples of job capstan:\n"));
  const size_t loss = text.find("test loss ");
  ASSERT_NE(loss, std::string::npos) << text;
  EXPECT_NEAR(std::stod(text.substr(loss + 10)), std::log(10), 1e-6);
}

TEST_F(EvaluateCommandTest, TheFilesMetadataAreMadePrintable) {
  ASSERT_TRUE(Evaluate({kLogistic}).ok());
  EXPECT_THAT(out_.str(), HasSubstr("step: 7\\x1b\n"));
}

TEST_F(EvaluateCommandTest, AnotherModelIsRefusedWithEachDifference) {
  const absl::Status status = Evaluate({});
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("fc1.weight: expected [64, 128], got none"),
                    HasSubstr("linear.bias: expected none, got [10]")));
  EXPECT_EQ(out_.str(), "");
}

TEST_F(EvaluateCommandTest, AProgramEvaluatesItself) {
  EXPECT_THAT(std::string(Evaluate({"--model=program"}).message()),
              HasSubstr("got program: a program evaluates itself"));
}

TEST_F(EvaluateCommandTest, AReplayAndAMissingFileAreRefused) {
  EXPECT_THAT(std::string(Evaluate({"--model=replay"}).message()),
              HasSubstr("expected a model that computes, got replay"));
  path_ += ".none";
  EXPECT_TRUE(absl::IsNotFound(Evaluate({kLogistic})));
}

}  // namespace
}  // namespace capstan
