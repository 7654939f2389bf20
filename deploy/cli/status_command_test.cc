#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "common/base/real_clock.h"
#include "deploy/cli/commands.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(StatusCommandTest, MembersClocksAndPlacementAreListed) {
  v1::GetStatusReply status;
  status.set_job_name("digits");
  v1::JobView* view = status.mutable_view();
  view->set_phase(v1::TRAINING);
  view->set_epoch(1);
  view->add_tables();
  for (uint32_t shard = 0; shard < 3; ++shard) view->add_server_of_shard(shard % 2);
  for (uint32_t i = 0; i < 2; ++i) {
    v1::ServerInfo* server = view->add_servers();
    server->set_server(i);
    server->set_address("127.0.0.1:500" + std::to_string(i));
    server->set_is_live(i == 0);
    status.add_bytes_of_server(1500 * (i + 1));
  }
  v1::WorkerInfo* worker = view->add_workers();
  worker->set_is_live(true);
  status.add_progress()->set_steps_done(7);
  status.mutable_progress(0)->set_samples(70);
  status.set_num_servers(2);
  status.set_num_workers(1);
  EXPECT_EQ(FormatStatus({absl::ZeroDuration(), status}),
            "job digits: training, routing epoch 1, 1 tables, 3 shards\n"
            "servers 2:\n"
            "  server-0   127.0.0.1:5000         live      2 shards  1.5 kB\n"
            "  server-1   127.0.0.1:5001         lost      1 shards  3.0 kB\n"
            "workers 1:\n"
            "  worker-0  step     7         0 behind loss 0.0000       0 samples/s      0 B/s\n");
}

TEST(StatusCommandTest, EachWorkersDeviceIsNamed) {
  v1::GetStatusReply status;
  for (const char* const device : {"cpu (A)", "", "cuda:0 (C)", "cpu (A)"}) {
    status.add_progress()->set_device(device);
  }
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr("workers 0:\ndevices:\n  cpu (A): worker 0, 3\n  cuda:0 (C): worker 2\n"));
}

TEST(StatusCommandTest, RowsHaveNoBytesBeforehand) {
  v1::GetStatusReply status;
  v1::JobView* view = status.mutable_view();
  view->add_tables()->mutable_sparse()->set_dim(1);
  view->add_server_of_shard(0);
  view->add_servers()->set_address("127.0.0.1:5000");
  status.add_bytes_of_server(1500);
  const std::string text = FormatStatus({absl::ZeroDuration(), status});
  EXPECT_THAT(text, testing::HasSubstr("1 shards\n"));
}

TEST(StatusCommandTest, RoundsHaveALine) {
  v1::GetStatusReply status;
  status.mutable_view()->add_consistency();
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}), Not(HasSubstr("rounds")));
  status.mutable_view()->mutable_local_steps()->set_sync_every(50);
  status.add_progress()->set_local_steps(700);
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr(" on\nrounds: 50 local steps each; 700 so far\nservers"));
}

TEST(StatusCommandTest, CopiesAreToldApartFromShards) {
  v1::GetStatusReply status;
  v1::JobView* view = status.mutable_view();
  for (uint32_t i = 0; i < 2; ++i) {
    view->add_server_of_shard(i);
    v1::ShardCopy& copy = *view->add_copies();
    copy.set_server(1 - i);
    copy.set_is_whole(true);
    view->add_servers()->set_server(i);
    status.add_bytes_of_server(1500);
    status.mutable_copies()->add_whole();
  }
  status.mutable_copies()->set_equal_at_version(812);
  const std::string text = FormatStatus({absl::ZeroDuration(), status});
  EXPECT_THAT(text, HasSubstr("\ncopies: 2 of 2 whole, equal at version 812\nservers"));
  EXPECT_THAT(text, HasSubstr("  1 shards  1.5 kB  and 1 copies\n"));
  EXPECT_THAT(FormatTop({absl::ZeroDuration(), status}, {}), HasSubstr("\ncopies: 2 of 2"));
  view->mutable_copies(0)->set_is_whole(false);
  view->mutable_copies(1)->set_fault("its server was lost");
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              AllOf(HasSubstr("1.5 kB  and 1 copies, 1 of them being made\n"),
                    HasSubstr("1.5 kB  and 0 copies\n")));
}

TEST(StatusCommandTest, WaitingJobSaysForHowManyAndNothingOfShards) {
  v1::GetStatusReply status;
  status.set_job_name("digits");
  status.set_num_servers(1);
  status.set_num_workers(2);
  v1::JobView* view = status.mutable_view();
  view->set_phase(v1::REGISTERING);
  v1::ServerInfo* server = view->add_servers();
  server->set_address("127.0.0.1:5000");
  server->set_is_live(true);
  view->add_workers()->set_is_live(true);
  EXPECT_EQ(FormatStatus({absl::ZeroDuration(), status}),
            "job digits: waiting for members\n"
            "servers 1:\n"
            "  server-0   127.0.0.1:5000         live\n"
            "workers 1 of 2:\n"
            "  worker-0  step     0\n");
}

TEST(StatusCommandTest, TheConsistencyThatCountsAndAPendingChangeAreShown) {
  v1::GetStatusReply status;
  status.set_job_name("digits");
  v1::JobView* view = status.mutable_view();
  view->set_phase(v1::TRAINING);
  view->add_consistency();
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr("training\nconsistency: bsp, from step 0 on\n"));
  v1::ConsistencyPeriod* period = view->add_consistency();
  period->set_first_step(120);
  period->mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  period->mutable_consistency()->set_staleness(4);
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr("\nconsistency: ssp, staleness 4, from step 120 on\nservers"));
  view->set_consistency_change(2);
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr("from step 120 on; a change is being agreed on\n"));
}

TEST(StatusCommandTest, ACoordinatorThatHasTakenOverSaysTheHowManiethItIs) {
  v1::GetStatusReply status;
  status.mutable_view()->set_phase(v1::TRAINING);
  status.set_term(1);
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}), Not(HasSubstr("coordinator")));
  status.set_term(3);
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr("training\ncoordinator: the 3rd of this job (term 3)\nservers"));
}

TEST(StatusCommandTest, CheckpointsAndTheirFailuresAreShown) {
  v1::GetStatusReply status;
  status.mutable_view()->set_phase(v1::TRAINING);
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}), Not(HasSubstr("checkpoint")));
  v1::CheckpointStatus& checkpoint = *status.mutable_checkpoint();
  checkpoint.set_restored("d/checkpoint-000003");
  checkpoint.set_restored_step(150);
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr("training\nrestored: step 150, d/checkpoint-000003\nservers"));
  checkpoint.set_dir("d");
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr("\ncheckpoints: none yet in d\nservers"));
  checkpoint.set_newest("d/checkpoint-000004");
  checkpoint.set_step(200);
  status.mutable_view()->mutable_checkpoint()->set_step(250);
  checkpoint.set_error("server-0: the disk is full");
  EXPECT_THAT(
      FormatStatus({absl::ZeroDuration(), status}),
      HasSubstr("\ncheckpoints: step 200, d/checkpoint-000004; the next one is of step 250; "
                "the last attempt has failed: server-0: the disk is full\nservers"));
}

TEST(StatusCommandTest, WhatTheLinksAreLikeIsShown) {
  v1::GetStatusReply status;
  status.mutable_view()->set_phase(v1::TRAINING);
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}), Not(HasSubstr("links")));
  status.mutable_links()->set_text("1 Gbit/s: slice 64KiB");
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr("\nlinks: 1 Gbit/s: slice 64KiB\nservers"));
}

TEST(StatusCommandTest, WhatTuningHasFoundIsShown) {
  v1::GetStatusReply status;
  status.mutable_view()->set_phase(v1::TRAINING);
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}), Not(HasSubstr("tuning")));
  status.mutable_tuning();
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr("training\ntuning: nothing measured yet\nservers"));
}

TEST(StatusCommandTest, CodecsAndTheirWorkAreShown) {
  v1::GetStatusReply status;
  status.mutable_view()->set_phase(v1::TRAINING);
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}), Not(HasSubstr("codecs")));
  status.mutable_codec()->set_pull("int8");
  EXPECT_THAT(
      FormatStatus({absl::ZeroDuration(), status}),
      HasSubstr("training\ncodecs: push float32, pull int8, tables from 16KiB on\nservers"));
  status.mutable_auto_codecs()->set_text("int8 from step 12 on");
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr("on\n  auto: int8 from step 12 on\nservers"));
  status.clear_auto_codecs();
  v1::Progress& progress = *status.add_progress();
  progress.set_bytes_pushed(3000);
  progress.set_float_bytes_pushed(3000);
  progress.set_bytes_pulled(1000);
  progress.set_float_bytes_pulled(3940);
  progress.set_seconds_coding(2.5);
  EXPECT_THAT(
      FormatStatus({absl::ZeroDuration(), status}),
      HasSubstr("tables from 16KiB on\n  pushed 3.0 kB (no smaller), pulled 1.0 kB (3.9x smaller), "
                "codecs 2.5 s\nservers"));
}

TEST(StatusCommandTest, WhoWasReplacedInAHeldPlaceIsTold) {
  v1::GetStatusReply status;
  status.add_place_replacements()->set_text("worker 1 was lost at step 7\n");
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr("\nworker 1 was lost at step 7"));
}

TEST(StatusCommandTest, LostServersAreTold) {
  v1::GetStatusReply status;
  v1::ServerLoss& loss = *status.add_server_losses();
  loss.set_server(1);
  loss.set_what("has failed: no memory\n");
  loss.set_seconds_ago(12);
  loss.set_shards_moved(2);
  EXPECT_THAT(
      FormatStatus({absl::ZeroDuration(), status}),
      HasSubstr("\nserver 1 was lost 12 s ago (has failed: no memory\\x0a); 2 shards moved; "
                "some shards have one copy\n"));
  loss.set_seconds_until_whole(3.14);
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr("; all had two copies again after 3.1 s\n"));
}

TEST(StatusCommandTest, FailedJobSaysWhy) {
  v1::GetStatusReply status;
  status.set_job_name("digits");
  status.mutable_view()->set_phase(v1::FAILED);
  status.mutable_view()->set_reason("worker-0: no data");
  EXPECT_THAT(FormatStatus({absl::ZeroDuration(), status}),
              HasSubstr("job digits: failed (worker-0: no data)\n"));
}

TEST(StatusCommandTest, UnreachableCoordinatorIsNamed) {
  RealClock clock;
  std::ostringstream out;
  const absl::Status status = StatusCommand("127.0.0.1:1", NoSecurity(), &clock, out);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("127.0.0.1:1"),
                    HasSubstr("If a coordinator with --state was lost, start it again")));
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace capstan
