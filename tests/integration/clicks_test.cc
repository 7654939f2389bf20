// Jobs on clicks, with sparse tables, through the real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

class ClicksTest : public testing::Test {
 protected:
  ClicksTest() {
    std::string folder = testing::TempDir() + "/clicks-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  int Run(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "--run_dir=" + processes_->path("run-dir")});
    processes_->Start("run", "deploy/cli/capstan", flags);
    return processes_->WaitForExit("run", absl::Seconds(100)).code;
  }
  int Capstan(const std::vector<std::string>& arguments) {
    processes_->Start(arguments[0], "deploy/cli/capstan", arguments);
    return processes_->WaitForExit(arguments[0], absl::Seconds(100)).code;
  }
  // The number behind this text.
  static double Printed(const std::string& text, const std::string& log) {
    const size_t place = log.find(text);
    return place == std::string::npos ? -1 : std::stod(log.substr(place + text.size()));
  }
  nlohmann::json Summary() {
    return nlohmann::json::parse(ReadFile(processes_->path("run-dir/summary.json")));
  }

  std::unique_ptr<JobProcesses> processes_;
};

TEST_F(ClicksTest, TheJobOfClicksComesNearTheBestAuc) {
  ASSERT_EQ(Run({"--job=deploy/jobs/ctr.textproto", "--field=data.synthetic_ctr.samples=40000",
                 "--field=data.synthetic_ctr.keys=2000",
                 "--field=data.synthetic_ctr.test_samples=10000", "--batch_size=64", "--l1=1"}),
            0)
      << processes_->Log("run");
  const nlohmann::json summary = Summary();
  EXPECT_EQ(summary["workers"], 4);
  EXPECT_EQ(summary["consistency"], "ssp");
  EXPECT_EQ(summary["samples"], 40000);
  EXPECT_NEAR(summary["test_auc"].get<double>(), summary["best_auc"].get<double>(), 0.02);
  EXPECT_GT(summary["nonzero_weights"].get<double>(), 0);
  EXPECT_LT(summary["nonzero_weights"].get<double>(), 1);
  for (const char* label : {"test AUC", "best possible AUC", "weights not 0", "test loss"}) {
    EXPECT_THAT(processes_->Log("run"), HasSubstr(label));
  }
}

TEST_F(ClicksTest, TheJobOfDeepFmRunsAndItsExportedModelIsEvaluated) {
  const std::vector<std::string> job = {
      "--job=deploy/jobs/ctr_deepfm.textproto", "--field=data.synthetic_ctr.samples=20000",
      "--field=data.synthetic_ctr.keys=1000", "--field=data.synthetic_ctr.test_samples=5000",
      "--num_workers=2"};
  const std::string checkpoints = processes_->path("checkpoints");
  std::vector<std::string> flags = job;
  flags.insert(flags.end(), {"--checkpoint_dir=" + checkpoints, "--checkpoint_steps=1000"});
  ASSERT_EQ(Run(flags), 0) << processes_->Log("run");
  const double auc = Summary()["test_auc"].get<double>();
  // 0.677 and 0.804: under BSP they are the same each time.
  const double best_auc = Summary()["best_auc"].get<double>();
  EXPECT_GT(auc, 0.5 + (best_auc - 0.5) / 2);
  EXPECT_LT(auc, best_auc);

  const std::string model = processes_->path("model.safetensors");
  ASSERT_EQ(Capstan({"export", "--checkpoint=" + checkpoints, "--output=" + model}), 0)
      << processes_->Log("export");
  flags = job;
  flags.insert(flags.begin(), {"evaluate", model});
  ASSERT_EQ(Capstan(flags), 0) << processes_->Log("evaluate");
  // Sums in another order change the last digits of a score, and so may change the AUC of 5,000
  // samples a little.
  EXPECT_NEAR(Printed("test AUC ", processes_->Log("evaluate")), auc, 1e-5);
  EXPECT_NEAR(Printed("test loss ", processes_->Log("evaluate")),
              Summary()["test_loss"].get<double>(), 1e-6);
}

TEST_F(ClicksTest, AWorkerReadsStandardInput) {
  const std::string command = absl::StrCat(
      "gzip -dc worker/dataset/testdata/agaricus.libsvm.train.gz | deploy/cli/capstan run "
      "--job=deploy/jobs/agaricus_sparse.textproto --data_path=- --epochs=1 --learning_rate=1 "
      "--l1=1 --run_dir=",
      processes_->path("run-dir"), " >", processes_->path("run.log"), " 2>&1");
  ASSERT_EQ(system(command.c_str()), 0) << ReadFile(processes_->path("run.log"));
  EXPECT_EQ(Summary()["samples"], 6513);
  // 0.952: under BSP it is the same each time.
  EXPECT_GT(Summary()["test_accuracy"].get<double>(), 0.95);
  EXPECT_FALSE(Summary().contains("best_auc"));
}

TEST_F(ClicksTest, CategoriesOfCsvAreHashed) {
  // A click if the color is red, whatever the price.
  std::ofstream samples(processes_->path("clicks"));
  for (int i = 0; i < 2000; ++i) {
    samples << (i % 3 == 0 ? 1 : 0) << "\t" << i % 7 << "\t"
            << (i % 3 == 0   ? "red"
                : i % 2 == 0 ? "blue"
                             : "green")
            << "\n";
  }
  samples.close();
  const std::string command = absl::StrCat(
      "gzip -c ", processes_->path("clicks"), " | deploy/cli/capstan run ",
      "--model=sparse_logistic_regression --optimizer=ftrl --learning_rate=1 --num_workers=1 "
      "--data_format=csv --columns=label,numeric,categorical --delimiter=tab --data_path=- "
      "--epochs=1 --test_path=",
      processes_->path("clicks"), " --run_dir=", processes_->path("run-dir"), " >",
      processes_->path("run.log"), " 2>&1");
  ASSERT_EQ(system(command.c_str()), 0) << ReadFile(processes_->path("run.log"));
  EXPECT_EQ(Summary()["samples"], 2000);
  EXPECT_EQ(Summary()["test_accuracy"], 1);
}

TEST_F(ClicksTest, AGpuAndAWrongFormatAreRefusedInWords) {
  EXPECT_NE(Run({"--job=deploy/jobs/ctr.textproto", "--data_format=digits"}), 0);
  EXPECT_THAT(processes_->Log("run"),
              HasSubstr("--data_format: expected libsvm, libffm, csv or synthetic_ctr"));
  EXPECT_NE(Run({"--job=deploy/jobs/ctr.textproto", "--device=cuda"}), 0);
  EXPECT_THAT(processes_->Log("run"), HasSubstr("--device: expected cpu"));
}

}  // namespace
}  // namespace capstan
