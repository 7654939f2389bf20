#include "deploy/cli/report/run_course.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/json_fields.h"

namespace capstan {
namespace {

using ::nlohmann::json;

WorkerSample ParseWorker(const json& object) {
  WorkerSample worker;
  worker.worker = static_cast<int64_t>(CountIn(object, "worker"));
  worker.steps_done = NumberIn(object, "steps_done");
  worker.loss = NumberIn(object, "loss");
  worker.bytes_pushed = NumberIn(object, "bytes_pushed");
  worker.bytes_pulled = NumberIn(object, "bytes_pulled");
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

absl::StatusOr<std::vector<RunSample>> ParseRunCourse(absl::string_view text) {
  std::vector<RunSample> samples;
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    // Behind the last newline there is nothing, or a line that is broken off.
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
  }
  return samples;
}

}  // namespace capstan
