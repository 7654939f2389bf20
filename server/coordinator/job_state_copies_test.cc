#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "common/base/fake_clock.h"
#include "server/coordinator/job_outcome.h"
#include "server/coordinator/job_state.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

// A job with two replicas, two servers and a worker, in phase PLACING. Each incarnation is the id.
class JobStateCopiesTest : public ::testing::Test {
 protected:
  JobStateCopiesTest() : state_(Job(), clock_) {
    v1::RegisterServerRequest server;
    server.set_address("host:1");
    for (uint64_t id = 0; id < 2; ++id) {
      server.set_incarnation(id);
      EXPECT_TRUE(state_.RegisterServer(server).ok());
    }
    v1::RegisterWorkerRequest worker;
    worker.add_tables()->set_name("w");
    worker.mutable_tables(0)->add_shape(4);
    EXPECT_TRUE(state_.RegisterWorker(worker).ok());
  }
  static v1::JobSpec Job() {
    v1::JobSpec job;
    job.mutable_cluster()->set_num_servers(2);
    job.mutable_cluster()->set_num_workers(1);
    job.mutable_cluster()->set_shard_count(4);
    job.mutable_cluster()->set_replicas(2);
    return job;
  }
  static v1::HeartbeatRequest BeatOf(uint32_t server) {
    v1::HeartbeatRequest request;
    request.set_role(v1::HeartbeatRequest::SERVER);
    request.set_id(server);
    request.set_incarnation(server);
    return request;
  }
  // The copies of the server's shards are whole.
  void Report(uint32_t server) {
    v1::HeartbeatRequest request = BeatOf(server);
    for (uint32_t shard = 0; shard < 4; ++shard) {
      v1::WholeCopy& whole = *request.mutable_copies()->add_whole();
      whole.set_shard(shard);
      whole.set_number(1);
    }
    request.mutable_copies()->set_record_bytes(10);
    ASSERT_TRUE(state_.Heartbeat(request).ok());
  }

  FakeClock clock_;
  JobState state_;
};

TEST_F(JobStateCopiesTest, TheViewOfThePlacementHasThem) {
  const v1::JobView& view = state_.view();
  ASSERT_EQ(view.phase(), v1::PLACING);
  ASSERT_EQ(view.copies_size(), 4);
  for (int shard = 0; shard < 4; ++shard) {
    EXPECT_EQ(view.copies(shard).server(), 1 - view.server_of_shard(shard));
  }
}

TEST_F(JobStateCopiesTest, BytesOfServersAreThoseOfTheirShardsAlone) {
  EXPECT_THAT(state_.Status().bytes_of_server(), ElementsAre(16, 0));
}

TEST_F(JobStateCopiesTest, AHeartbeatWithNewsMakesOneView) {
  const uint64_t version = state_.view().version();
  Report(0);
  EXPECT_EQ(state_.view().version(), version + 1);
  Report(0);
  EXPECT_EQ(state_.view().version(), version + 1);
  Report(1);
  EXPECT_EQ(state_.view().version(), version + 2);
  const v1::CopyReport copies = state_.Status().copies();
  EXPECT_EQ(copies.whole_size(), 4);
  EXPECT_EQ(copies.record_bytes(), 20u);
  EXPECT_EQ(state_.TakeEvents().back().text, "all 4 shards have two equal copies");
}

TEST_F(JobStateCopiesTest, TheSummaryHasTheBytesBetweenServersAndWarnsOfACopyThatDiffered) {
  Report(0);
  Report(1);
  const nlohmann::json equal = nlohmann::json::parse(SummaryJson(Job(), state_.Outcome()));
  EXPECT_EQ(equal["bytes_between_servers"], 20);
  EXPECT_FALSE(equal.contains("warning"));
  v1::HeartbeatRequest request = BeatOf(state_.view().server_of_shard(2));
  v1::CopyFault& fault = *request.mutable_copies()->add_faults();
  fault.set_shard(2);
  fault.set_number(1);
  ASSERT_TRUE(state_.Heartbeat(request).ok());
  EXPECT_EQ(nlohmann::json::parse(SummaryJson(Job(), state_.Outcome()))["warning"],
            "the copy of shard 2 was given up; the job went on with one copy of it");
}

TEST(JobStateWithoutCopiesTest, TheSummaryHasNoBytesBetweenServers) {
  FakeClock clock;
  const JobState state(v1::JobSpec(), clock);
  EXPECT_FALSE(nlohmann::json::parse(SummaryJson(v1::JobSpec(), state.Outcome()))
                   .contains("bytes_between_servers"));
}

}  // namespace
}  // namespace capstan
