#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/base/real_clock.h"
#include "deploy/cli/commands.h"
#include "proto/coordinator_service.grpc.pb.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::GetStatusReply Training() {
  v1::GetStatusReply status;
  status.set_job_name("digits");
  status.set_num_workers(2);
  status.mutable_view()->set_phase(v1::TRAINING);
  for (uint32_t i = 0; i < 2; ++i) {
    v1::WorkerInfo* worker = status.mutable_view()->add_workers();
    worker->set_worker(i);
    worker->set_is_live(true);
    v1::Progress* progress = status.add_progress();
    progress->set_steps_done(10);
    progress->set_samples(100);
    progress->set_seconds(4);
    progress->set_seconds_waiting(1);
    progress->set_seconds_sending(1);
    progress->set_mean_staleness_seen(0.5);
    progress->set_max_staleness_seen(2);
  }
  return status;
}

// A coordinator whose job ends after some calls.
class Job : public v1::CoordinatorService::Service {
 public:
  explicit Job(int calls, int port = 0) : calls_left_(calls), port_(port) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address(), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusReply* reply) override {
    *reply = Training();
    reply->set_coordinator_seconds(coordinator_seconds);
    if (--calls_left_ <= 0) reply->mutable_view()->set_phase(v1::DONE);
    return grpc::Status::OK;
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  int port() const { return port_; }

  std::atomic<double> coordinator_seconds = 0;

 private:
  std::atomic<int> calls_left_;
  int port_;
  std::unique_ptr<grpc::Server> server_;
};

class TopCommandTest : public testing::Test {
 protected:
  TopOptions Options(const std::string& address, std::optional<TerminalSize> size) {
    TopOptions options;
    options.address = address;
    options.take_interrupt = [] { return false; };
    options.take_key = [] { return '\0'; };
    options.terminal = [size] { return size; };
    options.out = &out_;
    options.clock = &clock_;
    return options;
  }

  RealClock clock_;
  std::ostringstream out_;
};

TEST_F(TopCommandTest, WithoutATerminalItPrintsOnce) {
  Job job(/*calls=*/5);
  ASSERT_TRUE(TopCommand(Options(job.address(), std::nullopt)).ok());
  EXPECT_THAT(out_.str(),
              AllOf(HasSubstr("job digits: training"), Not(HasSubstr("\x1b")),
                    HasSubstr("worker-1  computing  50 %, waiting  25 %, sending  25 %, coding   0 "
                              "%; staleness 0.50, at most 2\n")));
}

TEST_F(TopCommandTest, OnATerminalItEndsWithTheJobAndLeavesItsLastState) {
  Job job(/*calls=*/2);
  ASSERT_TRUE(TopCommand(Options(job.address(), TerminalSize{24, 80})).ok());
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("job digits: training"), HasSubstr("\x1b[?1049h"),
                                HasSubstr("\x1b[?1049ljob digits: done")));
}

TEST_F(TopCommandTest, WaitsForACoordinatorThatKeepsItsState) {
  auto job = std::make_unique<Job>(/*calls=*/1000);
  job->coordinator_seconds = 600;
  const int port = job->port();
  TopOptions options = Options(job->address(), TerminalSize{24, 80});
  options.take_key = [&] {
    const bool is_away = out_.str().find("has not answered for ") != std::string::npos;
    if (!is_away) job = nullptr;
    if (is_away && job == nullptr) job = std::make_unique<Job>(/*calls=*/1, port);
    return '\0';
  };
  ASSERT_TRUE(TopCommand(options).ok());
  EXPECT_THAT(out_.str(),
              AllOf(HasSubstr("for a coordinator, for 600 s in all"),
                    HasSubstr("\x1b[?1049ljob digits: done"), Not(HasSubstr("any more"))));
}

TEST_F(TopCommandTest, DoesNotWaitForACoordinatorThatKeepsNothing) {
  auto job = std::make_unique<Job>(/*calls=*/1000);
  TopOptions options = Options(job->address(), TerminalSize{24, 80});
  options.take_key = [&] {
    job = nullptr;
    return '\0';
  };
  ASSERT_TRUE(TopCommand(options).ok());
  EXPECT_THAT(out_.str(), AllOf(Not(HasSubstr("has not answered")),
                                HasSubstr("The coordinator does not answer any more")));
}

TEST_F(TopCommandTest, EndsWithTheKeyQAndWithAnInterrupt) {
  Job job(/*calls=*/1000);
  TopOptions options = Options(job.address(), TerminalSize{24, 80});
  options.take_key = [] { return 'q'; };
  EXPECT_TRUE(TopCommand(options).ok());
  EXPECT_THAT(out_.str(), HasSubstr("\x1b[?1049ljob digits: training"));
  options = Options(job.address(), TerminalSize{24, 80});
  options.take_interrupt = [] { return true; };
  EXPECT_TRUE(TopCommand(options).ok());
}

TEST_F(TopCommandTest, LinesStayWithinTheTerminal) {
  Job job(/*calls=*/1);
  ASSERT_TRUE(TopCommand(Options(job.address(), TerminalSize{4, 30})).ok());
  const std::string drawn = out_.str().substr(0, out_.str().find("\x1b[?1049l"));
  EXPECT_THAT(drawn, HasSubstr("more lines\x1b[K\n\x1b[J"));
  EXPECT_THAT(drawn, Not(HasSubstr("samples/s")));
}

TEST_F(TopCommandTest, ACoordinatorThatIsNotThereIsAnError) {
  const absl::Status status = TopCommand(Options("127.0.0.1:1", TerminalSize{24, 80}));
  EXPECT_THAT(std::string(status.message()), HasSubstr("check that the job runs"));
  EXPECT_EQ(out_.str(), "");
}

TEST(FormatTopTest, SaysWhatWasLost) {
  v1::GetStatusReply status = Training();
  status.mutable_view()->mutable_workers(1)->set_is_live(false);
  status.add_replaced_workers();
  EXPECT_THAT(FormatTop({absl::ZeroDuration(), status}, {}),
              HasSubstr("lost: workers 2 (replaced 1), servers 0 (replaced 0)\n"));
  status.set_servers_lost(3);
  status.set_servers_replaced(2);
  EXPECT_THAT(FormatTop({absl::ZeroDuration(), status}, {}), HasSubstr("servers 3 (replaced 2)\n"));
}

}  // namespace
}  // namespace capstan
