#include "deploy/cli/report/progress_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/json_fields.h"

namespace capstan {
namespace {

using ::nlohmann::json;
using ::nlohmann::ordered_json;

constexpr absl::Duration kInterval = absl::Milliseconds(20);
constexpr int kStatusesOfALongJob = 500;

void WriteProgress(const v1::Progress& progress, bool has_codec, ordered_json& json) {
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
  if (!has_codec) return;
  json["float_bytes_pushed"] = progress.float_bytes_pushed();
  json["float_bytes_pulled"] = progress.float_bytes_pulled();
  json["gradient_squares"] = progress.gradient_squares();
  json["residual_squares"] = progress.residual_squares();
  json["seconds_coding"] = progress.seconds_coding();
}

WorkerSample ParseWorker(const json& object) {
  WorkerSample worker;
  worker.worker = static_cast<int64_t>(CountIn(object, "worker"));
  worker.steps_done = NumberIn(object, "steps_done");
  worker.loss = NumberIn(object, "loss");
  worker.bytes_pushed = NumberIn(object, "bytes_pushed");
  worker.bytes_pulled = NumberIn(object, "bytes_pulled");
  worker.float_bytes_pushed = NumberIn(object, "float_bytes_pushed");
  worker.float_bytes_pulled = NumberIn(object, "float_bytes_pulled");
  worker.gradient_squares = NumberIn(object, "gradient_squares");
  worker.residual_squares = NumberIn(object, "residual_squares");
  worker.seconds_coding = NumberIn(object, "seconds_coding");
  worker.seconds = NumberIn(object, "seconds");
  worker.seconds_waiting = NumberIn(object, "seconds_waiting");
  worker.seconds_sending = NumberIn(object, "seconds_sending");
  worker.mean_staleness_seen = NumberIn(object, "mean_staleness_seen");
  const auto counts = object.find("replies_of_staleness");
  if (counts == object.end() || !counts->is_array()) return worker;
  for (const json& count : *counts) {
    worker.replies_of_staleness.push_back(count.is_number() ? count.get<double>() : 0);
  }
  return worker;
}

}  // namespace

void ProgressLog::Append(absl::Duration elapsed, const v1::GetStatusReply& status) {
  const v1::JobView& view = status.view();
  if (elapsed < next_ && view.phase() == phase_) return;
  ordered_json workers = ordered_json::array();
  for (const v1::WorkerInfo& worker : view.workers()) {
    const int id = static_cast<int>(worker.worker());
    const v1::Progress& progress =
        id < status.progress_size() ? status.progress(id) : v1::Progress::default_instance();
    ordered_json& json = workers.emplace_back();
    json["worker"] = worker.worker();
    json["is_live"] = worker.is_live();
    WriteProgress(progress, status.has_codec(), json);
  }
  ordered_json line;
  line["phase"] = v1::Phase_Name(view.phase());
  line["workers"] = std::move(workers);
  for (const v1::Progress& progress : status.replaced_workers()) {
    WriteProgress(progress, status.has_codec(), line["replaced_workers"].emplace_back());
  }
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

absl::StatusOr<std::vector<RunSample>> ParseRunCourse(absl::string_view text) {
  std::vector<RunSample> samples;
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    // After the last newline, there is nothing or a part of a line.
    if (i + 1 == lines.size()) break;
    const json status = ParseJson(lines[i]);
    const auto workers = status.is_object() ? status.find("workers") : status.end();
    if (!status.is_object() || workers == status.end() || !workers->is_array()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", i + 1, ": expected a status of a job as a JSON object, got \"",
                       lines[i].substr(0, 60), "\""));
    }
    RunSample& sample = samples.emplace_back();
    sample.seconds = NumberIn(status, "seconds");
    for (const json& worker : *workers) sample.workers.push_back(ParseWorker(worker));
    const auto replaced = status.find("replaced_workers");
    if (replaced == status.end() || !replaced->is_array()) continue;
    for (const json& worker : *replaced) sample.replaced_workers.push_back(ParseWorker(worker));
  }
  return samples;
}

}  // namespace capstan
