#include "server/coordinator/coordinator_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string TextOf(const v1::GetStatusReply& status, int workers_lost = 0) {
  MetricsPage page;
  AddJobMetrics(status, workers_lost, page);
  return page.Text();
}

TEST(CoordinatorMetricsTest, OnePhaseIsThePresentOne) {
  v1::GetStatusReply status;
  status.mutable_view()->set_phase(v1::TRAINING);
  for (const char* const phase :
       {"registering", "placing", "evaluating", "saving", "done", "failed"}) {
    EXPECT_THAT(TextOf(status), HasSubstr(std::string("{phase=\"") + phase + "\"} 0\n"));
  }
  EXPECT_THAT(TextOf(status), HasSubstr("{phase=\"training\"} 1\n"));
}

TEST(CoordinatorMetricsTest, MembersAreLiveDeadAndExpected) {
  v1::GetStatusReply status;
  status.set_num_servers(1);
  status.set_num_workers(3);
  status.mutable_view()->add_servers()->set_is_live(true);
  status.mutable_view()->add_workers()->set_is_live(true);
  status.mutable_view()->add_workers()->set_is_live(false);
  status.add_replaced_workers();
  status.set_servers_lost(3);
  status.set_servers_replaced(2);
  const std::string text = TextOf(status, /*workers_lost=*/2);
  for (const char* const sample : {
           "members{role=\"server\",state=\"live\"} 1",
           "members{role=\"server\",state=\"dead\"} 0",
           "members{role=\"worker\",state=\"live\"} 1",
           "members{role=\"worker\",state=\"dead\"} 1",
           "expected_members{role=\"worker\"} 3",
           "workers_lost_total 2",
           "workers_replaced_total 1",
           "servers_lost_total 3",
           "servers_replaced_total 2",
       }) {
    EXPECT_THAT(text, HasSubstr(std::string("\ncapstan_") + sample + "\n"));
  }
}

TEST(CoordinatorMetricsTest, CopiesAreCounted) {
  v1::GetStatusReply status;
  EXPECT_THAT(TextOf(status), HasSubstr("\ncapstan_copies_whole 0\n"));
  v1::CopyReport& copies = *status.mutable_copies();
  copies.add_whole();
  copies.add_whole();
  copies.set_records_unanswered(3);
  copies.set_held_replies(4);
  copies.set_record_bytes(500);
  const std::string text = TextOf(status);
  EXPECT_THAT(text, HasSubstr("\ncapstan_copies_whole 2\n"));
  EXPECT_THAT(text, HasSubstr("\ncapstan_records_unanswered 3\n"));
  EXPECT_THAT(text, HasSubstr("\ncapstan_held_replies 4\n"));
  EXPECT_THAT(text, HasSubstr("\ncapstan_record_bytes_total 500\n"));
}

TEST(CoordinatorMetricsTest, HeldPlacesAreCountedUntilAnotherWorkerIsThere) {
  v1::GetStatusReply status;
  v1::WorkerInfo& worker = *status.mutable_view()->add_workers();
  worker.set_holds_place(true);
  EXPECT_THAT(TextOf(status), HasSubstr("\ncapstan_places_held 1\n"));
  EXPECT_THAT(TextOf(status), HasSubstr("\ncapstan_place_held_seconds 0\n"));
  worker.set_is_live(true);  // and entering
  status.add_place_replacements()->set_seconds(3);
  status.add_place_replacements()->set_seconds(0.5);
  EXPECT_THAT(TextOf(status), HasSubstr("\ncapstan_places_held 0\n"));
  EXPECT_THAT(TextOf(status), HasSubstr("\ncapstan_place_held_seconds 0.5\n"));
}

TEST(CoordinatorMetricsTest, TheBoundIsThatOfTheLatestPeriod) {
  v1::GetStatusReply status;
  auto& periods = *status.mutable_view()->mutable_consistency();
  periods.Add()->mutable_consistency()->set_mode(v1::ConsistencySpec::BSP);
  EXPECT_THAT(TextOf(status), HasSubstr("\ncapstan_staleness_bound_steps 0\n"));
  v1::ConsistencySpec& ssp = *periods.Add()->mutable_consistency();
  ssp.set_mode(v1::ConsistencySpec::SSP);
  ssp.set_staleness(3);
  EXPECT_THAT(TextOf(status), HasSubstr("\ncapstan_staleness_bound_steps 3\n"));
  periods.Add()->mutable_consistency()->set_mode(v1::ConsistencySpec::ASYNC);
  EXPECT_THAT(TextOf(status), HasSubstr("\ncapstan_staleness_bound_steps +Inf\n"));
}

TEST(CoordinatorMetricsTest, EachWorkerHasItsProgress) {
  v1::GetStatusReply status;
  for (uint32_t i = 0; i < 2; ++i) {
    v1::WorkerInfo& worker = *status.mutable_view()->add_workers();
    worker.set_worker(i);
    worker.set_is_live(true);
  }
  status.add_progress()->set_steps_done(7);
  v1::Progress& second = *status.add_progress();
  second.set_samples(8);
  second.set_loss(std::nan(""));
  second.set_steps_ahead(9);
  const std::string text = TextOf(status);
  EXPECT_THAT(text, HasSubstr("\ncapstan_worker_steps_total{worker=\"0\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("\ncapstan_worker_samples_total{worker=\"1\"} 8\n"));
  EXPECT_THAT(text, HasSubstr("\ncapstan_worker_loss{worker=\"1\"} Nan\n"));
  EXPECT_THAT(text, HasSubstr("\ncapstan_worker_steps_ahead{worker=\"1\"} 9\n"));
}

TEST(CoordinatorMetricsTest, StepsOfAReplacedWorkerNeverFall) {
  v1::GetStatusReply status;
  v1::WorkerInfo& worker = *status.mutable_view()->add_workers();
  v1::Progress& progress = *status.add_progress();
  progress.set_steps_done(1000);
  progress.set_loss(std::nan(""));
  const std::string dead = TextOf(status);
  EXPECT_THAT(dead, HasSubstr("\ncapstan_worker_steps_total{worker=\"0\"} 1000\n"));
  EXPECT_THAT(dead, Not(HasSubstr("capstan_worker_loss")));
  EXPECT_THAT(dead, Not(HasSubstr("capstan_worker_steps_ahead")));
  progress.Clear();
  worker.set_is_live(true);
  worker.set_is_entering(true);
  EXPECT_THAT(TextOf(status), Not(HasSubstr("capstan_worker_steps_total")));
  worker.set_is_entering(false);
  worker.set_first_step(1010);
  EXPECT_THAT(TextOf(status), Not(HasSubstr("capstan_worker_steps_total")));
  progress.set_steps_done(1010);
  EXPECT_THAT(TextOf(status), HasSubstr("\ncapstan_worker_steps_total{worker=\"0\"} 1010\n"));
}

TEST(CoordinatorMetricsTest, AFailedCheckpointShows) {
  v1::GetStatusReply status;
  status.mutable_checkpoint()->set_step(40);
  EXPECT_THAT(TextOf(status), HasSubstr("\ncapstan_checkpoint_step 40\n"));
  EXPECT_THAT(TextOf(status), HasSubstr("\ncapstan_checkpoint_failed 0\n"));
  status.mutable_checkpoint()->set_error("the disk is full");
  EXPECT_THAT(TextOf(status), HasSubstr("\ncapstan_checkpoint_failed 1\n"));
  EXPECT_THAT(TextOf(status), Not(HasSubstr("disk")));
}

}  // namespace
}  // namespace capstan
