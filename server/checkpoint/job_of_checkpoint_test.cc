#include "server/checkpoint/job_of_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/job/field_text.h"
#include "common/job/job_settings.h"
#include "server/checkpoint/example_checkpoint.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// "flag=value", with another value than that of JobOfCheckpoint.
const std::vector<std::string> kMayDiffer = {"job_name=other",
                                             "codec.reply_state_bytes=9",
                                             "num_servers=5",
                                             "replicas=2",
                                             "steps=9",
                                             "epochs=9",
                                             "initial=m",
                                             "output=m",
                                             "output_optimizer_state=true",
                                             "initial_optimizer_state=true",
                                             "stay=true",
                                             "data_path=b",
                                             "data_labels_path=b",
                                             "test_path=b",
                                             "test_labels_path=b",
                                             "consistency=async",
                                             "staleness=1",
                                             "table_staleness=linear.bias:1",
                                             "update_scale=sum",
                                             "consistency.check_finite=false",
                                             "checkpoint_dir=d",
                                             "checkpoint_steps=9",
                                             "checkpoint_seconds=9",
                                             "keep=9",
                                             "restore=latest",
                                             "schedule=slice_fifo",
                                             "scheduler.credit_bytes=9",
                                             "scheduler.partition_bytes=9",
                                             "scheduler.tune=true",
                                             "lease_seconds=9",
                                             "allow_other_bits=false",
                                             "heartbeat_seconds=1",
                                             "rpc_deadline_seconds=60",
                                             "registration_seconds=9",
                                             "replace_seconds=9",
                                             "coordinator_seconds=90",
                                             "transport=ucx",
                                             "transport.ucx_poll=busy",
                                             "transport.ucx_transports=sm",
                                             "transport.grpc_connections=2",
                                             "transport.max_inflight_bytes=1MiB",
                                             "insecure_data_plane=true",
                                             "limits.handshake_seconds=9",
                                             "limits.idle_connection_seconds=9",
                                             "limits.unproved_connections=9",
                                             "limits.calls_per_connection=9",
                                             "limits.registrations_per_second=9",
                                             "limits.message_bytes=1MiB"};
const std::vector<std::string> kMayNot = {"seed=9",
                                          "num_workers=9",
                                          "shard_count=9",
                                          "model=mlp",
                                          "hidden=9",
                                          "precision=tf32",
                                          "model.replay.layers=resnet50",
                                          "model.replay.scale=9",
                                          "model.replay.compute_seconds=9",
                                          "model.updates.tables=9",
                                          "model.updates.compute_seconds=9",
                                          "embedding_dim=9",
                                          "model.embedding_stddev=0.5",
                                          "admitting_push=9",
                                          "max_idle_steps=9",
                                          "max_rows=9",
                                          "data_format=csv",
                                          "test_fraction=0.5",
                                          "classes=9",
                                          "features=9",
                                          "label_column=9",
                                          "has_header=true",
                                          "feature_scale=9",
                                          "data.synthetic.samples=9",
                                          "data.synthetic.features=9",
                                          "data.synthetic.classes=9",
                                          "data.synthetic.teacher_hidden=9",
                                          "columns=label,numeric",
                                          "delimiter=tab",
                                          "fields=9",
                                          "data.synthetic_ctr.samples=9",
                                          "data.synthetic_ctr.test_samples=9",
                                          "data.synthetic_ctr.keys=200",
                                          "data.synthetic_ctr.zipf_exponent=2",
                                          "data.synthetic_ctr.interactions=true",
                                          "batch_size=9",
                                          "local_steps=9",
                                          "round_seconds=9",
                                          "fragments=9",
                                          "fragment_sync_delay=9",
                                          "local_optimizer=adam",
                                          "local_learning_rate=9",
                                          "training.local_steps.optimizer.momentum=0.5",
                                          "training.local_steps.optimizer.beta1=0.5",
                                          "training.local_steps.optimizer.beta2=0.5",
                                          "training.local_steps.optimizer.epsilon=1",
                                          "training.local_steps.optimizer.weight_decay=1",
                                          "optimizer=adam",
                                          "learning_rate=0.05000000001",
                                          "momentum=0.5",
                                          "beta1=0.5",
                                          "beta2=0.5",
                                          "epsilon=1",
                                          "weight_decay=1",
                                          "beta=2",
                                          "l1=1",
                                          "l2=1",
                                          "optimizer.alpha=0.5",
                                          "optimizer.centered=true",
                                          "optimizer.dampening=0.5",
                                          "optimizer.amsgrad=true",
                                          "optimizer.maximize=true",
                                          "push_codec=topk:0.01:int8",
                                          "pull_codec=bfloat16",
                                          "table_codec=linear.bias:int8",
                                          "codec.min_bytes=9",
                                          "dgc=true",
                                          "codec.dgc_momentum=0.5",
                                          "codec.dgc_clip_norm=9",
                                          "codec.dgc_warmup_steps=9",
                                          "slice_bytes=2KiB"};

void Set(absl::string_view flag, v1::JobSpec* job) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(flag, absl::MaxSplits('=', 1));
  const JobSetting& setting = *FindJobSetting(parts.first);
  ASSERT_TRUE(SetFieldText(MessageOf(setting, job), *setting.descriptor, parts.second).ok())
      << flag;
}

v1::JobSpec JobOfCheckpoint() {
  v1::JobSpec job = ExampleJob();
  for (const char* path : {"data_path=a", "data_labels_path=a", "test_path=a", "test_labels_path=a",
                           "classes=3", "features=3"}) {
    Set(path, &job);
  }
  return job;
}

absl::Status Check(const v1::JobSpec& of_checkpoint, const v1::JobSpec& job) {
  v1::CheckpointManifest manifest;
  *manifest.mutable_job() = of_checkpoint;
  return CheckJobOfCheckpoint(manifest, job, "d/checkpoint-000001");
}

TEST(JobOfCheckpointTest, FieldsThatSayHowAJobRunsMayDiffer) {
  for (const std::string& flag : kMayDiffer) {
    v1::JobSpec job = JobOfCheckpoint();
    Set(flag, &job);
    const absl::Status status = Check(JobOfCheckpoint(), job);
    EXPECT_TRUE(status.ok()) << flag << ": " << status;
  }
}

TEST(JobOfCheckpointTest, TheSameCodecsMayBeWrittenInAnotherWay) {
  v1::JobSpec of_checkpoint = JobOfCheckpoint(), job = JobOfCheckpoint();
  Set("push_codec=topk:0.01", &of_checkpoint);
  Set("table_codec=linear.bias:int8,linear.weight:topk:5", &of_checkpoint);
  Set("push_codec=topk:0.010:float32", &job);
  Set("table_codec=linear.weight:topk:5:float32,linear.bias:int8", &job);
  EXPECT_TRUE(Check(of_checkpoint, job).ok()) << Check(of_checkpoint, job);
  Set("table_codec=linear.weight:topk:6,linear.bias:int8", &job);
  EXPECT_FALSE(Check(of_checkpoint, job).ok());
}

TEST(JobOfCheckpointTest, FieldsThatSayWhatIsTrainedMayNot) {
  for (const std::string& flag : kMayNot) {
    v1::JobSpec job = JobOfCheckpoint();
    Set(flag, &job);
    const absl::Status status = Check(JobOfCheckpoint(), job);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << flag;
    const std::vector<std::string> parts = absl::StrSplit(flag, '=');
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr(absl::StrCat("another job: ", FindJobSetting(parts[0])->OnCommandLine(),
                                     ": expected ")),
              HasSubstr(absl::StrCat(", got ", parts[1], ". Only these may differ: "))));
  }
}

TEST(JobOfCheckpointTest, AValueThatIsTheDefaultOrComesFromTheDataIsNoDifference) {
  v1::JobSpec before = JobOfCheckpoint();
  Set("model=mlp", &before);
  v1::JobSpec now = before;
  Set("hidden=128,64", &now);
  Set("classes=0", &now);
  Set("features=0", &now);
  EXPECT_TRUE(Check(before, now).ok()) << Check(before, now);
  EXPECT_TRUE(Check(now, before).ok()) << Check(now, before);
  Set("hidden=128", &now);
  EXPECT_THAT(std::string(Check(before, now).message()),
              HasSubstr("--hidden: expected 128,64, got 128. "));
}

TEST(JobOfCheckpointTest, WhatAnOptimizerHasUnlessItIsGivenIsCompared) {
  for (const auto& [optimizer, given, default_value] :
       {std::tuple("optimizer=lion", "beta2=0.999", "beta2=0.99"),
        std::tuple("optimizer=rmsprop", "momentum=0.9", "momentum=0")}) {
    v1::JobSpec before = JobOfCheckpoint();
    Set(optimizer, &before);
    v1::JobSpec now = before;
    Set(default_value, &now);
    EXPECT_TRUE(Check(before, now).ok()) << Check(before, now);
    Set(given, &now);
    EXPECT_TRUE(absl::IsInvalidArgument(Check(before, now))) << optimizer;
  }
}

// A new field has to be put into one of the lists.
TEST(JobOfCheckpointTest, EverySettingIsInOneOfTheseTests) {
  std::multiset<std::string> tested, all;
  for (const auto* list : {&kMayDiffer, &kMayNot}) {
    for (const std::string& flag : *list) tested.insert(flag.substr(0, flag.find('=')));
  }
  for (const JobSetting& setting : JobSettings()) all.insert(setting.key());
  EXPECT_EQ(tested, all);
}

TEST(JobOfCheckpointTest, EachDifferenceIsNamed) {
  v1::JobSpec job = JobOfCheckpoint();
  for (const char* flag : {"seed=2", "num_servers=1", "momentum=0.5"}) Set(flag, &job);
  EXPECT_THAT(std::string(Check(JobOfCheckpoint(), job).message()),
              AllOf(HasSubstr("d/checkpoint-000001: the checkpoint is of another job: --seed: "
                              "expected 1, got 2; --momentum: expected 0.9, got 0.5. Only"),
                    HasSubstr("use capstan export and --initial")));
}

TEST(JobOfCheckpointTest, DataThatAppearsOrIsGoneIsOtherData) {
  v1::JobSpec without = JobOfCheckpoint();
  without.mutable_data()->clear_test_path();
  EXPECT_THAT(std::string(Check(JobOfCheckpoint(), without).message()),
              HasSubstr("--test_path: expected a, got nothing"));
  EXPECT_THAT(std::string(Check(without, JobOfCheckpoint()).message()),
              HasSubstr("--test_path: expected nothing, got a"));
}

TEST(JobOfCheckpointTest, SlicesOfAnotherSizeAreNamedHoweverTheyAreChosen) {
  v1::JobSpec open = ExampleJob();
  open.mutable_scheduler()->clear_slice_bytes();
  v1::JobSpec tuned = open, whole = open, same = open;
  tuned.mutable_scheduler()->set_tune(true);
  whole.mutable_scheduler()->set_policy(v1::SchedulerSpec::TENSOR_FIFO);
  same.mutable_scheduler()->set_slice_bytes(1 << 20);
  EXPECT_THAT(std::string(Check(tuned, same).message()),
              HasSubstr("--slice_bytes: expected 256KiB, got 1MiB"));
  EXPECT_THAT(std::string(Check(open, whole).message()),
              HasSubstr("--slice_bytes: expected 1MiB, got 64MiB"));
  EXPECT_TRUE(Check(open, same).ok()) << "it is the default";
  EXPECT_TRUE(Check(tuned, open).ok()) << "it takes the checkpoint's";
  EXPECT_TRUE(Check(whole, tuned).ok()) << "it takes the checkpoint's";
}

}  // namespace
}  // namespace capstan
