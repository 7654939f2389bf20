#include "server/page/status_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace capstan {
namespace {

using ::nlohmann::json;

v1::GetStatusReply Training() {
  v1::GetStatusReply status;
  status.set_job_name("digits");
  status.set_num_servers(1);
  status.set_num_workers(2);
  v1::JobView& view = *status.mutable_view();
  view.set_phase(v1::TRAINING);
  for (int i = 0; i < 3; ++i) view.add_server_of_shard(0);
  view.add_servers()->set_address("<b>:5000");
  view.mutable_servers(0)->set_is_live(true);
  status.add_bytes_of_server(1500);
  v1::ServerLoad& load = *status.add_load_of_server();
  load.set_exchanges(90);
  load.set_seconds(1.5);
  for (uint32_t i = 0; i < 2; ++i) view.add_workers()->set_worker(i);
  view.mutable_workers(0)->set_is_live(true);
  view.mutable_workers(1)->set_holds_place(true);
  v1::Progress& progress = *status.add_progress();
  progress.set_steps_done(7);
  progress.set_queued_transfers(3);
  progress.set_loss(0.25);
  v1::ConsistencyPeriod& period = *view.add_consistency();
  period.mutable_consistency()->set_mode(v1::ConsistencySpec::SSP);
  period.mutable_consistency()->set_staleness(2);
  return status;
}

TEST(StatusJsonTest, HasTheNumbersOfTheStatus) {
  const json status = json::parse(StatusJson(Training(), {"I a line"}, true, false));
  EXPECT_EQ(status["job"], "digits");
  EXPECT_EQ(status["phase"], "TRAINING");
  EXPECT_EQ(status["workers"].size(), 2);
  EXPECT_EQ(status["workers"][0]["steps_done"], 7);
  EXPECT_EQ(status["workers"][0]["loss"], 0.25);
  EXPECT_EQ(status["workers"][0]["queued_transfers"], 3);
  EXPECT_EQ(status["workers"][1]["is_live"], false);
  EXPECT_EQ(status["workers"][0]["holds_place"], false);
  EXPECT_EQ(status["workers"][1]["holds_place"], true);
  EXPECT_EQ(status["workers"][1]["steps_done"], 0);
  EXPECT_EQ(status["servers"][0]["bytes"], 1500);
  EXPECT_EQ(status["servers"][0]["exchanges"], 90);
  EXPECT_EQ(status["servers"][0]["seconds"], 1.5);
  EXPECT_EQ(status["servers"][0]["address"], "<b>:5000");
  EXPECT_EQ(status["server_of_shard"].size(), 3);
  EXPECT_EQ(status["consistency"][0]["text"], "ssp, staleness 2");
  EXPECT_EQ(status["log"][0], "I a line");
  EXPECT_EQ(status["has_login"], true);
  EXPECT_EQ(status["may_operate"], false);
  EXPECT_FALSE(status.contains("codec"));
  EXPECT_FALSE(status.contains("rounds"));
  EXPECT_FALSE(status.contains("checkpoint"));
  EXPECT_FALSE(status.contains("copies"));
  EXPECT_EQ(status["servers_lost"], 0);
  EXPECT_EQ(status["term"], 0);
  EXPECT_FALSE(status.contains("servers_replaced"));
  EXPECT_FALSE(status.contains("server_losses"));
}

TEST(StatusJsonTest, NumbersThatAreNotFiniteAndBytesThatAreNoTextStayJson) {
  v1::GetStatusReply status = Training();
  status.mutable_progress(0)->set_loss(NAN);
  status.mutable_progress(0)->set_seconds(INFINITY);
  const json parsed = json::parse(StatusJson(status, {"\xff"}, false, true));
  EXPECT_TRUE(parsed["workers"][0]["loss"].is_null());
  EXPECT_TRUE(parsed["workers"][0]["seconds"].is_null());
}

TEST(StatusJsonTest, PartsThatOnlySomeJobsHave) {
  v1::GetStatusReply status = Training();
  status.mutable_codec();
  status.mutable_view()->mutable_local_steps()->set_sync_every(50);
  status.mutable_auto_codecs()->set_text("none pays");
  status.mutable_links()->set_text("1 Gbit/s");
  status.mutable_checkpoint()->set_dir("kept");
  status.mutable_copies()->add_whole();
  status.mutable_copies()->set_record_bytes(700);
  for (int i = 0; i < 3; ++i) status.mutable_view()->add_copies()->set_server(i);
  status.mutable_view()->mutable_copies(0)->set_is_whole(true);
  v1::TuningReport::Point& tried = *status.mutable_tuning()->add_tried();
  tried.set_partition_bytes(4096);
  status.add_replaced_workers()->set_steps_done(3);
  status.add_place_replacements()->set_text("worker 1 was lost");
  const json parsed = json::parse(StatusJson(status, {}, false, true));
  EXPECT_TRUE(parsed["codec"].is_string());
  EXPECT_EQ(parsed["rounds"], "50 local steps each; 0 so far");
  EXPECT_EQ(parsed["auto_codecs"], "none pays");
  EXPECT_EQ(parsed["links"], "1 Gbit/s");
  EXPECT_EQ(parsed["checkpoint"]["dir"], "kept");
  EXPECT_EQ(parsed["copies"]["text"], "1 of 3 whole");
  EXPECT_EQ(parsed["copies"]["server_of_shard"], nlohmann::json({0, 1, 2}));
  EXPECT_EQ(parsed["copies"]["one_copy"], nlohmann::json({1, 2}));
  EXPECT_EQ(parsed["copies"]["whole"], 1);
  EXPECT_EQ(parsed["copies"]["record_bytes"], 700);
  EXPECT_EQ(parsed["tuning"]["partition_bytes"], 4096);
  EXPECT_EQ(parsed["tuning"]["has_ended"], false);
  EXPECT_EQ(parsed["replaced_workers"][0]["steps_done"], 3);
  EXPECT_EQ(parsed["place_replacements"], nlohmann::json({"worker 1 was lost"}));
}

TEST(StatusJsonTest, LostServersOfAJobWithCopies) {
  v1::GetStatusReply status = Training();
  status.mutable_copies();
  status.set_servers_lost(3);
  status.set_servers_replaced(2);
  v1::ServerLoss loss;
  loss.set_server(1);
  loss.set_what("has ended");
  loss.set_seconds_ago(12.5);
  loss.set_shards_moved(32);
  loss.set_seconds_until_whole(3.5);
  *status.add_server_losses() = loss;
  loss.set_seconds_until_whole(0);
  *status.add_server_losses() = loss;
  const json parsed = json::parse(StatusJson(status, {}, false, true));
  EXPECT_EQ(parsed["servers_lost"], 3);
  EXPECT_EQ(parsed["servers_replaced"], 2);
  ASSERT_EQ(parsed["server_losses"].size(), 2);
  EXPECT_EQ(parsed["server_losses"][0], json({{"server", 1},
                                              {"what", "has ended"},
                                              {"seconds_ago", 12.5},
                                              {"shards_moved", 32},
                                              {"seconds_until_whole", 3.5}}));
  EXPECT_TRUE(parsed["server_losses"][1]["seconds_until_whole"].is_null());
}

}  // namespace
}  // namespace capstan
