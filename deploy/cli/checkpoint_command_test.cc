#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/real_clock.h"
#include "deploy/cli/commands.h"
#include "proto/coordinator_service.grpc.pb.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/example_checkpoint.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n'); }

// Answers with `status` and `reply`.
class FakeCoordinator : public v1::CoordinatorService::Service {
 public:
  FakeCoordinator() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  grpc::Status Checkpoint(grpc::ServerContext*, const v1::CheckpointRequest*,
                          v1::CheckpointReply* to_send) override {
    *to_send = reply;
    return status;
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  grpc::Status status;
  v1::CheckpointReply reply;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class CheckpointCommandTest : public testing::Test {
 protected:
  absl::Status Verify(const std::string& path) {
    out_.str("");
    return VerifyCheckpointsCommand(path, out_);
  }

  const std::string dir_ = NewFolder();
  std::ostringstream out_;
  RealClock clock_;
};

TEST_F(CheckpointCommandTest, TheStepAndThePathOfANewCheckpointArePrinted) {
  FakeCoordinator coordinator;
  coordinator.reply.set_step(150);
  coordinator.reply.set_path("D\x1b/checkpoint-000003");
  const absl::Status status =
      WriteCheckpointCommand(coordinator.address(), NoSecurity(), &clock_, out_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out_.str(), "step 150: D\\x1b/checkpoint-000003 is complete\n");
}

TEST_F(CheckpointCommandTest, WhyThereIsNoCheckpointIsSaid) {
  FakeCoordinator coordinator;
  coordinator.status = {grpc::StatusCode::FAILED_PRECONDITION, "the job has no --checkpoint_dir\a"};
  EXPECT_EQ(WriteCheckpointCommand(coordinator.address(), NoSecurity(), &clock_, out_),
            absl::FailedPreconditionError("the job has no --checkpoint_dir\\x07"));
  EXPECT_TRUE(
      absl::IsUnavailable(WriteCheckpointCommand("127.0.0.1:1", NoSecurity(), &clock_, out_)));
  EXPECT_EQ(out_.str(), "");
}

TEST_F(CheckpointCommandTest, TheListHasALineForEachCheckpointTheNewestFirst) {
  for (const int64_t step : {50, 100, 150}) WriteExampleCheckpoint(dir_, step);
  FlipLastByte(dir_ + "/checkpoint-000002/manifest");
  ASSERT_TRUE(OpenCheckpointFolder(dir_, /*token=*/1).value()->Create().ok());
  const absl::Status status = ListCheckpointsCommand(dir_, out_);
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<std::string> lines = Lines(out_.str());
  ASSERT_EQ(lines.size(), 5u) << out_.str();
  EXPECT_EQ(lines[0], "checkpoint-000004  incomplete");
  EXPECT_THAT(lines[1], MatchesRegex("checkpoint-000003  step 150 of 400, job digits, "
                                     "[0-9]+\\.[0-9] kB in 3 shards"));
  EXPECT_THAT(lines[2], AllOf(StartsWith("checkpoint-000002  cannot be used: " + dir_ +
                                         "/checkpoint-000002/manifest: expected a manifest"),
                              HasSubstr("use another checkpoint")));
  EXPECT_THAT(lines[3], StartsWith("checkpoint-000001  step 50 of 400, "));
}

TEST_F(CheckpointCommandTest, AnEmptyAndAMissingFolderAreTold) {
  ASSERT_TRUE(ListCheckpointsCommand(dir_, out_).ok());
  EXPECT_EQ(out_.str(), dir_ + " has no checkpoints\n");
  EXPECT_TRUE(absl::IsNotFound(ListCheckpointsCommand(dir_ + "/none", out_)));
  EXPECT_TRUE(absl::IsNotFound(Verify(dir_)));
}

TEST_F(CheckpointCommandTest, OneCheckpointOrAllInAFolderAreVerified) {
  const std::string first = WriteExampleCheckpoint(dir_, 50);
  const std::string second = WriteExampleCheckpoint(dir_, 100);
  ASSERT_TRUE(Verify(first).ok());
  EXPECT_THAT(
      out_.str(),
      AllOf(StartsWith(first + ": step 50 of 400, job digits, "),
            HasSubstr("the manifest, the sums of all files and all 4 slices of 2 tables are "
                      "right\n"),
            Not(HasSubstr(second))));
  ASSERT_TRUE(Verify(dir_).ok());
  EXPECT_THAT(Lines(out_.str())[0], StartsWith(second));
  EXPECT_THAT(Lines(out_.str())[1], StartsWith(first));
}

TEST_F(CheckpointCommandTest, EachWrongCheckpointIsNamedWithItsFile) {
  for (const int64_t step : {50, 100, 150}) WriteExampleCheckpoint(dir_, step);
  const std::string shard = dir_ + "/checkpoint-000001/shard-00002.safetensors";
  FlipLastByte(shard);
  ASSERT_EQ(std::remove((dir_ + "/checkpoint-000003/shard-00000.safetensors").c_str()), 0);
  const absl::Status status = Verify(dir_);
  EXPECT_TRUE(absl::IsDataLoss(status));
  const std::vector<std::string> errors = Lines(std::string(status.message()));
  ASSERT_EQ(errors.size(), 2u) << status;
  EXPECT_THAT(errors[0], AllOf(StartsWith(dir_ + "/checkpoint-000003/shard-00000.safetensors: "),
                               HasSubstr("No such file")));
  EXPECT_THAT(errors[1], AllOf(StartsWith(shard + ": expected "), HasSubstr(", got ")));
  EXPECT_THAT(out_.str(), StartsWith(dir_ + "/checkpoint-000002: step 100"));
  EXPECT_EQ(Lines(out_.str()).size(), 2u) << out_.str();
}

}  // namespace
}  // namespace capstan
