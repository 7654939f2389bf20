#include "deploy/cli/report/progress_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

using ::nlohmann::ordered_json;

constexpr absl::Duration kInterval = absl::Milliseconds(20);
constexpr int kStatusesOfALongJob = 500;

ordered_json WorkerJson(const v1::WorkerInfo& worker, const v1::Progress& progress) {
  ordered_json json;
  json["worker"] = worker.worker();
  json["is_live"] = worker.is_live();
  json["steps_done"] = progress.steps_done();
  json["steps_total"] = progress.steps_total();
  json["loss"] = progress.loss();
  json["samples"] = progress.samples();
  json["bytes_pushed"] = progress.bytes_pushed();
  json["bytes_pulled"] = progress.bytes_pulled();
  json["steps_ahead"] = progress.steps_ahead();
  json["max_staleness_seen"] = progress.max_staleness_seen();
  json["mean_staleness_seen"] = progress.mean_staleness_seen();
  json["replies_of_staleness"] = std::vector<uint64_t>(progress.replies_of_staleness().begin(),
                                                       progress.replies_of_staleness().end());
  json["seconds"] = progress.seconds();
  json["seconds_waiting"] = progress.seconds_waiting();
  json["seconds_sending"] = progress.seconds_sending();
  return json;
}

}  // namespace

void ProgressLog::Append(absl::Duration elapsed, const v1::GetStatusReply& status) {
  const v1::JobView& view = status.view();
  if (elapsed < next_ && view.phase() == phase_) return;
  ordered_json workers = ordered_json::array();
  for (const v1::WorkerInfo& worker : view.workers()) {
    const int id = static_cast<int>(worker.worker());
    workers.push_back(WorkerJson(worker, id < status.progress_size()
                                             ? status.progress(id)
                                             : v1::Progress::default_instance()));
  }
  ordered_json line;
  line["phase"] = v1::Phase_Name(view.phase());
  line["workers"] = std::move(workers);
  const std::string text = line.dump();
  if (text == written_) return;
  file_ << "{\"seconds\":" << absl::StrCat(absl::ToDoubleSeconds(elapsed)) << "," << text.substr(1)
        << std::endl;
  written_ = text;
  phase_ = view.phase();
  next_ = elapsed + std::max(kInterval, elapsed / kStatusesOfALongJob);
}

absl::Status ProgressLog::Close() {
  file_.close();
  if (!file_.fail()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("expected to write the job's progress to ", path_,
                   ", but cannot; is the disk full? capstan report will lack what comes after it"));
}

}  // namespace capstan
