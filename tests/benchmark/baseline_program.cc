#include "tests/benchmark/baseline_program.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace capstan {

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
