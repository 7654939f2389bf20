#include "deploy/cli/evaluate_command.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <xxhash.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model_file/model_file.h"

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
    EXPECT_TRUE(output->Begin(tables, {}, {}).ok());
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

// A model with rows, and samples that it is tested on.
class EvaluateRowsTest : public testing::Test {
 protected:
  EvaluateRowsTest() {
    std::string folder = testing::TempDir() + "/evaluate-rows-XXXXXX";
    folder_ = mkdtemp(folder.data());
    // Log odds of 3, -2, 0 and -0.5. Key 5 has no row: its weight is 0, as that of the bias.
    std::ofstream(folder_ + "/samples") << "1 1:2\n0 3:1\n0 5:1\n0 1:1 3:1\n";
  }
  std::string Model(uint64_t dim, std::vector<uint64_t> keys = {1, 3}, float weight = 1.5) {
    const std::string path = folder_ + "/rows.safetensors";
    const TableOfRows table = {"weights", /*rows=*/2, dim, /*state_floats=*/1};
    const auto output = CreateModelFile(path, /*token=*/1).value();
    EXPECT_TRUE(output->Begin({}, {table}, {}).ok());
    const auto model =
        ModelTables::Read(OpenFile::Open(UnfinishedModelPath(path), O_RDWR).value()).value();
    std::vector<float> values(2 * dim, -2);
    values[0] = weight;
    EXPECT_TRUE(model->WriteRows(table, /*first=*/0, keys, values, {7, 7}).ok());
    EXPECT_TRUE(output->Publish({}, XXH3_64bits("", 0)).ok());
    return path;
  }
  absl::Status Evaluate(const std::string& model, const std::string& test_path) {
    std::vector<std::string> flags = {"--model=sparse_logistic_regression", "--optimizer=ftrl",
                                      "--data_format=libsvm", "--epochs=1",
                                      "--data_path=" + folder_ + "/samples"};
    if (!test_path.empty()) flags.push_back("--test_path=" + test_path);
    return EvaluateCommand(model, kJobFile, flags, out_);
  }
  double Printed(const std::string& name) {
    const size_t place = out_.str().find(name + " ");
    return place == std::string::npos ? -1 : std::stod(out_.str().substr(place + name.size()));
  }

  std::string folder_;
  std::ostringstream out_;
};

TEST_F(EvaluateRowsTest, RowsOfTheFileAndInitialOnesGiveTheLogOdds) {
  const absl::Status status = Evaluate(Model(/*dim=*/1), folder_ + "/samples");
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out_.str(), HasSubstr("on the 4 test samples of job capstan:\n"));
  const double loss = std::log1p(std::exp(-3)) + std::log1p(std::exp(-2)) + std::log(2) +
                      std::log1p(std::exp(-0.5));
  EXPECT_NEAR(Printed("test loss"), loss / 4, 1e-6);
  EXPECT_EQ(Printed("test AUC"), 1);
  EXPECT_EQ(Printed("parameters_xxh3"), -1) << "there are no dense tables";
}

TEST_F(EvaluateRowsTest, AKeyTwiceAndAnInfinityAreRefused) {
  EXPECT_THAT(std::string(Evaluate(Model(/*dim=*/1, {3, 3}), folder_ + "/samples").message()),
              HasSubstr("table weights: expected distinct keys, got 3 twice"));
  EXPECT_THAT(std::string(Evaluate(Model(1, {1, 3}, INFINITY), folder_ + "/samples").message()),
              HasSubstr("table weights: expected finite values"));
}

TEST_F(EvaluateRowsTest, RowsOfAnotherSizeAndNoTestAreRefused) {
  EXPECT_THAT(std::string(Evaluate(Model(/*dim=*/2), folder_ + "/samples").message()),
              HasSubstr("weights.values: expected [2, 1] of F32, got [2, 2] of F32"));
  EXPECT_THAT(std::string(Evaluate(Model(/*dim=*/1), "").message()),
              HasSubstr("--test_path: expected a file of samples"));
}

TEST_F(EvaluateCommandTest, AModelWithoutRowsIsNoModelOfClicks) {
  EXPECT_THAT(std::string(Evaluate({"--model=sparse_logistic_regression", "--optimizer=ftrl",
                                    "--data_format=synthetic_ctr"})
                              .message()),
              AllOf(HasSubstr("weights.keys: expected [0], got none"),
                    HasSubstr("linear.bias: expected none, got [10]")));
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
  EXPECT_THAT(std::string(Evaluate({"--model=updates", "--steps=9"}).message()),
              HasSubstr("expected a model that computes, got updates"));
  path_ += ".none";
  EXPECT_TRUE(absl::IsNotFound(Evaluate({kLogistic})));
}

}  // namespace
}  // namespace capstan
