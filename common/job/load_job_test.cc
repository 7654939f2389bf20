#include "common/job/load_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string WriteJob(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

std::string ErrorOf(const std::string& path) {
  const auto job = LoadJobFile(path);
  return job.ok() ? "" : std::string(job.status().message());
}

TEST(LoadJobTest, FieldsOfTheFileAreReadAndOthersKeepTheirDefaults) {
  const auto job = LoadJobFile(WriteJob("fields.textproto",
                                        "# A comment.\n"
                                        "name: \"digits\"\n"
                                        "optimizer { type: ADAM learning_rate: 0.25 }\n"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), "digits");
  EXPECT_EQ(job->optimizer().type(), v1::OptimizerSpec::ADAM);
  EXPECT_EQ(job->optimizer().learning_rate(), 0.25);
  EXPECT_EQ(job->optimizer().beta1(), 0.9);
  EXPECT_EQ(job->training().epochs(), 20u);
}

TEST(LoadJobTest, EmptyFileIsTheDefaultJob) {
  const auto job = LoadJobFile(WriteJob("empty.textproto", ""));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->ByteSizeLong(), 0u);
}

TEST(LoadJobTest, RelativeDataPathsCountFromTheFolderOfTheFile) {
  const auto job =
      LoadJobFile(WriteJob("paths.textproto",
                           "data { path: \"train.csv\" labels_path: \"a/../b/labels\"\n"
                           "  test_path: \"/data/test.csv\" }\n"));
  ASSERT_TRUE(job.ok()) << job.status();
  const std::filesystem::path folder = ::testing::TempDir();
  EXPECT_EQ(job->data().path(), folder / "train.csv");
  EXPECT_EQ(job->data().labels_path(), folder / "b/labels");
  EXPECT_EQ(job->data().test_path(), "/data/test.csv");
  EXPECT_FALSE(job->data().has_test_labels_path());
}

TEST(LoadJobTest, DataPathsAreAbsoluteAlsoWhenThePathOfTheFileIsNot) {
  std::filesystem::current_path(::testing::TempDir());
  WriteJob("relative.textproto", "data { path: \"train.csv\" test_labels_path: \"t\" }");
  const auto job = LoadJobFile("relative.textproto");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->data().path(), std::filesystem::current_path() / "train.csv");
  EXPECT_EQ(job->data().test_labels_path(), std::filesystem::current_path() / "t");
}

TEST(LoadJobTest, PathsOfModelsAreAbsoluteToo) {
  WriteJob("models.textproto", "initial: \"a\" output: \"b/m\"");
  const auto job = LoadJobFile(::testing::TempDir() + "/models.textproto");
  ASSERT_TRUE(job.ok()) << job.status();
  const std::filesystem::path folder = ::testing::TempDir();
  EXPECT_EQ(job->initial(), folder / "a");
  EXPECT_EQ(job->output(), folder / "b/m");
  v1::JobSpec absolute;
  absolute.set_output("/c");
  ResolveModelPaths(folder, &absolute);
  EXPECT_EQ(absolute.output(), "/c");
  EXPECT_FALSE(absolute.has_initial());
}

TEST(LoadJobTest, PathsOfCheckpointsAreAbsoluteTooButLatestIsNoPath) {
  const std::filesystem::path folder = ::testing::TempDir();
  const auto checkpoint = [](const std::string& fields) {
    const auto job = LoadJobFile(WriteJob("c.textproto", "checkpoint { " + fields + " }"));
    EXPECT_TRUE(job.ok()) << job.status();
    return job->checkpoint();
  };
  EXPECT_EQ(checkpoint("dir: \"a/../d\"").dir(), folder / "d");
  EXPECT_EQ(checkpoint("dir: \"/d\"").dir(), "/d");
  EXPECT_EQ(checkpoint("restore: \"d/checkpoint-000001\"").restore(),
            folder / "d/checkpoint-000001");
  EXPECT_EQ(checkpoint("restore: \"latest\"").restore(), "latest");
  EXPECT_EQ(checkpoint("restore: \"\"").restore(), "");
  EXPECT_FALSE(checkpoint("steps: 5").has_dir());
}

TEST(LoadJobTest, MissingFileIsNamed) {
  const auto job = LoadJobFile("/nonexistent/job.textproto");
  EXPECT_EQ(job.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(job.status().message(), AllOf(HasSubstr("/nonexistent/job.textproto"),
                                            HasSubstr("No such file or directory")));
}

TEST(LoadJobTest, FolderIsRefused) {
  EXPECT_THAT(ErrorOf(::testing::TempDir()), HasSubstr("it is a folder"));
}

TEST(LoadJobTest, APipeOrADeviceIsRefusedAtOnce) {
  const std::string pipe = ::testing::TempDir() + "/load_job_test_pipe";
  unlink(pipe.c_str());  // of an earlier run
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf(pipe), HasSubstr("got \"it is a pipe, "));
  EXPECT_THAT(ErrorOf("/dev/zero"), HasSubstr("got \"it is a device, "));
  unlink(pipe.c_str());
}

TEST(LoadJobTest, AByteOrderMarkIsNoPartOfTheJob) {
  const auto job = LoadJobFile(WriteJob("mark.textproto",
                                        "\xEF\xBB\xBF"
                                        "seed: 7\r\n"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->seed(), 7u);
}

TEST(LoadJobTest, UnknownFieldIsRefusedWithItsPlaceAndTheFieldsOfItsMessage) {
  const std::string path = WriteJob("unknown.textproto", "optimizer {\n  learning_rat: 1\n}\n");
  EXPECT_THAT(ErrorOf(path),
              AllOf(StartsWith(path + ":2:15: "), HasSubstr("\"learning_rat\""),
                    HasSubstr(" (did you mean learning_rate?); expected one of: type, "),
                    Not(HasSubstr("\n"))));
}

TEST(LoadJobTest, UnknownFieldsInAndBesideListsOfMessagesListThoseOfTheirMessage) {
  const std::string own = "table_staleness { table: \"w\" staleness: 1 }";
  EXPECT_THAT(ErrorOf(WriteJob("list.textproto", "consistency { " + own + " stale: 1 }")),
              HasSubstr("expected one of: mode, staleness, table_staleness"));
  EXPECT_THAT(ErrorOf(WriteJob("list.textproto",
                               "consistency { " + own + " table_staleness { name: \"b\" } }")),
              EndsWith("expected one of: table, staleness"));
  EXPECT_THAT(ErrorOf(WriteJob("list.textproto", "consistency { stale: 1 }")),
              HasSubstr("expected one of: mode, staleness, table_staleness"));
}

TEST(LoadJobTest, UnknownTopLevelFieldAfterAMessageListsTheTopLevelFields) {
  EXPECT_THAT(ErrorOf(WriteJob("top.textproto", "optimizer { type: SGD }\nworkers: 3\n")),
              AllOf(HasSubstr(":2:8: "), HasSubstr("expected one of: name, seed, stay")));
}

TEST(LoadJobTest, UnknownEnumValueListsTheValuesOfItsOwnMessage) {
  EXPECT_THAT(ErrorOf(WriteJob("enum.textproto", "model { type: MLP }\noptimizer { type: SGDD }")),
              AllOf(HasSubstr(":2:"), HasSubstr("\"SGDD\""),
                    EndsWith("expected one of: SGD, MOMENTUM, NESTEROV, ADAGRAD, ADAM, ADAMW, "
                             "ROW_ADAGRAD, FTRL, RMSPROP, LION")));
}

TEST(LoadJobTest, ValueOfTheWrongTypeIsRefusedWithItsPlace) {
  EXPECT_THAT(ErrorOf(WriteJob("type.textproto", "cluster { num_workers: \"two\" }")),
              AllOf(HasSubstr("type.textproto:1:24: "), HasSubstr("integer")));
}

TEST(LoadJobTest, SavedJobIsReadBackEqual) {
  v1::JobSpec job;
  job.set_name("round-trip");
  job.mutable_model()->add_hidden(7);
  job.mutable_optimizer()->set_epsilon(1e-12);
  const std::string path = ::testing::TempDir() + "/saved.textproto";
  ASSERT_TRUE(SaveJobFile(job, path).ok());
  const auto loaded = LoadJobFile(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->SerializeAsString(), job.SerializeAsString());
}

TEST(LoadJobTest, SavingIntoAMissingFolderFails) {
  const absl::Status status = SaveJobFile(v1::JobSpec(), "/nonexistent/job.textproto");
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/job.textproto"));
}

}  // namespace
}  // namespace capstan
