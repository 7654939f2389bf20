#include "tests/benchmark/step/step_times.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace capstan {

std::string FormatStepTimes(const StepTimes& times) { return absl::StrJoin(times, " "); }

absl::StatusOr<StepTimes> ParseStepTimes(const std::string& line) {
  StepTimes times;
  for (const absl::string_view word : absl::StrSplit(line, ' ')) {
    double time = 0;
    if (!absl::SimpleAtod(word, &time)) {
      return absl::InternalError(absl::StrCat("expected times of steps, got: ", line));
    }
    times.push_back(time);
  }
  return times;
}

absl::StatusOr<double> MedianStepMilliseconds(const std::vector<StepTimes>& processes) {
  if (processes.empty() || processes[0].empty()) return absl::InternalError("no step was timed");
  StepTimes slowest = processes[0];
  for (const StepTimes& times : processes) {
    if (times.size() != slowest.size()) {
      return absl::InternalError(
          absl::StrCat("processes timed ", slowest.size(), " and ", times.size(), " steps"));
    }
    for (size_t i = 0; i < times.size(); ++i) slowest[i] = std::max(slowest[i], times[i]);
  }
  std::sort(slowest.begin(), slowest.end());
  return 1e3 * slowest[slowest.size() / 2];
}

absl::StatusOr<double> StepMillisecondsOf(const std::string& command) {
  FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return absl::InternalError(absl::StrCat("no process for ", command));
  std::string last_line;
  char line[4096];
  while (std::fgets(line, sizeof(line), output) != nullptr) last_line = line;
  if (const int status = pclose(output); status != 0) {
    return absl::InternalError(
        absl::StrCat("ended with status ", status, "; see its log above: ", command));
  }
  const auto json = nlohmann::json::parse(last_line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step_ms") || !json["step_ms"].is_number()) {
    return absl::InternalError(
        absl::StrCat("expected a last line with step_ms, got \"", last_line, "\": ", command));
  }
  return json["step_ms"].get<double>();
}

}  // namespace capstan
