#include "server/page/status_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/program.h"
#include "common/job/job_properties.h"
#include "common/routing/copies_text.h"
#include "common/routing/rounds_text.h"

namespace capstan {
namespace {

using ::nlohmann::ordered_json;

ordered_json Finite(double number) {
  return std::isfinite(number) ? ordered_json(number) : ordered_json(nullptr);
}

ordered_json ProgressJson(const v1::Progress& progress) {
  ordered_json json;
  json["steps_done"] = progress.steps_done();
  json["steps_total"] = progress.steps_total();
  json["loss"] = Finite(progress.loss());
  json["samples"] = progress.samples();
  json["bytes_pushed"] = progress.bytes_pushed();
  json["bytes_pulled"] = progress.bytes_pulled();
  json["float_bytes_pushed"] = progress.float_bytes_pushed();
  json["float_bytes_pulled"] = progress.float_bytes_pulled();
  json["steps_ahead"] = progress.steps_ahead();
  json["max_staleness_seen"] = progress.max_staleness_seen();
  json["mean_staleness_seen"] = Finite(progress.mean_staleness_seen());
  json["replies_of_staleness"] = progress.replies_of_staleness();
  json["seconds"] = Finite(progress.seconds());
  json["seconds_waiting"] = Finite(progress.seconds_waiting());
  json["seconds_sending"] = Finite(progress.seconds_sending());
  json["seconds_coding"] = Finite(progress.seconds_coding());
  json["queued_transfers"] = progress.queued_transfers();
  json["median_step_seconds"] = Finite(progress.median_step_seconds());
  json["gradient_squares"] = Finite(progress.gradient_squares());
  json["residual_squares"] = Finite(progress.residual_squares());
  return json;
}

ordered_json WorkersJson(const v1::GetStatusReply& status) {
  ordered_json workers = ordered_json::array();
  for (const v1::WorkerInfo& worker : status.view().workers()) {
    const bool has_reported = static_cast<int>(worker.worker()) < status.progress_size();
    ordered_json json = ProgressJson(has_reported ? status.progress(worker.worker())
                                                  : v1::Progress::default_instance());
    json["worker"] = worker.worker();
    json["is_live"] = worker.is_live();
    json["is_entering"] = worker.is_entering();
    json["holds_place"] = worker.holds_place();
    workers.push_back(std::move(json));
  }
  return workers;
}

ordered_json ServersJson(const v1::GetStatusReply& status) {
  ordered_json servers = ordered_json::array();
  for (const v1::ServerInfo& server : status.view().servers()) {
    const bool has_load = static_cast<int>(server.server()) < status.load_of_server_size();
    const v1::ServerLoad& load =
        has_load ? status.load_of_server(server.server()) : v1::ServerLoad::default_instance();
    const bool has_bytes = static_cast<int>(server.server()) < status.bytes_of_server_size();
    servers.push_back({{"server", server.server()},
                       {"address", server.address()},
                       {"is_live", server.is_live()},
                       {"bytes", has_bytes ? status.bytes_of_server(server.server()) : 0},
                       {"exchanges", load.exchanges()},
                       {"seconds", Finite(load.seconds())}});
  }
  return servers;
}

ordered_json ConsistencyJson(const v1::JobView& view) {
  ordered_json periods = ordered_json::array();
  for (const v1::ConsistencyPeriod& period : view.consistency()) {
    periods.push_back({{"first_step", period.first_step()},
                       {"mode", v1::ConsistencySpec::Mode_Name(period.consistency().mode())},
                       {"staleness", period.consistency().staleness()},
                       {"text", ConsistencyText(period.consistency())}});
  }
  return periods;
}

ordered_json CheckpointJson(const v1::CheckpointStatus& checkpoint) {
  return {{"dir", checkpoint.dir()},           {"newest", checkpoint.newest()},
          {"step", checkpoint.step()},         {"error", checkpoint.error()},
          {"restored", checkpoint.restored()}, {"restored_step", checkpoint.restored_step()}};
}

// `server_of_shard` is that of the copies. `one_copy` has the shards without a whole second copy.
ordered_json CopiesJson(const v1::GetStatusReply& status) {
  const v1::CopyReport& copies = status.copies();
  ordered_json servers = ordered_json::array();
  ordered_json one_copy = ordered_json::array();
  for (const v1::ShardCopy& copy : status.view().copies()) {
    if (!copy.is_whole()) one_copy.push_back(servers.size());
    servers.push_back(copy.server());
  }
  return {{"text", CopiesText(status)},
          {"server_of_shard", std::move(servers)},
          {"one_copy", std::move(one_copy)},
          {"whole", copies.whole_size()},
          {"given_up", copies.faults_size()},
          {"bytes_to_copy", copies.bytes_to_copy()},
          {"bytes_copied", copies.bytes_copied()},
          {"record_bytes", copies.record_bytes()},
          {"records_unanswered", copies.records_unanswered()},
          {"held_replies", copies.held_replies()},
          {"equal_at_version", copies.equal_at_version()}};
}

// `seconds_until_whole` is null while some shards have one copy.
ordered_json ServerLossesJson(const v1::GetStatusReply& status) {
  ordered_json losses = ordered_json::array();
  for (const v1::ServerLoss& loss : status.server_losses()) {
    const bool are_whole = loss.seconds_until_whole() > 0;
    losses.push_back({{"server", loss.server()},
                      {"what", loss.what()},
                      {"seconds_ago", Finite(loss.seconds_ago())},
                      {"shards_moved", loss.shards_moved()},
                      {"seconds_until_whole",
                       are_whole ? Finite(loss.seconds_until_whole()) : ordered_json(nullptr)}});
  }
  return losses;
}

ordered_json TuningJson(const v1::TuningReport& tuning) {
  const auto& latest =
      tuning.has_chosen() || tuning.tried().empty() ? tuning.chosen() : *tuning.tried().rbegin();
  return {{"tried", tuning.tried_size()},
          {"has_ended", tuning.has_chosen()},
          {"partition_bytes", latest.partition_bytes()},
          {"credit_bytes", latest.credit_bytes()},
          {"step_seconds", Finite(latest.step_seconds())},
          {"reason", tuning.reason()}};
}

void AddJob(const v1::GetStatusReply& status, ordered_json& json) {
  const v1::JobView& view = status.view();
  json["version"] = kVersion;
  json["job"] = status.job_name();
  json["phase"] = v1::Phase_Name(view.phase());
  json["reason"] = view.reason();
  json["epoch"] = view.epoch();
  json["num_servers"] = status.num_servers();
  json["num_workers"] = status.num_workers();
  json["measures_links"] = view.measures_links();
  json["num_tables"] = view.tables_size();
  json["server_of_shard"] = view.server_of_shard();
  json["term"] = status.term();
  json["coordinator_seconds"] = Finite(status.coordinator_seconds());
}

// The fields that only some jobs have.
void AddOptional(const v1::GetStatusReply& status, ordered_json& json) {
  if (status.view().has_local_steps()) json["rounds"] = RoundsText(status);
  if (status.has_codec()) json["codec"] = CodecText(status.codec());
  if (status.has_auto_codecs()) json["auto_codecs"] = status.auto_codecs().text();
  if (status.has_links()) json["links"] = status.links().text();
  if (status.has_copies()) {
    json["copies"] = CopiesJson(status);
    json["servers_replaced"] = status.servers_replaced();
    json["server_losses"] = ServerLossesJson(status);
  }
  if (status.has_tuning()) json["tuning"] = TuningJson(status.tuning());
  if (status.has_checkpoint()) json["checkpoint"] = CheckpointJson(status.checkpoint());
}

}  // namespace

std::string StatusJson(const v1::GetStatusReply& status, const std::vector<std::string>& log,
                       bool has_login, bool may_operate) {
  ordered_json json;
  AddJob(status, json);
  json["has_login"] = has_login;
  json["may_operate"] = may_operate;
  json["consistency"] = ConsistencyJson(status.view());
  json["is_changing"] = status.view().consistency_change() != 0;
  json["workers"] = WorkersJson(status);
  json["replaced_workers"] = ordered_json::array();
  for (const v1::Progress& progress : status.replaced_workers()) {
    json["replaced_workers"].push_back(ProgressJson(progress));
  }
  json["place_replacements"] = ordered_json::array();
  for (const v1::PlaceReplacement& replacement : status.place_replacements()) {
    json["place_replacements"].push_back(replacement.text());
  }
  json["servers"] = ServersJson(status);
  json["servers_lost"] = status.servers_lost();
  AddOptional(status, json);
  json["log"] = log;
  return json.dump(-1, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace);
}

}  // namespace capstan
