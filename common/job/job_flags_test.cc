#include "common/job/job_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using Args = std::vector<std::string>;

TEST(JobFlagsTest, BothSpellingsSetTheFieldAndTheRestStaysInOrder) {
  v1::JobSpec job;
  Args args = {"capstan", "run", "--seed=7", "--job=x", "--job_name", "night", "--verbose"};
  ASSERT_TRUE(ApplyJobFlags(&args, &job).ok());
  EXPECT_EQ(job.seed(), 7u);
  EXPECT_EQ(job.name(), "night");
  EXPECT_THAT(args, ElementsAre("capstan", "run", "--job=x", "--verbose"));
}

TEST(JobFlagsTest, OverridingAFieldKeepsTheOthersOfItsMessage) {
  v1::JobSpec job;
  job.mutable_optimizer()->set_type(v1::OptimizerSpec::ADAM);
  job.mutable_data()->mutable_synthetic()->set_classes(3);
  Args args = {"--learning_rate=0.125", "--field=data.synthetic.samples=9"};
  ASSERT_TRUE(ApplyJobFlags(&args, &job).ok());
  EXPECT_EQ(job.optimizer().type(), v1::OptimizerSpec::ADAM);
  EXPECT_EQ(job.optimizer().learning_rate(), 0.125);
  EXPECT_EQ(job.data().synthetic().classes(), 3u);
  EXPECT_EQ(job.data().synthetic().samples(), 9u);
}

TEST(JobFlagsTest, BoolsMayBeGivenWithoutAValueAndNegated) {
  v1::JobSpec job;
  Args args = {"--has_header", "--noallow_other_bits", "kept"};
  ASSERT_TRUE(ApplyJobFlags(&args, &job).ok());
  EXPECT_TRUE(job.data().has_header());
  EXPECT_FALSE(job.membership().allow_other_bits());
  EXPECT_THAT(args, ElementsAre("kept"));
  args = {"--has_header=false", "--allow_other_bits=true"};
  ASSERT_TRUE(ApplyJobFlags(&args, &job).ok());
  EXPECT_FALSE(job.data().has_header());
  EXPECT_TRUE(job.membership().allow_other_bits());
}

TEST(JobFlagsTest, NegatedFlagThatIsNoBoolIsLeft) {
  v1::JobSpec job;
  Args args = {"--noseed"};
  ASSERT_TRUE(ApplyJobFlags(&args, &job).ok());
  EXPECT_THAT(args, ElementsAre("--noseed"));
}

TEST(JobFlagsTest, NothingIsTakenAfterTwoDashes) {
  v1::JobSpec job;
  Args args = {"--seed=2", "--", "--seed=3"};
  ASSERT_TRUE(ApplyJobFlags(&args, &job).ok());
  EXPECT_EQ(job.seed(), 2u);
  EXPECT_THAT(args, ElementsAre("--", "--seed=3"));
}

TEST(JobFlagsTest, NegativeNumberIsAValue) {
  v1::JobSpec job;
  Args args = {"--staleness", "-1"};
  ASSERT_TRUE(ApplyJobFlags(&args, &job).ok());
  EXPECT_EQ(job.consistency().staleness(), -1);
  EXPECT_THAT(args, IsEmpty());
}

TEST(JobFlagsTest, CodecsOfTablesAreAList) {
  v1::JobSpec job;
  Args args = {"--push_codec=topk:0.01:int8", "--table_codec=a:int8",
               "--table_codec=fc1.weight:float32,b:bfloat16", "--field=codec.min_bytes=4KiB"};
  ASSERT_TRUE(ApplyJobFlags(&args, &job).ok());
  EXPECT_EQ(job.codec().push(), "topk:0.01:int8");
  EXPECT_EQ(job.codec().pull(), "float32");
  ASSERT_EQ(job.codec().table_codec_size(), 2) << "the last flag wins";
  EXPECT_EQ(job.codec().table_codec(0).table(), "fc1.weight");
  EXPECT_EQ(job.codec().table_codec(0).codec(), "float32");
  EXPECT_EQ(job.codec().table_codec(1).table(), "b");
  EXPECT_EQ(job.codec().min_bytes(), 4096u);
}

TEST(JobFlagsTest, LastOfARepeatedFlagWins) {
  v1::JobSpec job;
  Args args = {"--hidden=1,2", "--hidden=3"};
  ASSERT_TRUE(ApplyJobFlags(&args, &job).ok());
  EXPECT_THAT(job.model().hidden(), ElementsAre(3u));
}

TEST(JobFlagsTest, BadValueNamesTheFlagAndThePossibleValues) {
  v1::JobSpec job;
  Args args = {"--consistency=foo"};
  const absl::Status status = ApplyJobFlags(&args, &job);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "flag --consistency: expected one of bsp, ssp, async; got \"foo\"");
}

TEST(JobFlagsTest, FlagWithoutItsValueIsRefused) {
  v1::JobSpec job;
  Args args = {"--steps"};
  EXPECT_EQ(ApplyJobFlags(&args, &job).message(), "flag --steps: expected a value; got none");
}

TEST(JobFlagsTest, EpochsReplaceTheFilesStepsUnlessStepsAreGivenToo) {
  v1::JobSpec job;
  job.mutable_training()->set_steps(100);
  v1::JobSpec both = job;
  Args args = {"--epochs=3"};
  ASSERT_TRUE(ApplyJobFlags(&args, &job).ok());
  EXPECT_EQ(job.training().steps(), 0u);
  EXPECT_EQ(job.training().epochs(), 3u);
  args = {"--steps=5", "--epochs=3"};
  ASSERT_TRUE(ApplyJobFlags(&args, &both).ok());
  EXPECT_EQ(both.training().steps(), 5u);
}

TEST(JobFlagsTest, ConsistencyOtherThanSspUnsetsTheFilesStalenessUnlessThatIsGivenToo) {
  v1::JobSpec file;
  file.mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  file.mutable_consistency()->set_staleness(3);
  const struct {
    Args args;
    int64_t staleness;
  } cases[] = {{{"--consistency=async"}, 0},
               {{"--consistency=bsp"}, 0},
               {{"--consistency=ssp"}, 3},
               {{"--consistency=async", "--staleness=2"}, 2},
               {{"--seed=2"}, 3}};
  for (const auto& test : cases) {
    v1::JobSpec job = file;
    Args args = test.args;
    ASSERT_TRUE(ApplyJobFlags(&args, &job).ok());
    EXPECT_EQ(job.consistency().staleness(), test.staleness) << test.args[0];
  }
}

TEST(JobFlagsTest, AFieldIsSetByItsPathWhetherItHasAFlagOrNot) {
  v1::JobSpec job;
  std::set<absl::string_view> given;
  Args args = {"run",
               "--field=limits.message_bytes=32M",
               "--field",
               "training.batch_size=8",
               "--field=model.replay.layers=a=b",
               "--batch_size=16"};
  ASSERT_TRUE(ApplyJobFlags(&args, &job, &given).ok());
  EXPECT_EQ(job.limits().message_bytes(), 32u << 20);
  EXPECT_EQ(job.training().batch_size(), 16u);
  EXPECT_EQ(job.model().replay().layers(), "a=b");
  EXPECT_THAT(args, ElementsAre("run"));
  EXPECT_THAT(given, ElementsAre("batch_size", "limits.message_bytes", "model.replay.layers"));
}

TEST(JobFlagsTest, AFieldThatIsNoneIsRefusedWithTheNearestOne) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--field=limit.message_bytes=1",
       "expected a field of a job, got \"limit.message_bytes\" (did "
       "you mean limits.message_bytes?); capstan help fields"},
      {"--field=message_bytes=1", "(did you mean limits.message_bytes?)"},
      {"--field=learning_rate=1", "(did you mean optimizer.learning_rate?)"},
      {"--field=push_codec=int8", "(did you mean codec.push?)"},
      {"--field=seed=x", "flag --field=seed: expected a whole number"},
      {"--field=limits=1", "expected a field of a job, got \"limits\""},
      {"--field=limits.message_bytes",
       "expected FIELD=VALUE, such as limits.message_bytes=32M; got"},
      {"--field=limits.message_bytes=many", "flag --field=limits.message_bytes: expected a size"},
      {"--field", "flag --field: expected a value; got none"}};
  for (const auto& [flag, error] : cases) {
    v1::JobSpec job;
    Args args = {flag};
    EXPECT_THAT(std::string(ApplyJobFlags(&args, &job).message()), HasSubstr(error)) << flag;
  }
}

TEST(JobFlagsTest, APathIsNoFlagAndAFieldWithoutAFlagHasNone) {
  v1::JobSpec job;
  Args args = {"--limits.message_bytes=1", "--message_bytes=1", "--name=x"}, before = args;
  ASSERT_TRUE(ApplyJobFlags(&args, &job).ok());
  EXPECT_EQ(args, before);
}

// EffectiveJob's error for the default job with these flags; empty if there is none.
std::string Verdict(std::vector<std::string> flags) {
  return std::string(EffectiveJob("", std::move(flags)).status().message());
}

TEST(EffectiveJobTest, DgcHasFlagsOfItsOwn) {
  const std::vector<std::string> flags = {"--field=codec.dgc_momentum=0.5",
                                          "--field=codec.dgc_clip_norm=2",
                                          "--field=codec.dgc_warmup_steps=7"};
  for (const std::string& flag : flags) {
    EXPECT_EQ(Verdict({"--optimizer=sgd", "--push_codec=topk:0.01", "--dgc", flag}), "");
    EXPECT_THAT(Verdict({flag}), HasSubstr("matters with --dgc=true only"));
  }
  EXPECT_THAT(Verdict({"--optimizer=sgd", "--push_codec=topk:0.01", "--dgc", "--pull_codec=auto"}),
              HasSubstr("--dgc: expected off with an auto codec"));
}

TEST(EffectiveJobTest, AFlagThatCannotMatterIsRefusedWithWhatItNeeds) {
  EXPECT_EQ(
      Verdict({"--optimizer=sgd", "--beta1=0.5"}),
      "--beta1: matters with --optimizer=adam or adamw or lion only, and the job has sgd; leave it "
      "out, or choose that");
  for (const std::string flag :
       {"--field=model.replay.layers=vgg16", "--label_column=0", "--field=transport.ucx_poll=busy",
        "--beta2=0.5", "--field=data.synthetic.samples=9", "--data_path=x.csv", "--has_header"}) {
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
  EXPECT_EQ(Verdict({"--keep=5"}),
            "--keep: cannot matter, because there is no --checkpoint_dir; leave out --keep");
  EXPECT_EQ(Verdict({"--keep=5", "--checkpoint_dir=d"}), "");
  EXPECT_EQ(
      Verdict({"--field=codec.min_bytes=0", "--table_codec=a:int8"}),
      "--field=codec.min_bytes: cannot matter, because --push_codec and --pull_codec are float32; "
      "leave out --field=codec.min_bytes");
  EXPECT_EQ(Verdict({"--field=codec.min_bytes=0", "--push_codec=int8"}), "");
  EXPECT_EQ(Verdict({"--field=codec.min_bytes=0", "--pull_codec=int8"}), "");
  EXPECT_EQ(Verdict({"--field=codec.reply_state_bytes=1MiB", "--pull_codec=int8",
                     "--push_codec=topk:0.1"}),
            "--field=codec.reply_state_bytes: cannot matter, because no codec of values is a topk; "
            "leave out "
            "--field=codec.reply_state_bytes");
  EXPECT_EQ(Verdict({"--field=codec.reply_state_bytes=1MiB", "--pull_codec=topk:0.1"}), "");
  EXPECT_EQ(Verdict({"--field=codec.reply_state_bytes=1MiB", "--table_codec=a:topk:0.1"}), "");
  EXPECT_EQ(Verdict({"--table_codec=a:float32"}),
            "--table_codec: cannot matter, because all tables are float32 without it, too; leave "
            "out --table_codec");
  EXPECT_EQ(Verdict({"--table_codec=a:float32", "--push_codec=int8"}), "");
}

TEST(EffectiveJobTest, FlagsOfDataAndBatchesAreNotForPrograms) {
  EXPECT_EQ(Verdict({"--model=program", "--batch_size=8"}),
            "--batch_size: cannot matter, because the workers are programs of your own, which "
            "choose their data, batches and steps; leave it out, and give it to your program");
  for (const std::string flag : {"--data_format=synthetic", "--test_fraction=0.5", "--classes=3",
                                 "--feature_scale=2", "--epochs=3"}) {
    EXPECT_THAT(Verdict({"--model=program", flag}), HasSubstr("programs of your own")) << flag;
    EXPECT_EQ(Verdict({flag}), "") << flag;
  }
  for (const std::string flag : {"--precision=bfloat16", "--field=model.replay.layers=vgg16"}) {
    EXPECT_THAT(Verdict({"--model=program", flag}), HasSubstr("and the job has program")) << flag;
  }
}

TEST(EffectiveJobTest, FlagsOfServersAndOfStepsAreForProgramsToo) {
  for (const std::string flag :
       {"--steps=100", "--learning_rate=0.1", "--consistency=async", "--push_codec=int8",
        "--checkpoint_dir=d", "--output=o.safetensors", "--initial=i.safetensors", "--seed=3"}) {
    EXPECT_EQ(Verdict({"--model=program", flag}), "") << flag;
  }
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
      {"--model=replay", "--field=model.replay.layers=resnet50", "--field=model.replay.scale=4",
       "--field=model.replay.compute_seconds=1"},
      {"--consistency=ssp", "--staleness=0"},
      {"--transport=auto", "--field=transport.ucx_poll=busy",
       "--field=transport.grpc_connections=2"},
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
  EXPECT_THAT(
      std::string(EffectiveJob(path, {"--momentum=0.9"}).status().message()),
      StartsWith("--momentum: matters with --optimizer=momentum or nesterov or rmsprop only"));
}

TEST(EffectiveJobTest, WhatIsOutOfRangeIsToldFirst) {
  EXPECT_THAT(Verdict({"--staleness=-1"}), StartsWith("--staleness: expected 0 or more, got -1"));
}

}  // namespace
}  // namespace capstan
