// ValidateJob on jobs whose samples are a stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/job/job_flags.h"
#include "common/job/validate_job.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// ValidateJob's error for a job with `more` flags after `flags`; empty if there is none.
std::string Verdict(std::vector<std::string> flags, const std::vector<std::string>& more = {}) {
  flags.insert(flags.end(), more.begin(), more.end());
  v1::JobSpec job;
  const absl::Status applied = ApplyJobFlags(&flags, &job);
  EXPECT_TRUE(applied.ok()) << applied;
  return std::string(ValidateJob(job).message());
}

const std::vector<std::string> kRegression = {"--model=sparse_logistic_regression",
                                              "--data_format=synthetic_ctr", "--optimizer=ftrl"};
const std::vector<std::string> kDeepFm = {"--model=deepfm", "--data_format=synthetic_ctr",
                                          "--optimizer=adagrad"};
const std::vector<std::string> kFile = {"--data_format=libsvm", "--data_path=x"};
const std::vector<std::string> kInput = {"--data_format=libsvm", "--data_path=-", "--epochs=1",
                                         "--num_workers=1"};

TEST(ValidateStreamJobTest, EachModelHasItsFormats) {
  EXPECT_EQ(Verdict(kRegression), "");
  EXPECT_EQ(Verdict(kRegression, kFile), "");
  EXPECT_EQ(Verdict(kRegression, {"--data_format=libffm", "--data_path=x"}), "");
  EXPECT_EQ(Verdict(kDeepFm), "");
  EXPECT_EQ(Verdict(kDeepFm, {"--data_format=libffm", "--data_path=x", "--fields=5"}), "");
  EXPECT_EQ(Verdict(kRegression, {"--data_format=digits"}),
            "--data_format: expected libsvm, libffm, csv or synthetic_ctr, as the model is "
            "sparse_logistic_regression, got digits (data.format in a job file)");
  EXPECT_THAT(Verdict(kDeepFm, kFile), StartsWith("--data_format: expected libffm, csv or"));
  EXPECT_THAT(Verdict(kDeepFm, {"--data_format=libffm", "--data_path=x"}),
              StartsWith("--fields: expected the number of fields, 1 to 65536"));
  EXPECT_THAT(Verdict(kRegression, {"--data_format=libffm"}), StartsWith("--data_path: "));
}

TEST(ValidateStreamJobTest, OtherModelsHaveNoStreams) {
  for (const char* format : {"libffm", "synthetic_ctr"}) {
    EXPECT_THAT(Verdict({"--data_path=x", std::string("--data_format=") + format}),
                StartsWith("--data_format: expected digits, csv, idx, libsvm or synthetic, as"));
  }
  EXPECT_THAT(Verdict({"--data_format=csv", "--data_path=-"}),
              StartsWith("--data_path: expected a file, as only sparse_logistic_regression"));
  EXPECT_THAT(Verdict({"--data_format=csv", "--data_path=x", "--columns=label,numeric"}),
              StartsWith("--columns: expected nothing"));
}

TEST(ValidateStreamJobTest, CsvHasColumns) {
  const std::vector<std::string> csv = {"--data_format=csv", "--data_path=x"};
  EXPECT_THAT(Verdict(kRegression, csv), StartsWith("--columns: expected what the columns are"));
  std::vector<std::string> numeric = csv, categorical = csv;
  numeric.push_back("--columns=label,numeric*3");
  categorical.push_back("--columns=label,categorical*3");
  EXPECT_EQ(Verdict(kRegression, numeric), "");
  EXPECT_EQ(Verdict(kDeepFm, categorical), "");
  EXPECT_THAT(Verdict(kDeepFm, numeric), StartsWith("--columns: expected a categorical one"));
  categorical.push_back("--delimiter=::");
  EXPECT_THAT(Verdict(kDeepFm, categorical), StartsWith("--delimiter: expected one character"));
}

TEST(ValidateStreamJobTest, StandardInputIsReadOnceByOneWorker) {
  EXPECT_EQ(Verdict(kRegression, kInput), "");
  EXPECT_THAT(Verdict(kRegression, {"--data_format=libsvm", "--data_path=-", "--epochs=1"}),
              StartsWith("--num_workers: expected 1, as several workers cannot share"));
  EXPECT_THAT(Verdict(kRegression, {"--data_format=libsvm", "--data_path=-", "--num_workers=1"}),
              StartsWith("--epochs: expected 1, as a standard input can be read only once"));
  EXPECT_THAT(Verdict(kRegression, {"--data_format=libsvm", "--data_path=x", "--test_path=-"}),
              StartsWith("--test_path: expected a file"));
}

TEST(ValidateStreamJobTest, RoundsAndCheckpointsNeedAKnownLength) {
  for (const char* flag : {"--stay", "--checkpoint_dir=d"}) {
    EXPECT_EQ(Verdict(kRegression, {flag}), "");
    EXPECT_EQ(Verdict(kRegression, {"--data_format=libsvm", "--data_path=x", "--steps=9", flag}),
              "");
    EXPECT_THAT(Verdict(kRegression, {"--data_format=libsvm", "--data_path=x", flag}),
                StartsWith("--steps: expected the number of steps, as "));
  }
}

TEST(ValidateStreamJobTest, OptimizersAreThoseOfTheTables) {
  for (const char* optimizer : {"sgd", "adagrad", "row_adagrad", "adam"}) {
    const std::string flag = std::string("--optimizer=") + optimizer;
    EXPECT_EQ(Verdict(kRegression, {flag}), "");
    EXPECT_EQ(Verdict(kDeepFm, {flag}), "");
  }
  EXPECT_THAT(Verdict(kDeepFm, {"--optimizer=ftrl"}), StartsWith("--optimizer: expected sgd"));
  EXPECT_THAT(Verdict(kRegression, {"--optimizer=momentum"}),
              StartsWith("--optimizer: expected ftrl, sgd"));
  EXPECT_THAT(Verdict(kDeepFm, {"--weight_decay=0.1"}), StartsWith("--weight_decay: expected 0"));
}

TEST(ValidateStreamJobTest, OptionsOfTheModelHaveRanges) {
  EXPECT_EQ(Verdict(kDeepFm, {"--hidden=9", "--embedding_dim=1023", "--admitting_push=255"}), "");
  for (const char* bad :
       {"embedding_dim=0", "embedding_dim=1024", "model.embedding_stddev=0",
        "model.embedding_stddev=inf", "admitting_push=0", "admitting_push=256",
        "max_idle_steps=4294967296", "precision=tf32", "data.synthetic_ctr.samples=0",
        "data.synthetic_ctr.test_samples=0", "data.synthetic_ctr.keys=103",
        "data.synthetic_ctr.keys=4294967297", "data.synthetic_ctr.zipf_exponent=4.1",
        "data.synthetic_ctr.zipf_exponent=-1"}) {
    const bool is_flag = std::string(bad).find('.') > std::string(bad).find('=');
    const std::string name = std::string(bad).substr(0, std::string(bad).find('='));
    EXPECT_THAT(Verdict(kDeepFm, {(is_flag ? "--" : "--field=") + std::string(bad)}),
                StartsWith((is_flag ? "--" : "") + name + ": expected"))
        << bad;
  }
  EXPECT_THAT(Verdict(kRegression, {"--hidden=9"}), HasSubstr("has no hidden layers"));
}

TEST(ValidateStreamJobTest, FlagsOfDataInMemoryAreRefused) {
  for (const char* flag : {"--test_fraction=0.3", "--classes=2", "--feature_scale=1"}) {
    std::vector<std::string> flags = kRegression;
    flags.push_back(flag);
    EXPECT_THAT(std::string(EffectiveJob("", flags).status().message()),
                HasSubstr("cannot matter, because the samples of this model are a stream"))
        << flag;
  }
  EXPECT_TRUE(EffectiveJob("", kRegression).ok()) << EffectiveJob("", kRegression).status();
  std::vector<std::string> embedded = kRegression;
  embedded.push_back("--embedding_dim=4");
  EXPECT_THAT(std::string(EffectiveJob("", embedded).status().message()),
              HasSubstr("--embedding_dim: matters with --model=deepfm only"));
}

}  // namespace
}  // namespace capstan
