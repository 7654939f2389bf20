// The job files in deploy/jobs.
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/status/statusor.h"
#include "common/job/load_job.h"
#include "common/job/validate_job.h"
#include "proto/job.pb.h"

namespace capstan {
namespace {

TEST(JobsTest, EveryJobFileIsValid) {
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("deploy/jobs")) {
    const absl::StatusOr<v1::JobSpec> job = LoadJobFile(entry.path());
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE(ValidateJob(*job).ok()) << entry.path() << ": " << ValidateJob(*job);
    ++num_files;
  }
  EXPECT_GT(num_files, 0);
}

TEST(JobsTest, AgaricusRunsFromAClone) {
  const absl::StatusOr<v1::JobSpec> job = LoadJobFile("deploy/jobs/agaricus.textproto");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(std::filesystem::exists(job->data().path())) << job->data().path();
  EXPECT_TRUE(std::filesystem::exists(job->data().test_path())) << job->data().test_path();
}

}  // namespace
}  // namespace capstan
