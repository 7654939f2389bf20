#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "common/job/load_job.h"
#include "deploy/cli/commands.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

TEST(JobCommandTest, PrintsTheJobOfTheFileAndTheFlagsAsAFileOfTheSameJob) {
  const std::string folder = ::testing::TempDir();
  std::ofstream(folder + "/short.textproto")
      << "name: \"short\" training { steps: 5 } cluster { num_servers: 3 }";
  std::ostringstream out;
  const absl::Status status =
      JobCommand(folder + "/short.textproto", {"--steps=7", "--checkpoint_dir=saved"}, out);
  ASSERT_TRUE(status.ok()) << status;

  std::ofstream(folder + "/printed.textproto") << out.str();
  const auto job = LoadJobFile(folder + "/printed.textproto");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), "short");
  EXPECT_EQ(job->training().steps(), 7u);
  EXPECT_EQ(job->cluster().num_servers(), 3u);
  EXPECT_EQ(job->checkpoint().dir(), std::filesystem::current_path() / "saved");
}

TEST(JobCommandTest, TheNumbersOfProcessesAreThereAlsoIfTheyAreDefaults) {
  std::ostringstream out;
  ASSERT_TRUE(JobCommand(/*job_file=*/"", {}, out).ok());
  EXPECT_THAT(out.str(), HasSubstr("num_workers: 2\n  num_servers: 2\n"));
}

TEST(JobCommandTest, AWrongJobIsRefused) {
  std::ostringstream out;
  EXPECT_THAT(std::string(JobCommand("", {"--staleness=-1"}, out).message()),
              HasSubstr("--staleness: expected 0 or more, got -1"));
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace capstan
