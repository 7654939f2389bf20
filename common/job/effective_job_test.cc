#include "common/job/effective_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/job/job_flag_table.h"
#include "common/job/job_flags.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What is wrong with the default job with these flags; empty when nothing is.
std::string Verdict(std::vector<std::string> flags) {
  return std::string(EffectiveJob("", std::move(flags)).status().message());
}

TEST(EffectiveJobTest, AFlagThatCannotMatterIsRefusedWithWhatItNeeds) {
  EXPECT_EQ(Verdict({"--optimizer=sgd", "--beta1=0.5"}),
            "--beta1: matters with --optimizer=adam or adamw only, and the job has sgd; leave it "
            "out, or choose that");
  for (const std::string flag :
       {"--replay=vgg16", "--label_column=0", "--ucx_poll=busy", "--beta2=0.5",
        "--synthetic_samples=9", "--data_path=x.csv", "--has_header"}) {
    EXPECT_THAT(Verdict({flag}), HasSubstr(" only, and the job has ")) << flag;
  }
}

TEST(EffectiveJobTest, AFlagThatAnotherOneOverrulesIsRefused) {
  EXPECT_EQ(Verdict({"--steps=5", "--epochs=3"}),
            "--epochs: cannot matter, because --steps is given, too; leave out --epochs");
  EXPECT_EQ(Verdict({"--steps=0", "--epochs=3"}), "");
  const std::vector<std::string> csv = {"--data_format=csv", "--data_path=x.csv"};
  const auto with = [&csv](std::vector<std::string> more) {
    more.insert(more.begin(), csv.begin(), csv.end());
    return Verdict(more);
  };
  EXPECT_THAT(with({"--test_path=y.csv", "--test_fraction=0.1"}), StartsWith("--test_fraction: "));
  EXPECT_EQ(with({"--test_path=y.csv"}), "");
  EXPECT_EQ(with({"--test_fraction=0.1"}), "");
}

TEST(EffectiveJobTest, AFileWithStepsTakesEpochsInTheirPlace) {
  const std::string path = ::testing::TempDir() + "/steps.textproto";
  std::ofstream(path) << "training { steps: 9 }";
  const auto job = EffectiveJob(path, {"--epochs=2"});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->training().steps(), 0u);
}

TEST(EffectiveJobTest, AFlagThatMattersWithTheOthersIsTaken) {
  const std::vector<std::vector<std::string>> commands = {
      {"--beta1=0.5", "--optimizer=adamw"},
      {"--optimizer=nesterov", "--momentum=0.5"},
      {"--model=replay", "--replay=resnet50", "--scale=4", "--compute_seconds=1"},
      {"--consistency=ssp", "--staleness=0"},
      {"--transport=auto", "--ucx_poll=busy", "--grpc_connections=2"},
      {"--data_format=csv", "--data_path=x.csv", "--has_header", "--label_column=0"},
      {"--consistency=bsp", "--table_staleness="},
      {"--consistency=bsp", "--staleness=0"},
      {"--data_format=digits", "--nohas_header"},
      {"--data_format=digits", "--data_path="},
      {"--model=logistic_regression", "--hidden="}};
  for (const auto& flags : commands) EXPECT_EQ(Verdict(flags), "") << flags[0];
}

TEST(EffectiveJobTest, AFileMayHoldWhatItsJobDoesNotUse) {
  const std::string path = ::testing::TempDir() + "/unused.textproto";
  std::ofstream(path) << "optimizer { type: SGD momentum: 0.8 beta1: 0.7 }";
  EXPECT_TRUE(EffectiveJob(path, {}).ok());
  EXPECT_TRUE(EffectiveJob(path, {"--optimizer=adam", "--beta2=0.5"}).ok());
  EXPECT_THAT(std::string(EffectiveJob(path, {"--momentum=0.9"}).status().message()),
              StartsWith("--momentum: matters with --optimizer=momentum or nesterov only"));
}

TEST(EffectiveJobTest, WhatIsOutOfRangeIsToldFirst) {
  EXPECT_THAT(Verdict({"--staleness=-1"}), StartsWith("--staleness: expected 0 or more, got -1"));
}

TEST(EffectiveJobTest, EveryNeedIsAFlagWithSuchValues) {
  for (const JobFlag& flag : JobFlags()) {
    if (flag.only_with.empty()) continue;
    const std::vector<std::string> needs = absl::StrSplit(flag.only_with, '=');
    ASSERT_EQ(needs.size(), 2u) << flag.name;
    for (const absl::string_view value : absl::StrSplit(needs[1], ',')) {
      v1::JobSpec job;
      std::vector<std::string> args = {absl::StrCat("--", needs[0], "=", value)};
      EXPECT_TRUE(ApplyJobFlags(&args, &job).ok()) << flag.name;
      EXPECT_TRUE(args.empty()) << flag.name;
    }
  }
}

}  // namespace
}  // namespace capstan
