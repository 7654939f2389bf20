#include "common/job/validate_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job_flags.h"
#include "common/job/job_settings.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

// ValidateJob's error for the default job with these flags; empty if there is none.
std::string Verdict(std::vector<std::string> flags) {
  v1::JobSpec job;
  const absl::Status applied = ApplyJobFlags(&flags, &job);
  EXPECT_TRUE(applied.ok()) << applied;
  const absl::Status status = ValidateJob(job);
  return std::string(status.message());
}

TEST(ValidateJobTest, DefaultJobIsValid) {
  const absl::Status status = ValidateJob(v1::JobSpec());
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ValidateJobTest, MessageNamesFlagExpectationValueAndField) {
  EXPECT_EQ(Verdict({"--staleness=-1"}),
            "--staleness: expected 0 or more, got -1 (consistency.staleness in a job file)");
}

TEST(ValidateJobTest, StalenessIsForSspOnly) {
  EXPECT_EQ(Verdict({"--consistency=ssp", "--staleness=3"}), "");
  EXPECT_EQ(Verdict({"--consistency=async", "--staleness=3"}),
            "--staleness: expected 0, because it is for consistency ssp only, got 3 "
            "(consistency.staleness in a job file)");
}

TEST(ValidateJobTest, AProgramHasNoHiddenLayers) {
  EXPECT_EQ(Verdict({"--model=program"}), "");
  EXPECT_EQ(Verdict({"--model=program", "--hidden=8"}),
            "--hidden: expected nothing (--hidden=), as a program brings its own layers, got 8 "
            "(model.hidden in a job file)");
}

TEST(ValidateJobTest, ATableOfUpdatesHasANumberForEachWorkerAndStepInOneSlice) {
  EXPECT_EQ(Verdict({"--model=updates", "--steps=80", "--slice_bytes=640"}), "");
  EXPECT_EQ(Verdict({"--model=updates", "--steps=81", "--slice_bytes=640"}),
            "--steps: expected 1 to 80, as the model is updates: a slice of --slice_bytes has a "
            "number for each worker and step, got 81 (training.steps in a job file)");
  EXPECT_THAT(Verdict({"--model=updates"}), HasSubstr("--steps: expected 1 to "));
  EXPECT_EQ(Verdict({"--model=updates", "--steps=1", "--num_workers=16"}), "");
  EXPECT_THAT(Verdict({"--model=updates", "--steps=1", "--num_workers=17"}),
              HasSubstr("--num_workers: expected 1 to 16, as the model is updates"));
  EXPECT_THAT(Verdict({"--model=updates", "--steps=1", "--hidden=8"}), HasSubstr("--hidden: "));
  EXPECT_THAT(Verdict({"--model=updates", "--steps=1", "--field=model.updates.tables=0"}),
              HasSubstr("model.updates.tables: expected 1 to 1024"));
}

TEST(ValidateJobTest, TwoReplicasNeedTwoServers) {
  EXPECT_EQ(Verdict({"--replicas=2", "--num_servers=2"}), "");
  EXPECT_EQ(Verdict({"--replicas=1", "--num_servers=1"}), "");
  EXPECT_EQ(Verdict({"--replicas=2", "--num_servers=1"}),
            "--num_servers: expected 2 or more, as replicas is 2: a shard's copy is on another "
            "server (or take --replicas=1), got 1 (cluster.num_servers in a job file)");
}

TEST(ValidateJobTest, TwoReplicasDoNotTravelOverUcx) {
  EXPECT_EQ(Verdict({"--replicas=2", "--transport=auto"}), "");
  EXPECT_EQ(Verdict({"--replicas=1", "--transport=ucx"}), "");
  EXPECT_EQ(Verdict({"--replicas=2", "--transport=ucx"}),
            "--transport: expected grpc or auto, as replicas is 2: over UCX 1.13 a broken "
            "connection may still write into memory whose exchange was answered as lost, got ucx "
            "(transport.type in a job file)");
}

TEST(ValidateJobTest, FlagsAtTheEndOfTheirRangeAreValid) {
  for (const char* flag : {"--num_workers=4096",
                           "--shard_count=2",
                           "--shard_count=65536",
                           "--slice_bytes=64",
                           "--slice_bytes=64MiB",
                           "--field=scheduler.credit_bytes=1",
                           "--field=scheduler.partition_bytes=0",
                           "--batch_size=1",
                           "--steps=1",
                           "--momentum=0",
                           "--weight_decay=0",
                           "--lease_seconds=1.5",
                           "--rpc_deadline_seconds=10",
                           "--registration_seconds=0",
                           "--replace_seconds=0",
                           "--replace_seconds=0.1",
                           "--rpc_deadline_seconds=3600",
                           "--coordinator_seconds=30",
                           "--hidden=1",
                           "--label_column=-1",
                           "--job_name=a-B_9",
                           "--field=transport.grpc_connections=64",
                           "--field=transport.max_inflight_bytes=64KiB",
                           "--field=transport.ucx_transports=tcp,rc_verbs,self"}) {
    EXPECT_EQ(Verdict({flag}), "") << flag;
  }
}

TEST(ValidateJobTest, FlagsOutOfTheirRangeAreRefusedByName) {
  const struct {
    const char* name;
    const char* value;
  } cases[] = {
      {"job_name", ""},
      {"job_name", "a/b"},
      {"num_workers", "0"},
      {"num_workers", "4097"},
      {"num_servers", "0"},
      {"replicas", "0"},
      {"replicas", "3"},
      {"shard_count", "1"},
      {"shard_count", "65537"},
      {"hidden", "8,0"},
      {"test_fraction", "0"},
      {"test_fraction", "1"},
      {"test_fraction", "nan"},
      {"classes", "1"},
      {"label_column", "-2"},
      {"feature_scale", "-1"},
      {"data.synthetic.samples", "1"},
      {"data.synthetic.features", "0"},
      {"data.synthetic.classes", "1"},
      {"data.synthetic.teacher_hidden", "0"},
      {"batch_size", "0"},
      {"epochs", "0"},
      {"learning_rate", "0"},
      {"learning_rate", "inf"},
      {"learning_rate", "nan"},
      {"momentum", "1"},
      {"beta1", "-0.1"},
      {"beta2", "1"},
      {"epsilon", "0"},
      {"weight_decay", "-1"},
      {"beta", "-1"},
      {"l1", "inf"},
      {"l2", "-0.5"},
      {"slice_bytes", "0"},
      {"slice_bytes", "100"},
      {"slice_bytes", "128MiB"},
      {"scheduler.credit_bytes", "0"},
      {"heartbeat_seconds", "0"},
      {"lease_seconds", "1.4"},
      {"lease_seconds", "inf"},
      {"rpc_deadline_seconds", "9"},
      {"registration_seconds", "-1"},
      {"registration_seconds", "inf"},
      {"replace_seconds", "-1"},
      {"replace_seconds", "inf"},
      {"replace_seconds", "nan"},
      {"coordinator_seconds", "29"},
      {"coordinator_seconds", "inf"},
      {"transport.grpc_connections", "0"},
      {"transport.grpc_connections", "65"},
      {"transport.max_inflight_bytes", "65535"},
      {"transport.ucx_transports", "all"},
      {"transport.ucx_transports", "^ib"},
      {"transport.ucx_transports", "t*"},
      {"transport.ucx_transports", "sm,,self"},
  };
  for (const auto& test : cases) {
    const JobSetting& setting = *FindJobSetting(test.name);
    const std::string name = setting.flag.empty() ? setting.path : "--" + setting.flag;
    const std::string verdict = Verdict({setting.OnCommandLine() + "=" + test.value});
    EXPECT_EQ(verdict.rfind(name + ": expected ", 0), 0u) << name << "=" << test.value << verdict;
  }
}

TEST(ValidateJobTest, CheckpointsAreCountedInStepsOrInSeconds) {
  const std::string dir = "--checkpoint_dir=d";
  EXPECT_EQ(Verdict({dir}), "");
  EXPECT_EQ(Verdict({dir, "--checkpoint_steps=9007199254740992"}), "");
  EXPECT_EQ(Verdict({dir, "--checkpoint_seconds=0.5", "--keep=1"}), "");
  const struct {
    const char* flag;
    const char* error;
  } cases[] = {
      {"--checkpoint_steps=9007199254740993", "--checkpoint_steps: expected 2^53 or less, got "},
      {"--checkpoint_seconds=-1", "--checkpoint_seconds: expected 0 (none) or a finite number "},
      {"--checkpoint_seconds=inf", "--checkpoint_seconds: expected 0 (none) or a finite number "},
      {"--checkpoint_seconds=nan", "--checkpoint_seconds: expected 0 (none) or a finite number "},
      {"--keep=0", "--keep: expected 1 or more, got 0"}};
  for (const auto& test : cases) {
    EXPECT_EQ(Verdict({dir, test.flag}).rfind(test.error, 0), 0u) << test.flag;
  }
  EXPECT_EQ(Verdict({dir, "--checkpoint_steps=5", "--checkpoint_seconds=5"}),
            "--checkpoint_seconds: expected 0, as checkpoint_steps is given: one of the two, got 5 "
            "(checkpoint.seconds in a job file)");
}

TEST(ValidateJobTest, CheckpointsNeedTheirFolder) {
  for (const char* flag : {"--checkpoint_steps=5", "--checkpoint_seconds=5", "--restore=latest"}) {
    EXPECT_EQ(Verdict({flag}).rfind("--checkpoint_dir: expected ", 0), 0u) << flag;
    EXPECT_EQ(Verdict({flag, "--checkpoint_dir=d"}), "") << flag;
  }
  EXPECT_EQ(Verdict({"--restore=d/checkpoint-000001"}), "");
}

TEST(ValidateJobTest, TheOptimizersStateNeedsTheFileThatHasIt) {
  for (const std::string file : {"initial", "output"}) {
    const std::string flag = "--" + file + "_optimizer_state";
    EXPECT_EQ(Verdict({flag}).rfind("--" + file + ": expected a file, as ", 0), 0u) << flag;
    EXPECT_EQ(Verdict({flag, "--" + file + "=m"}), "");
  }
}

TEST(ValidateJobTest, AJobThatStaysHasNoModelOfItsEnd) {
  EXPECT_EQ(Verdict({"--stay"}), "");
  EXPECT_EQ(Verdict({"--output=m.safetensors"}), "");
  EXPECT_EQ(Verdict({"--stay", "--output=m.safetensors"}),
            "--output: expected nothing, as the job stays and has no end; export a checkpoint, got "
            "m.safetensors (output in a job file)");
}

TEST(ValidateJobTest, FileFormatsNeedTheirFiles) {
  EXPECT_EQ(Verdict({"--data_format=csv"}),
            "--data_path: expected the file of samples, as data_format is csv, got nothing "
            "(data.path in a job file)");
  EXPECT_EQ(Verdict({"--data_format=csv", "--data_path=x"}), "");
  EXPECT_NE(Verdict({"--data_format=idx", "--data_path=x"}), "");
  EXPECT_EQ(Verdict({"--data_format=idx", "--data_path=x", "--data_labels_path=y"}), "");
  EXPECT_NE(
      Verdict({"--data_format=idx", "--data_path=x", "--data_labels_path=y", "--test_path=t"}), "");
}

TEST(ValidateJobTest, LogisticRegressionHasNoHiddenLayers) {
  EXPECT_EQ(Verdict({"--model=logistic_regression"}), "");
  EXPECT_NE(Verdict({"--model=logistic_regression", "--hidden=8"}), "");
}

TEST(ValidateJobTest, UnspecifiedEnumsAreRefused) {
  v1::JobSpec model, precision, data, optimizer, consistency;
  model.mutable_model()->set_type(v1::ModelSpec::TYPE_UNSPECIFIED);
  precision.mutable_model()->set_precision(v1::ModelSpec::PRECISION_UNSPECIFIED);
  data.mutable_data()->set_format(v1::DataSpec::FORMAT_UNSPECIFIED);
  optimizer.mutable_optimizer()->set_type(v1::OptimizerSpec::TYPE_UNSPECIFIED);
  consistency.mutable_consistency()->set_mode(v1::ConsistencySpec::MODE_UNSPECIFIED);
  for (const v1::JobSpec& job : {model, precision, data, optimizer, consistency}) {
    EXPECT_EQ(ValidateJob(job).code(), absl::StatusCode::kInvalidArgument)
        << job.ShortDebugString();
  }
}

TEST(ValidateJobTest, FirstProblemIsReported) {
  EXPECT_EQ(Verdict({"--num_workers=0", "--batch_size=0"}).rfind("--num_workers", 0), 0u);
}

TEST(ValidateJobTest, StalenessOfTablesIsForSspOnlyAndOnceEach) {
  EXPECT_EQ(Verdict({"--consistency=ssp", "--table_staleness=a:0,b:3"}), "");
  EXPECT_EQ(Verdict({"--table_staleness=a:1"}),
            "--table_staleness: expected nothing, because it is for consistency ssp only, got a:1 "
            "(consistency.table_staleness in a job file)");
  EXPECT_NE(Verdict({"--consistency=ssp", "--table_staleness=a:-1"}), "");
  EXPECT_NE(Verdict({"--consistency=ssp", "--table_staleness=a:1,a:2"}), "");
}

TEST(ValidateJobTest, CodecsAreThoseThatCanBeMade) {
  for (const char* codec : {"float32", "bfloat16", "int8"}) {
    EXPECT_EQ(Verdict({absl::StrCat("--push_codec=", codec)}), "");
    EXPECT_EQ(Verdict({absl::StrCat("--pull_codec=", codec)}), "");
    EXPECT_EQ(Verdict({absl::StrCat("--table_codec=fc1.weight:", codec, ",b:int8")}), "");
  }
  for (const char* codec : {"topk:0.01", "topk:100", "topk:1e-5:int8", "topk:1:bfloat16"}) {
    EXPECT_EQ(Verdict({absl::StrCat("--push_codec=", codec)}), "");
    EXPECT_EQ(Verdict({absl::StrCat("--pull_codec=", codec)}), "");
    EXPECT_EQ(Verdict({absl::StrCat("--table_codec=fc1.weight:", codec)}), "");
  }
  for (const char* codec : {"topk", "topk:", "topk:0", "topk:-1", "topk:2.5", "topk:1:float16"}) {
    EXPECT_EQ(Verdict({absl::StrCat("--push_codec=", codec)}).rfind("--push_codec: expected ", 0),
              0u)
        << codec;
  }
  EXPECT_EQ(
      Verdict({"--push_codec=int9"}),
      "--push_codec: expected auto, float32, bfloat16, int8, topk:R or topk:R:VALUES, got \"int9\" "
      "(codec.push in a job file)");
  EXPECT_EQ(Verdict({"--push_codec="}).rfind("--push_codec: expected auto, float32, ", 0), 0u);
  EXPECT_EQ(
      Verdict({"--pull_codec=fast"}),
      "--pull_codec: expected auto, float32, bfloat16, int8, topk:R or topk:R:VALUES, got \"fast\" "
      "(codec.pull in a job file)");
  EXPECT_EQ(Verdict({"--table_codec=fc1.weight:fast"}),
            "--table_codec: table fc1.weight: expected auto, float32, bfloat16, int8, topk:R or "
            "topk:R:VALUES, got \"fast\" (codec.table_codec in a job file)");
}

TEST(ValidateJobTest, DgcIsForATopkAndWithoutMomentumOnTheServers) {
  EXPECT_EQ(Verdict({"--dgc", "--push_codec=topk:0.001", "--optimizer=sgd"}), "");
  EXPECT_EQ(Verdict({"--dgc", "--optimizer=sgd"}),
            "--push_codec: expected a topk, as in topk:0.001, because of dgc, got float32 "
            "(codec.push in a job file)");
  EXPECT_EQ(Verdict({"--dgc", "--push_codec=topk:0.001", "--optimizer=momentum"}),
            "--optimizer: expected sgd, because with dgc the workers compute the momentum "
            "(codec.dgc_momentum), got momentum (optimizer.type in a job file)");
  for (const char* bad : {"--field=codec.dgc_momentum=1", "--field=codec.dgc_momentum=-0.1",
                          "--field=codec.dgc_clip_norm=-1", "--field=codec.dgc_clip_norm=inf"}) {
    EXPECT_NE(Verdict({"--dgc", "--push_codec=topk:9", "--optimizer=sgd", bad}), "") << bad;
  }
}

TEST(ValidateJobTest, EachTableHasAtMostOneCodec) {
  EXPECT_EQ(Verdict({"--table_codec=a:int8,a:int8"}),
            "--table_codec: expected each table once, by its name, got a:int8,a:int8 "
            "(codec.table_codec in a job file)");
  v1::JobSpec unnamed;
  unnamed.mutable_codec()->add_table_codec()->set_codec("int8");
  EXPECT_EQ(ValidateJob(unnamed).code(), absl::StatusCode::kInvalidArgument);
  v1::JobSpec empty;
  empty.mutable_codec()->add_table_codec()->set_table("a");
  EXPECT_EQ(ValidateJob(empty).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ValidateJobTest, WholeTensorsCannotBeTuned) {
  EXPECT_EQ(Verdict({"--field=scheduler.tune=on", "--schedule=slice_fifo"}), "");
  EXPECT_EQ(Verdict({"--field=scheduler.tune=on", "--schedule=tensor_fifo"})
                .rfind("scheduler.tune: expected off, ", 0),
            0u);
  EXPECT_EQ(Verdict({"--field=scheduler.tune=off", "--schedule=tensor_fifo"}), "");
}

TEST(ValidateJobTest, ConsistencyAloneIsCheckedAlike) {
  v1::ConsistencySpec consistency;
  EXPECT_TRUE(ValidateConsistency(consistency).ok());
  consistency.set_staleness(1);
  EXPECT_TRUE(absl::IsInvalidArgument(ValidateConsistency(consistency))) << "of BSP";
}

}  // namespace
}  // namespace capstan
