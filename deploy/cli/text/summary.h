#ifndef DEPLOY_CLI_TEXT_SUMMARY_H_
#define DEPLOY_CLI_TEXT_SUMMARY_H_

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Names and values.
using SummaryRows = std::vector<std::pair<std::string, std::string>>;

// The coordinator's summary of a job as lines for people. Fields that the summary lacks have no
// line. DATA_LOSS when `json` is no JSON object.
absl::StatusOr<std::string> FormatSummary(absl::string_view json);

// The consistency in a summary, and its changes during the job: "bsp; from step 120 on: ssp,
// staleness 4 (fc1.weight 2)". Empty when the summary has no periods of the coordinator's form.
std::string SummaryConsistencyText(const nlohmann::json& summary);

// The lines of bytes and codecs in a summary. None for a job without codecs.
SummaryRows SummaryCodecRows(const nlohmann::json& summary);

// The links in a summary, and what was chosen for them. Empty when they were not measured.
std::string SummaryLinkText(const nlohmann::json& summary);

// The result of tuning: "partition 2MiB, credit 4MiB, 212.0 ms a step: 8.0 % faster than ...".
// Without a result, the number of measurements and the last one.
std::string TuningText(const v1::TuningReport& tuning);

// The same from a summary. Empty when the job was not tuned.
std::string SummaryTuningText(const nlohmann::json& summary);

}  // namespace capstan

#endif  // DEPLOY_CLI_TEXT_SUMMARY_H_
