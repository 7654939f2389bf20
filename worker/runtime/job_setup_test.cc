#include "worker/runtime/job_setup.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/real_clock.h"
#include "worker/dataset/temp_file.h"
#include "worker/engine/cpu_engine.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Keeps the warnings that are logged.
class Warnings : public google::LogSink {
 public:
  Warnings() { google::AddLogSink(this); }
  ~Warnings() override { google::RemoveLogSink(this); }

  using google::LogSink::send;
  void send(google::LogSeverity severity, const char*, const char*, int,
            const google::LogMessageTime&, const char* message, size_t size) override {
    if (severity == google::GLOG_WARNING) lines.emplace_back(message, size);
  }

  std::vector<std::string> lines;
};

// What a worker logs of a job whose data file has these rows.
std::vector<std::string> WarningsOf(const std::string& rows) {
  v1::JobSpec job;
  job.mutable_data()->set_format(v1::DataSpec::CSV);
  job.mutable_data()->set_path(WriteTempFile("rows", rows));
  job.mutable_data()->set_classes(2);
  job.mutable_cluster()->set_num_workers(1);
  job.mutable_training()->set_batch_size(1);
  RealClock clock;
  Warnings warnings;
  const absl::StatusOr<JobSetup> setup = PrepareJob(job, MakeCpuEngine, &clock);
  EXPECT_TRUE(setup.ok()) << setup.status();
  return warnings.lines;
}

TEST(JobSetupTest, AWarningAboutTheDataIsLoggedBeforeTheTraining) {
  EXPECT_THAT(WarningsOf("5,1\n2,1\n3,1\n4,1\n"), ElementsAre(HasSubstr("every label is 1")));
  EXPECT_THAT(WarningsOf("5,0\n2,1\n3,0\n4,1\n"), IsEmpty());
}

}  // namespace
}  // namespace capstan
