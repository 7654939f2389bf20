#ifndef DEPLOY_CLI_TUNING_TEXT_H_
#define DEPLOY_CLI_TUNING_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "proto/coordinator_service.pb.h"

namespace capstan {

// For people, what tuning has found: "partition 2MiB, credit 4MiB, 212.0 ms a step: 8.0 % faster
// than ...", or while it goes on, or when the job was over before, how far it has come.
std::string TuningText(const v1::TuningReport& tuning);

// The same from a coordinator's summary. Empty when the job was not tuned.
std::string SummaryTuningText(const nlohmann::json& summary);

}  // namespace capstan

#endif  // DEPLOY_CLI_TUNING_TEXT_H_
